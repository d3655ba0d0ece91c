"""How the GPU benchmarks measure: errors per tile, timing in bursts and sustained, methods rotated. Shared by ag_gemm.py and compute.py.

Burst: one call between events, L2 flushed before it by fills that also let the host queue the call first; the order of the
methods rotates, median. Sustained: back-to-back replays of a graph of calls, no flush, after a warm-up; each method twice, in
both orders, because the first one runs on a cooler chip.
"""
import statistics
import time

import torch

TILE = 128
STEP = {torch.bfloat16: 2.0 ** -8, torch.float16: 2.0 ** -11, torch.float32: 2.0 ** -23}


def error_over_tolerance(out, ref, k, absolute=1e-5):
    """Largest error of any tile over its tolerance (rounding of the output, fp32 sums of k products, and `absolute`, what
    rounding on the way may add); NaN is infinite."""
    worst, step = 0.0, STEP[out.dtype]
    for i in range(0, out.shape[0], 4096):   # 4096 rows at a time: memory
        o, r = out[i : i + 4096].float(), ref[i : i + 4096]
        e = (o - r).abs() / (step * r.abs() + 2e-6 * k ** 0.5 + absolute)
        e = torch.nan_to_num(e, nan=float("inf"), posinf=float("inf"))
        pad = torch.nn.functional.pad(e, (0, -e.shape[1] % TILE, 0, -e.shape[0] % TILE))
        if pad.numel():
            worst = max(worst, pad.view(pad.shape[0] // TILE, TILE, -1, TILE).amax(dim=(1, 3)).max().item())
    return worst


class Flush:
    """Writes 256 MiB, more than the L2 holds, a few times: the GPU is busy while the host queues what is timed."""

    def __init__(self, device):
        self.buffer = torch.empty(256 << 20, dtype=torch.uint8, device=device)

    def __call__(self, times=12):
        for value in range(times):
            self.buffer.fill_(value)


def rotated(methods, iterations, before, warm_up=2):
    """name -> ms of each iteration. `before()` runs in front of every call, outside of its events."""
    times = {name: [] for name in methods}
    names = list(methods)
    for iteration in range(iterations + warm_up):
        for offset in range(len(names)):
            name = names[(iteration + offset) % len(names)]
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            before()
            start.record()
            methods[name]()
            end.record()
            torch.cuda.synchronize()
            if iteration >= warm_up:
                times[name].append(start.elapsed_time(end))
    return times


def burst(methods, iterations, flush):
    """name -> ms, median of single calls with a cold L2."""
    return {name: statistics.median(values) for name, values in rotated(methods, iterations, flush).items()}


def captured(call, target_ms=10.0):
    """A graph of about `target_ms` of calls; how many calls it holds."""
    call()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    call()
    end.record()
    torch.cuda.synchronize()
    count = max(1, min(200, int(target_ms / max(start.elapsed_time(end), 1e-3))))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            call()
    return graph, count


def back_to_back(graph, count, seconds):
    """ms a call over about `seconds` of replays, after half as long to settle the clock."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    began = time.perf_counter()
    graph.replay()
    torch.cuda.synchronize()
    replays = max(2, round(seconds / max(time.perf_counter() - began, 1e-4)))
    for _ in range(replays // 2):
        graph.replay()
    start.record()
    for _ in range(replays):
        graph.replay()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / (replays * count)


def sustained(methods, seconds):
    """name -> ms a call, mean of two runs: one in the order of `methods`, one reversed."""
    graphs = {name: captured(call) for name, call in methods.items()}
    runs = {name: [] for name in methods}
    for order in (list(methods), list(methods)[::-1]):
        for name in order:
            runs[name].append(back_to_back(*graphs[name], seconds))
    return {name: statistics.mean(values) for name, values in runs.items()}
