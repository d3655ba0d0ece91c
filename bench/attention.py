"""Attention on one GPU: plait beside torch's cuDNN and flash backends, in one run.

    python bench/attention.py [--check] [--table] [--long] [--set knob=value ...] [--variant NAME:knob=value,...]

Correctness first: every element of result and log-sum-exp against an fp32 softmax of torch (no TF32) for lengths that divide
nothing, both layouts, shared key heads and an offset diagonal; outputs are poisoned with NaN. Timing: CUDA events around one
call behind a sleep kernel, so that no host time is inside; 256 MB are written in front of each, 2 ms pause, candidates
rotated, median. torch's calls are replayed as graphs. TFLOP/s = 4 heads queries keys head_dim / time, halved where causal.
"""
import argparse
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import plait

# heads, key heads, head dim, length, causal
SHAPES = [(32, 32, 128, 4096, False), (32, 32, 128, 4096, True), (32, 32, 128, 8192, False), (32, 32, 128, 8192, True),
          (32, 32, 128, 16384, False), (32, 32, 128, 16384, True), (64, 8, 128, 8192, True), (32, 32, 64, 8192, False),
          (32, 32, 64, 8192, True), (16, 16, 256, 8192, False), (16, 16, 256, 8192, True)]
LONG = [(32, 32, 128, 32768, False), (32, 32, 128, 32768, True)]


def compiled(causal, offset=0, layout="bshd", scale=None, knobs=None):
    """A jitted function of its own: mask, layout and knobs are in the signature."""
    @plait.jit(schedule=knobs or None)
    def attention(q, k, v):
        return plait.attention(q, k, v, causal=causal, causal_offset=offset, layout=layout, scale=scale, lse=True)
    return attention


def reference(q, k, v, causal, offset, scale):
    """fp32 result and log-sum-exp of [batch, heads, rows, head_dim] tensors, and the weighted |v| that bounds rounding."""
    q, k, v = q.float(), k.float(), v.float()
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.transpose(-1, -2) * scale
    if causal:
        rows = torch.arange(q.shape[2], device=q.device)[:, None]
        scores.masked_fill_(torch.arange(k.shape[2], device=q.device)[None, :] > rows + offset, float("-inf"))
    lse = torch.logsumexp(scores, -1) if k.shape[2] else torch.full(q.shape[:3], float("-inf"), device=q.device)
    weights = torch.exp(scores - torch.where(lse.isinf(), 0.0, lse)[..., None])
    return weights @ v, lse, weights @ v.abs()


def check(session, knobs):
    """Worst error over its bound of every case; at most 1 is right."""
    # heads, key heads, causal, offset, layout: a kernel; then batch, queries, keys of one range each: launches of it
    kernels = [(4, 2, False, 0, "bshd", [(1, 777, 1000), (2, 600, 513), (1, 1024, 1024), (1, 1000, 700)]),
               (5, 1, True, 0, "bshd", [(1, 777, 1000), (3, 600, 600), (1, 1000, 520)]),
               (4, 4, True, -100, "bhsd", [(1, 700, 600), (2, 1000, 1000)]),
               (2, 2, True, 400, "bhsd", [(2, 600, 900)]),
               (2, 1, False, 0, "bhsd", [(1, 100, 0), (1, 1, 1), (2, 65, 129), (1, 0, 5), (4, 200, 256)])]
    worst_of_all = 0.0
    cases = [(dtype, d, *kernel[:-1], *shape, function)
             for dtype in (torch.bfloat16, torch.float16) for d in (64, 128, 256)
             for kernel in (kernels if dtype == torch.bfloat16 else kernels[1:2])
             for function in [compiled(kernel[2], kernel[3], kernel[4], None, knobs)] for shape in kernel[-1]]
    for dtype, d, heads, kv, causal, offset, layout, batch, rows, keys, function in cases:
        step = 2.0**-8 if dtype == torch.bfloat16 else 2.0**-11
        draw = lambda n, h, size: size * torch.randn((batch, n, h, d) if layout == "bshd" else (batch, h, n, d), device="cuda").to(dtype)
        q, k, v = draw(rows, heads, 3), draw(keys, kv, 1), draw(keys, kv, 1)
        out = (torch.full_like(q, float("nan")), torch.full((batch, heads, rows), float("nan"), device="cuda"))
        function(q, k, v, session=session, out=out)
        session.check()
        first = (lambda x: x) if layout == "bhsd" else (lambda x: x.transpose(1, 2))
        value, lse, size = reference(first(q), first(k), first(v), causal, offset, d**-0.5)
        error = (first(out[0]).float() - value).abs() / (1.02 * step * (value.abs() + size) + 1e-4)
        same = out[1] == lse
        lse_error = torch.where(same, 0.0, (out[1] - lse).abs() / (1e-4 + 4e-6 * lse.abs()))
        worst = [torch.nan_to_num(x, nan=float("inf")).max().item() if x.numel() else 0.0 for x in (error, lse_error)]
        worst_of_all = max(worst_of_all, *worst)
        if max(worst) > 1:
            print(f"WRONG {dtype} batch {batch} heads {heads}/{kv} D {d} {rows} x {keys} causal {causal} offset {offset} {layout}: "
                  f"{worst[0]:.2f} {worst[1]:.2f} of the bound", flush=True)
    print(f"{len(cases)} cases, worst error {worst_of_all:.3f} of its bound: {'correct' if worst_of_all <= 1 else 'WRONG'}", flush=True)
    return worst_of_all <= 1


