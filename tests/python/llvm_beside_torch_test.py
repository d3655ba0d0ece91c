"""plait's Clang/LLVM, torch's and Triton's live in one process: in every order of loading both still work."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

PLAIT = """
import numpy as np, plait, tempfile
from plait.tensor import to_bf16, from_bf16
@plait.jit(cache_dir=tempfile.mkdtemp())
def layer(a, b):
    return plait.all_gather(a) @ b
a = np.random.default_rng(0).standard_normal((32, 64), dtype=np.float32)
b = np.eye(64, dtype=np.float32)
out = layer([to_bf16(a[:16]), to_bf16(a[16:])], to_bf16(b), session=plait.SimSession("1x2"))
assert (out[0] == to_bf16(a)).all()
"""
TORCH = """
import torch
x = torch.randn(16, 16)
assert torch.allclose(x @ torch.eye(16), x)
try:
    import triton._C.libtriton
except ImportError:
    pass
"""


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.parametrize("order", [(PLAIT, TORCH), (TORCH, PLAIT), (PLAIT, TORCH, PLAIT)], ids=["plait first", "torch first", "both"])
def test_compilers_do_not_meet(order: tuple[str, ...]) -> None:
    done = subprocess.run([sys.executable, "-c", "".join(order)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
