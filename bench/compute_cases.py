"""What bench/compute.py measures: cases (op, shape, layout) and, for each, the methods side by side.

A Case knows its inputs, its fp32 reference and its methods: name -> a call that writes into its own output. Methods that this
build or this machine lacks are left out and named in `missing`.
"""
import random
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import plait
from measure import error_over_tolerance

SQUARE = [(s, s, s) for s in (2048, 4096, 8192, 16384)]
LAYERS = [(m, n, k) for n, k in ((14336, 8192), (8192, 14336)) for m in (512, 2048, 8192)]
# One step above a multiple of every tile, and the multiple after it: their times may differ by 5 %.
STEPS = [((4097, 4096, 4096), (4352, 4096, 4096)), ((4096, 4104, 4096), (4096, 4352, 4096)), ((4096, 4096, 4104), (4096, 4096, 4160))]


def held_out(seed, count=20):
    """Shapes that nobody tuned for, the same for the same seed: (M, N, K, layout)."""
    chosen = random.Random(seed)
    eighths = lambda: 8 * chosen.randint(64, 2048)
    return [(chosen.randint(1, 16384), eighths(), eighths(), chosen.choice(("nn", "nt"))) for _ in range(count)]


@plait.jit
def matmul_nn(a, b):
    return a @ b


@plait.jit
def matmul_nt(a, b):
    return a @ b.T


@plait.jit
def matmul_tn(a, b):
    return a.T @ b


MATMUL = {"nn": matmul_nn, "nt": matmul_nt, "tn": matmul_tn}


@dataclass
class Case:
    op: str
    shape: tuple
    layout: str
    dtype: torch.dtype
    methods: dict = field(default_factory=dict)
    outputs: dict = field(default_factory=dict)
    timed: dict = field(default_factory=dict)      # calls to time where they differ from those that are checked
    missing: dict = field(default_factory=dict)
    refresh: object = None      # fresh inputs, from a seed
    reference: object = None    # -> fp32
    depth: int = 1              # products summed for one element: scales the tolerance
    absolute: float = 1e-5      # tolerance beside it, see measure.py
    flop: float = 0.0

    def check(self, seeds=(1, 2)):
        """method -> largest error of a tile over its tolerance, over fresh inputs, outputs poisoned with NaN."""
        worst = {name: 0.0 for name in self.methods}
        for seed in seeds:
            self.refresh(seed)
            expected = self.reference()
            for name, call in self.methods.items():
                self.outputs[name].fill_(float("nan"))
                call()
                torch.cuda.synchronize()
                flat = lambda t: t.reshape(-1, t.shape[-1])
                worst[name] = max(worst[name], error_over_tolerance(flat(self.outputs[name]), flat(expected), self.depth, self.absolute))
            del expected
        return worst


def fill(tensor, seed, scale):
    generator = torch.Generator(device=tensor.device).manual_seed(seed)
    tensor.copy_(torch.randn(tensor.shape, generator=generator, device=tensor.device) * scale)


def matmul_case(session, m, n, k, layout, dtype):
    """plait.matmul beside torch.matmul (cuBLAS)."""
    device = torch.device("cuda", session.device)
    a = torch.empty((k, m) if layout == "tn" else (m, k), dtype=dtype, device=device)
    b = torch.empty((n, k) if layout == "nt" else (k, n), dtype=dtype, device=device)
    left, right = a.T if layout == "tn" else a, b.T if layout == "nt" else b
    case = Case("matmul", (m, n, k), layout, dtype, depth=k, flop=2.0 * m * n * k)
    case.outputs = {name: torch.empty(m, n, dtype=dtype, device=device) for name in ("plait", "cublas")}
    case.methods = {"plait": lambda: MATMUL[layout](a, b, session=session, out=case.outputs["plait"]),
                    "cublas": lambda: torch.mm(left, right, out=case.outputs["cublas"])}
    case.refresh = lambda seed: (fill(a, seed, k ** -0.25), fill(b, seed + 1000, k ** -0.25))
    case.reference = lambda: left.float() @ right.float()
    return case