def graph_of(call):
    for _ in range(2):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def table(session, shapes, variants):
    flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    built = []
    for heads, kv, d, s, causal in shapes:
        # torch wants heads in front, plait takes either: transposed views of one memory for both
        q = torch.randn(1, heads, s, d, device="cuda", dtype=torch.bfloat16)
        k = torch.randn(1, kv, s, d, device="cuda", dtype=torch.bfloat16)
        v = torch.randn_like(k)
        out = (torch.empty_like(q), torch.empty(1, heads, s, device="cuda"))
        run = {}
        for name, backend in (("cudnn", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)):
            with sdpa_kernel([backend]):
                run[name] = graph_of(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=heads != kv))
        for name, knobs in variants.items():
            try:
                function = compiled(causal, 0, "bhsd", None, knobs)
                function(q, k, v, session=session, out=out)
                times_ms = next(iter(function._compiled.values())).stats
                if not times_ms["cache_hit"]:
                    built.append(times_ms["total_ms"])
                run[name] = lambda f=function: f(q, k, v, session=session, out=out)
            except plait.Error as error:
                print(f"  {name} D{d}: {str(error).splitlines()[0][:150]}")
        times = {name: [] for name in run}
        for i in range(20 if s <= 8192 else 7):
            for name, call in run.items():
                if name == "flash" and i > 3:
                    continue
                flush.fill_(i)
                torch.cuda.synchronize()
                time.sleep(0.002)
                torch.cuda._sleep(700_000)
                start, end = torch.cuda.Event(True), torch.cuda.Event(True)
                start.record()
                call()
                end.record()
                torch.cuda.synchronize()
                times[name].append(start.elapsed_time(end))
        session.check()
        median = {name: statistics.median(values) for name, values in times.items()}
        flops = 4 * heads * s * s * d / (2 if causal else 1)
        cells = "  ".join(f"{name} {ms:.4f} ({flops / ms / 1e9:.0f}, {median['cudnn'] / ms:.3f})" for name, ms in median.items())
        print(f"{heads}/{kv} D{d} S{s} {'causal' if causal else 'full'}: {cells}", flush=True)
    if built:
        print(f"{len(built)} kernels compiled cold, {min(built):.0f} to {max(built):.0f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--long", action="store_true", help="also 32768")
    parser.add_argument("--set", action="append", default=[], metavar="knob=value")
    parser.add_argument("--variant", action="append", default=[], metavar="NAME:knob=value,...")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    session = plait.Session()
    knobs = dict(setting.split("=") for setting in options.set)
    right = check(session, knobs) if options.check else True
    if options.table and right:
        variants = {"plait": knobs}
        for text in options.variant:
            name, _, settings = text.partition(":")
            variants[name] = {**knobs, **dict(setting.split("=") for setting in settings.split(","))}
        table(session, SHAPES + (LONG if options.long else []), variants)
    dist.destroy_process_group()
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
