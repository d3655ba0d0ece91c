"""Launches what build_ag_gemm.py compiled: results against fp32 products, then times against torch.matmul.

    python3 tests/gpu/run_ag_gemm.py FOLDER [--no-checks]

Needs torch and one GPU (GEMM) or two with peer access (ag_gemm 1 x 2). Exits 1 on any wrong element. Outputs are
poisoned with NaN before each checked launch. Timing: candidates rotated, L2 flushed before each launch, a pause before
it so that the power limit hardly acts (burst), median.
"""
import argparse
import ctypes
import json
import pathlib
import statistics
import struct
import sys
import time

import torch

CU = ctypes.CDLL("libcuda.so.1")
STATE_WORDS = 32         # DeviceState: 16 words, then StallRecord
ABORT_WORD, STALL_WORD = 5, 16
LINE_BYTES = 128


def check(code, what):
    if code != 0:
        raise RuntimeError(f"{what}: CUDA driver error {code}")


def session_area(world):
    """entered, told, abort: a line each; see templates/abi/kernel_args.h."""
    return LINE_BYTES * (2 * world + 1)


class Gpu:
    """One GPU: its primary context made current, modules, L2 flush buffer."""

    def __init__(self, index):
        self.index = index
        self.device = torch.device("cuda", index)
        self.context = ctypes.c_void_p()
        with torch.cuda.device(index):
            torch.zeros(1, device=self.device)
            self.flush_buffer = torch.empty(256 << 20, dtype=torch.uint8, device=self.device)
            self.stream = torch.cuda.current_stream()
        check(CU.cuDevicePrimaryCtxRetain(ctypes.byref(self.context), index), "cuDevicePrimaryCtxRetain")
        self.sms = torch.cuda.get_device_properties(index).multi_processor_count

    def current(self):
        torch.cuda.set_device(self.index)
        check(CU.cuCtxSetCurrent(self.context), "cuCtxSetCurrent")

    def flush(self):
        """Long enough (about 0.7 ms) that the host has queued the timed launch before the GPU gets to it: otherwise the
        host's time in torch.matmul is inside the reading."""
        for value in range(10):
            self.flush_buffer.fill_(value)


def tensor_map(address, extent, strides, box):
    storage = ctypes.create_string_buffer(256)
    aligned = (ctypes.addressof(storage) + 63) // 64 * 64
    extent = [max(e, 1) for e in extent]
    code = CU.cuTensorMapEncodeTiled(
        ctypes.c_void_p(aligned), 9, 3, ctypes.c_void_p(address), (ctypes.c_uint64 * 3)(*extent), (ctypes.c_uint64 * 2)(*strides),
        (ctypes.c_uint32 * 3)(*box), (ctypes.c_uint32 * 3)(1, 1, 1), 0, 3, 3, 0)
    check(code, f"cuTensorMapEncodeTiled {extent} {strides} {box}")
    return ctypes.string_at(aligned, 128)


