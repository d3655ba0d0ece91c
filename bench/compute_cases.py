"""What bench/compute.py measures: cases (op, shape, layout) and, for each, the methods side by side.

A Case knows its inputs, its fp32 reference and its methods: name -> a call that writes into its own output.
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
# batch, heads, key heads, queries, keys, head dim
ATTENTION = [((1, 32, 32, s, s, 128), causal) for s in (4096, 8192, 16384, 32768) for causal in (False, True)] \
    + [((1, 64, 8, 8192, 8192, 128), True)] + [((1, 32, 32, 8192, 8192, d), causal) for d in (64, 256) for causal in (False, True)]
# rows, n, k, experts
GROUPED = [((rows, 2048, 7168, experts), kind) for rows, experts in ((8192 * 8, 32), (8192 * 2, 32), (4096 * 8, 32), (8192 * 2, 4))
           for kind in ("uniform", "zipf")]
TOKENS = 8192
# One step above a multiple of every tile, and the multiple after it: their times may differ by 5 %.
STEPS = [((4097, 4096, 4096), (4352, 4096, 4096)), ((4096, 4104, 4096), (4096, 4352, 4096)), ((4096, 4096, 4104), (4096, 4096, 4160))]


def held_out(seed, count=20):
    """Shapes that nobody tuned for, the same for the same seed: (M, N, K, layout)."""
    chosen = random.Random(seed)
    eighths = lambda: 8 * chosen.randint(64, 2048)
    return [(chosen.randint(1, 16384), eighths(), eighths(), chosen.choice(("nn", "nt"))) for _ in range(count)]


MATMUL = {"nn": lambda a, b: a @ b, "nt": lambda a, b: a @ b.T, "tn": lambda a, b: a.T @ b}


@dataclass
class Case:
    op: str
    shape: tuple
    layout: str
    dtype: torch.dtype
    methods: dict = field(default_factory=dict)
    outputs: dict = field(default_factory=dict)
    timed: dict = field(default_factory=dict)      # calls to time where they differ from those that are checked
    refresh: object = None      # fresh inputs, from a seed
    reference: object = None    # -> fp32
    depth: int = 1              # products summed for one element: scales the tolerance
    absolute: float = 1e-5      # tolerance beside it, see measure.py
    flop: float = 0.0

    def output_of(self, *shape, device):
        """name -> that method's own output tensor."""
        def make(name):
            self.outputs[name] = torch.empty(*shape, dtype=self.dtype, device=device)
            return self.outputs[name]
        return make

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


def variants_of(function, variants):
    """Method name -> jitted function, one for each set of knobs: {"": {}} alone gives "plait"."""
    return {"plait" + (f"_{name}" if name else ""): plait.jit(function, schedule=knobs) for name, knobs in variants.items()}


def matmul_case(session, m, n, k, layout, dtype, variants):
    """plait.matmul beside torch.matmul (cuBLAS)."""
    device = torch.device("cuda", session.device)
    a = torch.empty((k, m) if layout == "tn" else (m, k), dtype=dtype, device=device)
    b = torch.empty((n, k) if layout == "nt" else (k, n), dtype=dtype, device=device)
    left, right = a.T if layout == "tn" else a, b.T if layout == "nt" else b
    case = Case("matmul", (m, n, k), layout, dtype, depth=k, flop=2.0 * m * n * k)
    out = case.output_of(m, n, device=device)
    for name, function in variants_of(MATMUL[layout], variants).items():
        case.methods[name] = lambda f=function, o=out(name): f(a, b, session=session, out=o)
    case.methods["cublas"] = lambda o=out("cublas"): torch.mm(left, right, out=o)
    case.refresh = lambda seed: (fill(a, seed, k ** -0.25), fill(b, seed + 1000, k ** -0.25))
    case.reference = lambda: left.float() @ right.float()
    return case


