"""One compile serves every M of a range: 20 batch sizes, ragged ones among them, on one node of three GPUs."""

import numpy as np

import plait
from plait.tensor import from_bf16, to_bf16


@plait.jit
def project(x, weight):
    return plait.all_gather(x) @ weight.T   # weight [N, K]


def shard(matrix: np.ndarray, world: int) -> list[np.ndarray]:
    rows = -(-matrix.shape[0] // world)
    return [to_bf16(matrix[q * rows : (q + 1) * rows]) for q in range(world)]


def main() -> None:
    random = np.random.default_rng(0)
    weight = to_bf16(random.standard_normal((64, 64), dtype=np.float32))
    session = plait.SimSession("1x3")
    for m in range(1, 256, 13):
        x = random.standard_normal((m, 64), dtype=np.float32)
        shards = shard(x, session.world)
        outputs = project(shards, weight, session=session)
        expected = np.concatenate([from_bf16(s) for s in shards]) @ from_bf16(weight).T
        for output in outputs:
            assert np.abs(from_bf16(output) - expected).max() < 0.2
    print(f"{session.launches} launches, {project.compiles} compile")
    assert project.compiles == 1


if __name__ == "__main__":
    main()
