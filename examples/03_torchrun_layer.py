"""The layer of example 01 on GPUs: torchrun --nproc-per-node 2 examples/03_torchrun_layer.py"""

import torch
import torch.distributed as dist

import plait


@plait.jit
def layer(a, b, bias):
    return plait.gelu(plait.all_gather(a, dim=0) @ b + bias)


def main() -> None:
    dist.init_process_group("nccl")
    try:
        rank, world = dist.get_rank(), dist.get_world_size()
        torch.cuda.set_device(rank % torch.cuda.device_count())
        torch.manual_seed(rank)
        m, n, k = 4096, 2048, 4096
        a = torch.randn(m // world, k, device="cuda", dtype=torch.bfloat16)
        b = torch.randn(k, n, device="cuda", dtype=torch.bfloat16) / k**0.5
        bias = torch.randn(n, device="cuda", dtype=torch.bfloat16)

        session = plait.Session()
        output = layer(a, b, bias, session=session)
        torch.cuda.synchronize()
        session.check()

        gathered = torch.empty(m, k, device="cuda", dtype=torch.bfloat16)
        dist.all_gather_into_tensor(gathered, a)
        expected = torch.nn.functional.gelu(gathered.float() @ b.float() + bias.float())
        error = ((output.float() - expected).abs().max() / expected.abs().max()).item()
        print(f"rank {rank}: largest error {error:.1e} of the largest value")
        assert error < 1e-2
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
