"""AllGather + GEMM + bias + gelu, every element of every rank checked. The same program runs

    python examples/01_ag_gemm.py                        # on two nodes of two GPUs, simulated
    torchrun --nproc-per-node 4 examples/01_ag_gemm.py   # as four ranks: on GPUs, on CPUs where there are none

`--gpus-per-node 2` makes two nodes of torchrun's four ranks, with an emulated network between them.
"""

import argparse

import torch
import torch.distributed as dist

import plait

M, N, K = 260, 192, 128


@plait.jit
def ag_gemm(a, b, bias):   # a: this rank's rows, b: this rank's columns
    return plait.gelu(plait.all_gather(a, dim=0) @ b + bias)


def draw(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).bfloat16()


def run(session) -> None:
    rows = -(-M // session.world)   # the last rank may have fewer
    a = draw(0, M, K).split(rows)
    b = [draw(1 + rank, K, N) / K**0.5 for rank in range(session.world)]
    bias = draw(100, N)

    here = [tensor.to(session.place) for tensor in (bias, *a, *b)]
    bias_here, a_here, b_here = here[0], here[1 : 1 + session.world], here[1 + session.world :]
    outputs = ag_gemm([a_here[rank] for rank in session.ranks], [b_here[rank] for rank in session.ranks],
                      [bias_here for _ in session.ranks], session=session, m=M)
    session.synchronize()

    for rank, output in zip(session.ranks, outputs):
        expected = torch.nn.functional.gelu(torch.cat(a).double() @ b[rank].double() + bias.double())
        error = (output.cpu().double() - expected).abs()
        tiles = (error / expected.abs().clamp(min=1e-3)).nan_to_num(nan=torch.inf).split(64)
        print(f"rank {rank} of {session.world} on {session.place}: largest error of a tile "
              f"{max(tile.max().item() for tile in tiles):.1e} of its value", flush=True)
        torch.testing.assert_close(output.cpu().double(), expected, rtol=2**-8, atol=1e-5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus-per-node", type=int, help="by default what shares a machine is a node")
    chosen = parser.parse_args()
    launched = dist.is_torchelastic_launched()   # by torchrun
    if launched:
        dist.init_process_group("gloo")   # plait meets at its store
        if torch.cuda.is_available():
            torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    try:
        with plait.open_session(simulate="2x2", gpus_per_node=chosen.gpus_per_node) as session:
            run(session)
    finally:
        if launched:
            dist.destroy_process_group()


if __name__ == "__main__":
    main()
