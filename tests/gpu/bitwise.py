"""Bits over schedules: the outputs of one graph under schedules drawn by seed are the same bits, on one machine.

    python tests/gpu/bitwise.py                              # one GPU: 12 schedules a case, kernels compiled in 16 threads
    python tests/gpu/bitwise.py --simulate --schedules 3     # the same on the simulated machine, small

Attention (head dims 64, 128, 256, full and causal; result and log-sum-exp), matmul (both layouts of b) and grouped matmul (rows
sorted, rows by index), each at a length that divides nothing and at a whole one. Knobs are drawn from their legal values as the
package prints them; what the verifier or ptxas refuses is drawn again; schedules with equal plans count once. Outputs are
poisoned with NaN. So that a comparison that sees nothing is noticed, every case runs once more with one column of an input
changed, and must differ then. Exit code 0 only if no schedule differs and every change was seen.
"""
import argparse
import concurrent.futures
import json
import pathlib
import random
import sys
import tempfile
import time
import zlib
from dataclasses import dataclass

import torch
import torch.distributed as dist

import plait
from plait import _core
from plait.tensor import view

SCHEDULES = pathlib.Path(__file__).resolve().parents[2] / "schedules"
MATMUL_KNOBS = ("tile_m", "tile_n", "stages", "consumer_warpgroups", "cluster", "cluster_along", "raster_group", "output_boxes")
ATTENTION_KNOBS = ("consumer_warpgroups", "stages", "overlap", "turn", "head_group")
BITS = {"bf16": torch.int16, "f32": torch.int32}
DTYPES = {"bf16": torch.bfloat16, "f32": torch.float32}


@dataclass
class Case:
    name: str
    file: dict          # a schedule file
    knobs: tuple        # that are drawn
    launches: list      # (M, further launch arguments, name -> input)
    fixed: dict         # knobs that are not


def values(shape, device, scale=1.0):
    return (scale * torch.randn(shape, device=device)).bfloat16()


def attention_case(head_dim, causal, device, lengths):
    heads, kv_heads = 4, 2
    file = json.loads((SCHEDULES / "attention.json").read_text())
    for tensor, count in zip(file["graph"]["inputs"], (heads, kv_heads, kv_heads)):
        tensor["shape"][2:] = [count, head_dim]
    file["graph"]["ops"][0]["causal"] = causal
    launches = []
    for batch, rows, keys in lengths:
        # Scores of several sizes, so that maxima are raised now and then.
        q = values((batch, rows, heads, head_dim), device, 3) * torch.linspace(0.25, 1.75, rows, device=device)[:, None, None].bfloat16()
        k, v = (values((batch, keys, kv_heads, head_dim), device) for _ in range(2))
        launches.append((rows, {"batch": batch, "keys": keys}, {"q": q, "k": k, "v": v}))
    return Case(f"attention D{head_dim} {'causal' if causal else 'full'}", file, ATTENTION_KNOBS, launches, {})


def matmul_case(transpose_b, device, rows, n, k):
    file = json.loads((SCHEDULES / "matmul.json").read_text())
    file["problem"].update(n=n, k=k)
    if transpose_b:
        file["graph"]["inputs"][1]["shape"] = ["N", "K"]
        file["graph"]["ops"][0]["transpose_b"] = True
    b = values((n, k) if transpose_b else (k, n), device)
    launches = [(m, {}, {"a": values((m, k), device), "b": b}) for m in rows]
    return Case(f"matmul {'nt' if transpose_b else 'nn'}", file, MATMUL_KNOBS, launches, {"intra_comm": "none", "inter_send": "none"})


def grouped_case(by_index, device, tables, n, k):
    name = "grouped_matmul_rows" if by_index else "grouped_matmul"
    file = json.loads((SCHEDULES / f"{name}.json").read_text())
    file["problem"].update(n=n, k=k)
    launches = []
    for counts in tables:
        m, experts, tokens = sum(counts), len(counts), 301
        given = {"x": values((tokens if by_index else m, k), device), "w": values((experts, n, k), device),
                 "offs": torch.tensor(counts, device=device).cumsum(0).to(torch.int32)}
        params = {"experts": experts}
        if by_index:
            given["second"] = values((tokens, k), device)
            given["rows"] = torch.randint(0, 2 * tokens, (m,), device=device, dtype=torch.int32)
            params |= {"tokens": tokens, "second_tokens": tokens}
        launches.append((m, params, given))
    return Case(name, file, MATMUL_KNOBS, launches, {"intra_comm": "none", "inter_send": "none"})


def all_cases(device, small):
    lengths = [(1, 140, 275)] if small else [(2, 777, 1000), (1, 2048, 2048)]
    rows, n, k = ((70, 150), 136, 72) if small else ((1111, 2048), 1304, 712)
    tables = [[70, 0, 33]] if small else [[300, 0, 129, 1, 700, 64], [1024, 512]]
    return ([attention_case(d, causal, device, lengths) for d in (64, 128, 256) for causal in (False, True)]
            + [matmul_case(transpose_b, device, rows, n, k) for transpose_b in (False, True)]
            + [grouped_case(by_index, device, tables, n, k) for by_index in (False, True)])


