"""What a warm call through @plait.jit costs in Python, without the binding and the launch: both are left out of it.

    PYTHONPATH=build/python python bench/warm_call.py

Needs torch and no GPU: a Session of one rank on the CPU, whose launches are dropped after the first.
"""
import tempfile
import time

import torch
import torch.distributed as dist

import plait

CALLS, REPEATS = 5000, 7


@plait.jit
def matmul(a, b):
    return a @ b


class Nothing:
    def launch(self, artifact, m, tensors, stream):
        pass


def best_us(call):
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        for _ in range(CALLS):
            call()
        times.append((time.perf_counter() - began) / CALLS * 1e6)
    return min(times)


def main():
    dist.init_process_group("gloo", store=dist.FileStore(tempfile.mktemp(), 1), rank=0, world_size=1)
    try:
        with plait.Session(device="cpu") as session:
            a, b, out = (torch.randn(128, 128).bfloat16() for _ in range(3))
            matmul(a, b, session=session, out=out)
            matmul(a, b, session=session)
            session._session = Nothing()
            print(f"three tensors given: {best_us(lambda: matmul(a, b, session=session, out=out)):.2f} us a call")
            print(f"output made by the call: {best_us(lambda: matmul(a, b, session=session)):.2f} us a call")
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