class Kernel:
    """A configuration on one GPU, bound to its tensors."""

    def __init__(self, folder, c, gpu, rank, m, a, b, out, peers_workspace=None, wait_ms=2000, epilogue=()):
        """epilogue: bias f32 [n] and residual bf16 [m, n] where the configuration has one."""
        self.epilogue = epilogue
        self.c, self.gpu, self.m, self.out = c, gpu, m, out
        gpu.current()
        self.module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        check(CU.cuModuleLoadData(ctypes.byref(self.module), (folder / (c["name"] + ".cubin")).read_bytes()), "cuModuleLoadData")
        check(CU.cuModuleGetFunction(ctypes.byref(self.function), self.module, b"plait_kernel"), "cuModuleGetFunction")
        a_bytes = c["tile_m"] * 128
        b_bytes = (c["tile_n"] + 63) // 64 * 8192 if c["nn"] else c["tile_n"] * 128
        self.shared = (c["stages"] * (a_bytes + b_bytes) + 32768 + 16 + 8 * (2 * c["stages"] + 8) + 1023) // 1024 * 1024
        self.shared = c.get("shared", self.shared)
        check(CU.cuFuncSetAttribute(self.function, 8, self.shared), "cuFuncSetAttribute")
        self.state = torch.zeros(STATE_WORDS, dtype=torch.int64, device=gpu.device)
        self.host = torch.zeros(7 * 16, dtype=torch.int64).pin_memory()   # HostLines
        self.workspaces = peers_workspace or [torch.zeros(4096, dtype=torch.uint8, device=gpu.device)]
        self.args = ctypes.create_string_buffer(self.pack(rank, a, b, out, int(wait_ms * 1e6)))
        self.parameters = (ctypes.c_void_p * 1)(ctypes.addressof(self.args))

    def pack(self, rank, a, b, out, wait_ns):
        c, m = self.c, self.m
        world, n, k = c["world"], c["n"], c["k"]
        workspaces = [w.data_ptr() for w in self.workspaces] + [0] * (16 - len(self.workspaces))
        area = session_area(world)
        launch = struct.pack("<4Q16Q4Qq6iQQ", self.state.data_ptr(), self.host.data_ptr(), 0, 0, *workspaces, 0, 0, wait_ns, wait_ns,
                             m, rank, world, 0, 1, rank, world, area, m)
        shard = max(-(-m // world), 1)
        own = min(shard, max(m - rank * shard, 0))
        tail_rows, full = m % shard, m // shard
        a_full = self.workspaces[rank].data_ptr() + area
        slot = c["shard_max"] * k * 2
        box_a = [64, c["tile_m"], 1]
        maps = [tensor_map(a.data_ptr() or b.data_ptr(), [k, own, 1], [k * 2, max(own, 1) * k * 2], box_a)]
        for rows in (shard, tail_rows):
            maps.append(tensor_map(a_full if world > 1 else a.data_ptr(), [k, rows, 2 * world], [k * 2, slot], box_a))
        if c["nn"]:
            maps.append(tensor_map(b.data_ptr(), [n, k, 1], [n * 2, n * k * 2], [64, 64, 1]))
        else:
            maps.append(tensor_map(b.data_ptr(), [k, n, 1], [k * 2, n * k * 2], [64, c["tile_n"], 1]))
        maps.append(tensor_map(out.data_ptr(), [n, shard, full], [n * 2, shard * n * 2], [64, 64, 1]))
        tail_address = out.data_ptr() + (full * shard * n * 2 if tail_rows else 0)
        maps.append(tensor_map(tail_address, [n, tail_rows, 1], [n * 2, shard * n * 2], [64, 64, 1]))
        if c.get("args") == 640:   # emitted for one rank: one map each
            maps = [maps[0], maps[3], maps[4]]
        tensors = [a, b, out, *self.epilogue]
        head = launch + struct.pack(f"<{len(tensors)}Q", *(t.data_ptr() for t in tensors))
        return head + bytes(-len(head) % 64) + b"".join(maps)

    def launch(self):
        self.gpu.current()
        check(CU.cuLaunchKernel(self.function, self.gpu.sms, 1, 1, 384, 1, 1, self.shared, ctypes.c_void_p(self.gpu.stream.cuda_stream),
                                self.parameters, None), "cuLaunchKernel")

    def stall(self):
        words = self.state.tolist()
        return words[STALL_WORD:] if words[ABORT_WORD] else None


def compare(out, reference, tile=128):
    """(violations, largest error, tiles with a violation) of |err| <= 2^-8 |ref| + 0.06; NaN is a violation."""
    error = (out.float() - reference).abs()
    bad = ~(error <= reference.abs() / 256 + 0.06)
    tiles = torch.nn.functional.pad(bad, (0, -bad.shape[1] % tile, 0, -bad.shape[0] % tile))
    tiles = tiles.view(tiles.shape[0] // tile, tile, tiles.shape[1] // tile, tile).any(3).any(1).sum().item()
    return bad.sum().item(), error.nan_to_num(float("inf")).max().item(), tiles


def operands(gpu, m, n, k, seed):
    generator = torch.Generator(device=gpu.device).manual_seed(seed)
    a = torch.randn(m, k, device=gpu.device, generator=generator, dtype=torch.float32).bfloat16()
    b = torch.randn(k, n, device=gpu.device, generator=generator, dtype=torch.float32).bfloat16()
    return a, b


def burst(candidates, gpus, repeats, pause_s):
    """Median microseconds of each candidate (name -> launch functions, one a GPU): the slower GPU of each launch."""
    samples = {name: [] for name in candidates}
    for _ in range(repeats):
        for name, launches in candidates.items():
            for gpu in gpus:
                gpu.current()
                torch.cuda.synchronize()
            time.sleep(pause_s)
            events = []
            for gpu in gpus:
                gpu.current()
                gpu.flush()
            for gpu, launch in zip(gpus, launches):
                gpu.current()
                start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                start.record()
                launch()
                end.record()
                events.append((start, end))
            for gpu, (_, end) in zip(gpus, events):
                gpu.current()
                end.synchronize()
            samples[name].append(max(start.elapsed_time(end) for start, end in events) * 1e3)
    return {name: (statistics.median(times), min(times), max(times)) for name, times in samples.items()}


def train(candidates, gpus, count):
    """Microseconds a launch in a row of `count` without a flush, the slower GPU; order of candidates as given, twice."""
    result = {}
    for turn in range(2):
        for name, launches in candidates.items():
            events = []
            for gpu in gpus:
                gpu.current()
                torch.cuda.synchronize()
                events.append([torch.cuda.Event(enable_timing=True) for _ in range(2)])
            for i in range(count):
                for gpu, launch, (start, _) in zip(gpus, launches, events):
                    gpu.current()
                    if i == 0:
                        start.record()
                    launch()
            for gpu, (start, end) in zip(gpus, events):
                gpu.current()
                end.record()
                end.synchronize()
            result[name] = max(start.elapsed_time(end) for start, end in events) * 1e3 / count
    return result


def table(title, times, flops, reference):
    print(title)
    for name, (median, low, high) in times.items():
        print(f"  {name:44s} {median:9.1f} us  {flops / median / 1e6:7.1f} TFLOP/s  ratio {times[reference][0] / median:6.3f}  ({low:.1f} .. {high:.1f})")
    sys.stdout.flush()


def gemm_checks(folder, configs, gpu):
    failures = 0
    for c in configs:
        m = 1152 if c["n"] == 3648 else (4096 if c["n"] == 4096 else 2048)
        a, b = operands(gpu, m, c["n"], c["k"], 1)
        reference = a.float() @ b.float()
        weight = b if c["nn"] else b.t().contiguous()
        out = torch.full((m, c["n"]), float("nan"), device=gpu.device, dtype=torch.bfloat16)
        epilogue = ()
        if c["epilogue"]:
            bias, residual = torch.randn(c["n"], device=gpu.device), torch.randn(m, c["n"], device=gpu.device).bfloat16()
            reference = torch.nn.functional.gelu(reference + bias) + residual.float()
            epilogue = (bias, residual)
        kernel = Kernel(folder, c, gpu, 0, m, a, weight, out, epilogue=epilogue)
        worst = (0, 0.0, 0)
        for _ in range(3):
            out.fill_(float("nan"))
            kernel.launch()
            torch.cuda.synchronize()
            worst = max(worst, compare(out, reference))
        failures += worst[0]
        print(f"check {c['name']:44s} M {m}: {worst[0]} violations in {worst[2]} tiles, largest error {worst[1]:.3f}")
        sys.stdout.flush()
    return failures


def gemm_times(folder, configs, gpu, m, n, k):
    a, b = operands(gpu, m, n, k, 2)
    b_nt = b.t().contiguous()
    outs = [torch.empty(m, n, device=gpu.device, dtype=torch.bfloat16) for _ in range(2)]
    candidates = {"torch.matmul nn": [lambda: torch.matmul(a, b, out=outs[0])],
                  "torch.matmul nt": [lambda: torch.matmul(a, b_nt.t(), out=outs[0])]}
    bias, residual = torch.randn(n, device=gpu.device), torch.randn(m, n, device=gpu.device).bfloat16()
    epilogue, bias_bf16 = (bias, residual), bias.bfloat16()
    candidates["torch addmm, gelu, add residual"] = [
        lambda: torch.add(torch.nn.functional.gelu(torch.addmm(bias_bf16, a, b, out=outs[0])), residual, out=outs[0])]
    for c in configs:
        if (c["n"], c["k"], c["world"]) == (n, k, 1):
            kernel = Kernel(folder, c, gpu, 0, m, a, b if c["nn"] else b_nt, outs[1], epilogue=epilogue if c["epilogue"] else ())
            candidates[c["name"]] = [kernel.launch]
    for launches in candidates.values():
        for _ in range(3):
            launches[0]()
    table(f"burst {m} x {n} x {k}", burst(candidates, [gpu], 20, 0.003), 2 * m * n * k, "torch.matmul nn")
    row = train(candidates, [gpu], max(20, int(0.1 / (2 * m * n * k / 7e14))))
    print("  back to back, us:", {name: round(us, 1) for name, us in row.items()})


def pair(folder, c, gpus, m, seed, wait_ms=2000):
    n, k, world = c["n"], c["k"], 2
    shard = max(-(-m // world), 1)
    full_a, _ = operands(gpus[0], m, 1, k, seed)
    bytes_needed = session_area(world) + 2 * world * c["shard_max"] * k * 2 + 8 * world * (-(-c["shard_max"] // 64)) + 1024
    workspaces = [torch.zeros(bytes_needed, dtype=torch.uint8, device=gpu.device) for gpu in gpus]
    kernels = []
    for rank, gpu in enumerate(gpus):
        gpu.current()
        a = full_a[rank * shard:min((rank + 1) * shard, m)].to(gpu.device).contiguous()
        _, b = operands(gpu, 1, n, k, seed + 10 + rank)
        out = torch.full((m, n), float("nan"), device=gpu.device, dtype=torch.bfloat16)
        kernel = Kernel(folder, c, gpu, rank, m, a, b, out, workspaces, wait_ms)
        kernel.a, kernel.b = a, b
        kernels.append(kernel)
    return full_a, kernels


def ag_checks(folder, c, gpus, m):
    """Several launches, A changed before each: stale bytes of an earlier epoch are wrong bytes."""
    full_a, kernels = pair(folder, c, gpus, m, 5)
    shard = max(-(-m // 2), 1)
    failures = 0
    for epoch in range(5):
        full_a.mul_(-1.5 if epoch % 2 else 0.75)
        for rank, (gpu, kernel) in enumerate(zip(gpus, kernels)):
            gpu.current()
            kernel.a.copy_(full_a[rank * shard:min((rank + 1) * shard, m)])
            kernel.out.fill_(float("nan"))
            torch.cuda.synchronize()
        for kernel in kernels if epoch % 2 == 0 else kernels[::-1]:
            kernel.launch()
            if epoch == 3:
                time.sleep(0.05)
        for gpu, kernel in zip(gpus, kernels):
            gpu.current()
            torch.cuda.synchronize()
            violations, largest, tiles = compare(kernel.out, full_a.to(gpu.device).float() @ kernel.b.float())
            failures += violations + (kernel.stall() is not None)
            if violations or kernel.stall() or epoch == 4:
                print(f"check {c['name']} M {m} rank {gpu.index} epoch {epoch + 1}: {violations} violations in {tiles} tiles, "
                      f"largest error {largest:.3f}, stall {kernel.stall()}")
    sys.stdout.flush()
    return failures


def ag_times(folder, configs, gpus, m, n, k):
    candidates, keep = {}, []
    full_a, _ = operands(gpus[0], m, 1, k, 7)
    shard = m // 2
    shards = [full_a[r * shard:(r + 1) * shard].to(gpu.device).contiguous() for r, gpu in enumerate(gpus)]
    gathered = [full_a.to(gpu.device) for gpu in gpus]
    weights = [operands(gpu, 1, n, k, 20 + r)[1] for r, gpu in enumerate(gpus)]
    outs = [torch.empty(m, n, device=gpu.device, dtype=torch.bfloat16) for gpu in gpus]

    def matmul(r):
        torch.matmul(gathered[r], weights[r], out=outs[r])

    def gather_matmul(r):
        gathered[r][(1 - r) * shard:(2 - r) * shard].copy_(shards[1 - r], non_blocking=True)
        torch.matmul(gathered[r], weights[r], out=outs[r])

    candidates["torch.matmul, A already whole"] = [lambda r=r: matmul(r) for r in range(2)]
    candidates["peer copy, then torch.matmul"] = [lambda r=r: gather_matmul(r) for r in range(2)]
    for c in configs:
        if (c["n"], c["k"], c["world"]) == (n, k, 2):
            _, kernels = pair(folder, c, gpus, m, 7)
            keep.append(kernels)
            candidates[c["name"]] = [kernel.launch for kernel in kernels]
    for launches in candidates.values():
        for _ in range(2):
            for gpu, launch in zip(gpus, launches):
                gpu.current()
                launch()
    table(f"burst ag_gemm 1x2 {m} x {n} x {k}", burst(candidates, gpus, 20, 0.003), 2 * m * n * k, "torch.matmul, A already whole")
    row = train(candidates, gpus, 40)
    print("  back to back, us:", {name: round(us, 1) for name, us in row.items()})
    for kernels in keep:
        for kernel in kernels:
            if kernel.stall():
                print("  STALL", kernel.c["name"], kernel.stall())


def stall_check(folder, c, gpus):
    """Rank 0 alone: its loader must give up within the deadline, say where, and end; no hang, no trap."""
    _, kernels = pair(folder, c, gpus, 700, 9, wait_ms=50)
    start = time.time()
    kernels[0].launch()
    torch.cuda.synchronize()
    stall = kernels[0].stall()
    passed = stall is not None and stall[0] >= 1 << 32 and stall[1] == 2 and stall[9] == 0
    print(f"check stall: {stall} after {time.time() - start:.3f} s: {'ok' if passed else 'WRONG'}")
    return 0 if passed else 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--no-checks", action="store_true")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    configs = json.loads((options.folder / "configs.json").read_text())
    gpus = [Gpu(i) for i in range(min(2, torch.cuda.device_count()))]
    begin = time.time()
    print(torch.cuda.get_device_name(0), torch.__version__, "SMs", gpus[0].sms)
    gpus[0].current()
    failures = 0 if options.no_checks else gemm_checks(options.folder, [c for c in configs if c["world"] == 1], gpus[0])
    print(f"{time.time() - begin:.0f} s")
    for m, n, k in ((4096, 4096, 4096), (8192, 8192, 8192), (2048, 14336, 8192)):
        gemm_times(options.folder, configs, gpus[0], m, n, k)
        print(f"{time.time() - begin:.0f} s")
    if len(gpus) == 2:
        for gpu, other in (gpus, gpus[::-1]):
            gpu.current()
            code = CU.cuCtxEnablePeerAccess(other.context, 0)
            if code not in (0, 704):   # 704: enabled already
                check(code, "cuCtxEnablePeerAccess")
        small = [c for c in configs if c["n"] == 1088]
        for c in small:
            for m in (1280, 1100, 700, 65, 1):
                failures += ag_checks(options.folder, c, gpus, m)
            failures += stall_check(options.folder, c, gpus)
        for m, n, k in ((2048, 14336, 8192), (8192, 4096, 8192)):
            for c in configs:
                if (c["world"], c["n"]) == (2, n):
                    failures += ag_checks(options.folder, c, gpus, m)
            ag_times(options.folder, configs, gpus, m, n, k)
            print(f"{time.time() - begin:.0f} s")
    print("FAILED" if failures else "all results right")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