def attention_case(session, batch, heads, kv_heads, queries, keys, dim, causal, dtype, variants):
    """plait.attention beside SDPA: cuDNN's and the flash backend, replayed as graphs. Tensors are [batch, sequence, heads, dim]."""
    device = torch.device("cuda", session.device)
    q = torch.empty(batch, queries, heads, dim, dtype=dtype, device=device)
    k, v = (torch.empty(batch, keys, kv_heads, dim, dtype=dtype, device=device) for _ in range(2))
    layout = "causal" if causal else "full"
    case = Case("attention", (batch, heads, kv_heads, queries, keys, dim), layout, dtype, depth=keys, absolute=2.0 ** -8)   # probabilities are rounded, too
    case.flop = 4.0 * batch * heads * queries * keys * dim / (2 if causal else 1)
    case.refresh = lambda seed: [fill(t, seed + i, 1.0) for i, t in enumerate((q, k, v))]
    swapped = lambda t: t.transpose(1, 2)
    grouped = kv_heads != heads
    out = case.output_of(*q.shape, device=device)
    function = lambda q, k, v: plait.attention(q, k, v, causal=causal, causal_offset=keys - queries, layout="bshd")
    for name, jitted in variants_of(function, variants).items():
        case.methods[name] = lambda f=jitted, o=out(name): f(q, k, v, session=session, out=o)

    def sdpa(backend):
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(swapped(q), swapped(k), swapped(v), is_causal=causal, enable_gqa=grouped)

    # The copy into the poisoned output belongs to the check alone: timed calls leave the result where SDPA puts it.
    for name, backend in (("cudnn", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)):
        case.methods[name] = lambda b=backend, o=out(name): o.copy_(swapped(sdpa(b)))
        case.timed[name] = lambda b=backend: sdpa(b)

    def reference():
        group, result = heads // kv_heads, torch.empty(q.shape, device=device)
        for b in range(batch):
            for head in range(heads):   # one head at a time: memory
                one = [t[b : b + 1, :, h : h + 1].transpose(1, 2).float() for t, h in ((q, head), (k, head // group), (v, head // group))]
                result[b, :, head] = F.scaled_dot_product_attention(*one, is_causal=causal)[0, 0]
        return result

    case.reference = reference
    return case


def routing(kind, rows, experts, seed=11):
    """Rows of each expert: a draw of one expert a row, alike or with weights 1 / rank in some order."""
    generator = torch.Generator().manual_seed(seed)
    weights = torch.ones(experts)
    if kind == "zipf":
        weights = (1.0 / torch.arange(1, experts + 1))[torch.randperm(experts, generator=generator)]
    return torch.bincount(torch.multinomial(weights, rows, replacement=True, generator=generator), minlength=experts).tolist()


GROUPED_FORMS = {"sorted": lambda x, w, offs: plait.grouped_matmul(x, w.mT, offs),
                 "gathered": lambda x, w, offs, rows, second: plait.grouped_matmul(x, w.mT, offs, rows=rows, second=second)}


def grouped_functions(knobs):
    """Form -> jitted function."""
    return {form: plait.jit(function, schedule=knobs) for form, function in GROUPED_FORMS.items()}


@dataclass
class GroupedOperands:
    """Tokens [tokens, k] in two tensors, indices into both, the sorted copy [rows, k], weights [experts, n, k], ends of segments."""
    first: torch.Tensor
    second: torch.Tensor
    index: torch.Tensor
    sorted_rows: torch.Tensor
    weights: torch.Tensor
    offs: torch.Tensor

    def arguments(self, form):
        if form == "sorted":
            return self.sorted_rows, self.weights, self.offs
        return self.first, self.weights, self.offs, self.index, self.second

    def refresh(self, seed):
        for i, tensor in enumerate((self.first, self.second)):
            fill(tensor, seed + i, 1.0)
        fill(self.weights, seed + 1000, self.weights.shape[2] ** -0.5)
        torch.index_select(torch.cat([self.first, self.second]), 0, self.index, out=self.sorted_rows)


def grouped_operands(counts, n, k, tokens, dtype=torch.bfloat16, seed=11):
    make = lambda *shape: torch.empty(*shape, device="cuda", dtype=dtype)
    generator = torch.Generator(device="cuda").manual_seed(seed)
    index = torch.randint(0, 2 * tokens, (sum(counts),), device="cuda", dtype=torch.int32, generator=generator)
    given = GroupedOperands(make(tokens, k), make(tokens, k), index, make(sum(counts), k), make(len(counts), n, k),
                            torch.tensor(counts, device="cuda").cumsum(0).to(torch.int32))
    given.refresh(seed)
    return given


def grouped_case(session, rows, n, k, experts, kind, dtype, variants):
    """plait.grouped_matmul, with sorted rows and with rows named by index, beside torch._grouped_mm, which has sorted rows alone."""
    counts = routing(kind, rows, experts)
    given = grouped_operands(counts, n, k, TOKENS, dtype)
    case = Case("grouped_matmul", (rows, n, k, experts), kind, dtype, depth=k, flop=2.0 * rows * n * k, refresh=given.refresh)
    out = case.output_of(rows, n, device=given.first.device)
    for suffix, knobs in variants.items():
        for form, function in grouped_functions(knobs).items():
            name = "_".join(part for part in ("plait", "gathered" if form == "gathered" else "", suffix) if part)
            case.methods[name] = lambda f=function, a=given.arguments(form), o=out(name): f(*a, session=session, out=o)
    call = lambda: torch._grouped_mm(given.sorted_rows, given.weights.mT, offs=given.offs)
    case.methods["torch_grouped"] = lambda o=out("torch_grouped"): o.copy_(call())
    case.timed["torch_grouped"] = call

    def reference():
        ends = given.offs.tolist()
        return torch.cat([given.sorted_rows[first:last].float() @ given.weights[e].float().t()
                          for e, (first, last) in enumerate(zip([0] + ends, ends))])

    case.reference = reference
    return case