def attention_case(session, batch, heads, kv_heads, queries, keys, dim, causal, dtype):
    """plait.attention beside SDPA: cuDNN's and the flash backend. Tensors are [batch, sequence, heads, dim]."""
    device = torch.device("cuda", session.device)
    q = torch.empty(batch, queries, heads, dim, dtype=dtype, device=device)
    k, v = (torch.empty(batch, keys, kv_heads, dim, dtype=dtype, device=device) for _ in range(2))
    layout = "causal" if causal else "full"
    case = Case("attention", (batch, heads, kv_heads, queries, keys, dim), layout, dtype, depth=keys, absolute=2.0 ** -8)   # probabilities are rounded, too
    case.flop = 4.0 * batch * heads * queries * keys * dim / (2 if causal else 1)
    case.refresh = lambda seed: [fill(t, seed + i, 1.0) for i, t in enumerate((q, k, v))]
    swapped = lambda t: t.transpose(1, 2)
    grouped = kv_heads != heads

    def sdpa(backend, output):
        def call():
            with sdpa_kernel(backend):
                result = F.scaled_dot_product_attention(swapped(q), swapped(k), swapped(v), is_causal=causal, enable_gqa=grouped)
            output.copy_(swapped(result)) if output is not None else None
        return call

    case.outputs = {name: torch.empty_like(q) for name in ("plait", "cudnn", "flash")}
    # The copy into the poisoned output belongs to the check alone: timed calls leave the result where SDPA puts it.
    case.methods = {"cudnn": sdpa(SDPBackend.CUDNN_ATTENTION, case.outputs["cudnn"]),
                    "flash": sdpa(SDPBackend.FLASH_ATTENTION, case.outputs["flash"])}
    case.timed = {"cudnn": sdpa(SDPBackend.CUDNN_ATTENTION, None), "flash": sdpa(SDPBackend.FLASH_ATTENTION, None)}
    if hasattr(plait, "attention"):
        offset = keys - queries
        function = plait.jit(lambda q, k, v: plait.attention(q, k, v, causal=causal, causal_offset=offset, layout="bshd"))
        case.methods["plait"] = lambda: function(q, k, v, session=session, out=case.outputs["plait"])
    else:
        case.missing["plait"] = "this build has no plait.attention"

    def reference():
        group = heads // kv_heads
        wide = [swapped(t).float().repeat_interleave(1 if t is q else group, dim=1) for t in (q, k, v)]
        return torch.cat([swapped(F.scaled_dot_product_attention(*(t[i : i + 1] for t in wide), is_causal=causal))
                          for i in range(batch)])

    case.reference = reference
    return case


def grouped_case(session, rows, n, k, experts, dtype):
    """plait.grouped_matmul beside torch._grouped_mm: x [rows, k] in `experts` uneven groups, w [experts, k, n]."""
    device = torch.device("cuda", session.device)
    x = torch.empty(rows, k, dtype=dtype, device=device)
    w = torch.empty(experts, k, n, dtype=dtype, device=device)
    cuts = sorted(random.Random(rows + n).randint(0, rows) for _ in range(experts - 1)) + [rows]
    offs = torch.tensor(cuts, dtype=torch.int32, device=device)
    case = Case("grouped_matmul", (rows, n, k, experts), "nn", dtype, depth=k, flop=2.0 * rows * n * k)
    case.outputs = {name: torch.empty(rows, n, dtype=dtype, device=device) for name in ("plait", "torch_grouped")}
    case.refresh = lambda seed: (fill(x, seed, k ** -0.25), fill(w, seed + 1000, k ** -0.25))
    case.reference = lambda: torch.cat([x[first:last].float() @ w[e].float() for e, (first, last) in enumerate(zip([0] + cuts, cuts))])
    case.methods = {"torch_grouped": lambda: case.outputs["torch_grouped"].copy_(torch._grouped_mm(x, w, offs=offs))}
    case.timed = {"torch_grouped": lambda: torch._grouped_mm(x, w, offs=offs)}
    if hasattr(plait, "grouped_matmul"):
        function = plait.jit(lambda x, w, offs: plait.grouped_matmul(x, w, offs))
        case.methods["plait"] = lambda: function(x, w, offs, session=session, out=case.outputs["plait"])
    else:
        case.missing["plait"] = "this build has no plait.grouped_matmul"
    return case
