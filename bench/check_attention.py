"""Attention on one GPU: every element right, for lengths that divide nothing.

    python bench/check_attention.py [--set knob=value ...]

Result and log-sum-exp against an fp32 softmax of torch (no TF32): both layouts, shared key heads, an offset diagonal, no keys,
no queries, head dims 64, 128, 256, bf16 and f16; outputs are poisoned with NaN. Exit code 0 only if all is right. compute.py times it.
"""
import argparse
import sys

import torch
import torch.distributed as dist

import plait


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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", action="append", default=[], metavar="knob=value")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    right = check(plait.Session(), dict(setting.split("=") for setting in options.set))
    dist.destroy_process_group()
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