class Drawing:
    """Requests of one case with different plans, in the order that the seed gives."""

    def __init__(self, case, seed, session):
        self.case, self.session, self.refused, self.plans = case, session, 0, set()
        self.random = random.Random(f"{seed} {case.name}")
        self.legal = {k["name"]: k["words"] or range(k["low"], min(k["high"], k["low"] + 16 * k["step"]) + 1, k["step"])
                      for k in _core.knobs() if k["name"] in case.knobs}

    def __next__(self):
        for _ in range(2000):
            knobs = {name: str(self.random.choice(legal)) for name, legal in self.legal.items()}
            request = _core.Request(json.dumps({**self.case.file, "schedule": {}}), self.case.name, self.session.topology,
                                    self.session.target, {**knobs, **self.case.fixed})
            try:
                plan = request.plan_text(False)
            except plait.ScheduleError:
                self.refused += 1
                continue
            if plan not in self.plans:
                self.plans.add(plan)
                return knobs, request
        raise SystemExit(f"{self.case.name}: 2000 draws gave no further schedule")


def build(drawn, cache):
    knobs, request = drawn
    try:
        return knobs, request.compile(cache)[0]
    except plait.CompileError:
        return None


def compiled(pending, drawing, pool, cache):
    """(knobs, artifact) of what is being built; where ptxas refuses, another one is drawn."""
    kernels = []
    while pending:
        built = pending.pop(0).result()
        if built is None:
            drawing.refused += 1
            pending.append(pool.submit(build, next(drawing), cache))
        else:
            kernels.append(built)
    return kernels


def bits_of(session, artifact, launches):
    """Output bits of all launches."""
    bits = []
    for m, params, given in launches:
        device = next(iter(given.values())).device
        tensors = []
        for (name, dtype, output), shape in zip(artifact.tensors, _core.tensor_shapes(artifact, 0, m, params)):
            tensors.append(torch.full(shape, float("nan"), dtype=DTYPES[dtype], device=device) if output else given[name])
            if output:
                bits.append(tensors[-1].view(BITS[dtype]))
        views = [view(tensor) for tensor in tensors]
        session.launch(artifact, m, [views] if isinstance(session, plait.SimSession) else views)
    return bits


def with_a_column_changed(launches):
    changed = []
    for m, params, given in launches:
        name = next(iter(given))
        other = given[name].clone()
        other.view(torch.int16)[..., 0] ^= 0x40   # the first bit of a bf16's fraction
        changed.append((m, params, {**given, name: other}))
    return changed


def check(case, kernels, session):
    """How many schedules print other bits than the first one; whether a changed input was seen."""
    first = bits_of(session, kernels[0][1], case.launches)
    differ = 0
    for knobs, artifact in kernels[1:]:
        if not all(torch.equal(a, b) for a, b in zip(first, bits_of(session, artifact, case.launches))):
            differ += 1
            print(f"  DIFFERS: {knobs} from {kernels[0][0]}", flush=True)
    # Every output of every launch must notice.
    other = bits_of(session, kernels[-1][1], with_a_column_changed(case.launches))
    return differ, not any(torch.equal(a, b) for a, b in zip(first, other))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", type=int, default=12, help="of each case")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--only", default="", help="cases whose name begins so")
    parser.add_argument("--simulate", action="store_true")
    parser.add_argument("--threads", type=int, default=16)
    args = parser.parse_args()
    began, failed, total, digest = time.perf_counter(), 0, 0, 0
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(args.threads) as pool:
        if args.simulate:
            session, device = plait.SimSession("1x1"), torch.device("cpu")
        else:
            dist.init_process_group("gloo", store=dist.FileStore(f"{folder}/store", 1), rank=0, world_size=1)
            session = plait.Session(gpus_per_node=1)
            device = torch.device("cuda", session.device)
        torch.manual_seed(zlib.crc32(args.seed.encode()))
        cases = [case for case in all_cases(device, args.simulate) if case.name.startswith(args.only)]
        drawings = [Drawing(case, args.seed, session) for case in cases]
        pending = [[pool.submit(build, next(drawing), folder) for _ in range(args.schedules)] for drawing in drawings]
        for case, drawing, building in zip(cases, drawings, pending):
            kernels = compiled(building, drawing, pool, folder)
            differ, seen = check(case, kernels, session)
            total, failed = total + len(kernels), failed + differ + (not seen)
            print(f"{case.name}: {len(kernels)} schedules, {differ} differ ({drawing.refused} refused); a changed input "
                  f"{'differs' if seen else 'IS NOT SEEN'}  [{time.perf_counter() - began:.0f} s]", flush=True)
        if not args.simulate:
            session.check()
            del session
            dist.destroy_process_group()
    print(f"{total} schedules of {len(cases)} cases, {failed} failures, {time.perf_counter() - began:.0f} s")
    return 1 if failed or not total else 0


if __name__ == "__main__":
    sys.exit(main())
