"""AllGather + GEMM + bias + gelu on a simulated cluster of two nodes with two GPUs each, checked against numpy."""

import numpy as np

import plait
from plait.tensor import from_bf16, to_bf16


@plait.jit
def layer(a, b, bias):
    return plait.gelu(plait.all_gather(a, dim=0) @ b + bias)


def main() -> None:
    random = np.random.default_rng(0)
    m, n, k, world = 260, 192, 128, 4
    a = random.standard_normal((m, k), dtype=np.float32)
    shards = [to_bf16(a[q * 65 : (q + 1) * 65]) for q in range(world)]
    b = [to_bf16(random.standard_normal((k, n), dtype=np.float32)) for _ in range(world)]
    bias = to_bf16(random.standard_normal(n, dtype=np.float32))

    session = plait.SimSession("2x2", seed=1)
    outputs = layer(shards, b, bias, session=session)

    gathered = np.concatenate([from_bf16(s) for s in shards])
    for rank, output in enumerate(outputs):
        x = gathered @ from_bf16(b[rank]) + from_bf16(bias)
        expected = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))   # within 1e-3 of gelu
        error = np.abs(from_bf16(output) - expected).max() / np.abs(expected).max()
        assert error < 1e-2, f"rank {rank}: error {error}"
        print(f"rank {rank}: [{output.shape[0]}, {output.shape[1]}], largest error {error:.1e} of the largest value")
    for link in layer.last_report.links:
        if link.bytes:
            print(f"rank {link.source} -> rank {link.target}: {link.bytes} bytes over {'network' if link.network else 'nvlink'}")


if __name__ == "__main__":
    main()
