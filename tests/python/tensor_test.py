"""Views of tensors and the bf16 conversion."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import plait
from plait.tensor import from_bf16, pack, to_bf16, unpack, view


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_bf16_is_the_nearest_neighbour(x: float) -> None:
    value = np.float32(x)
    bits = to_bf16(np.array([value]))
    got = from_bf16(bits).astype(np.float64)[0]
    patterns = [int(bits[0]) + step for step in (-1, 1) if 0 <= int(bits[0]) + step < 65536]
    with np.errstate(invalid="ignore"):   # a neighbour of the largest number is a signalling NaN
        neighbours = from_bf16(np.array(patterns, dtype=np.uint16)).astype(np.float64)
    if np.isfinite(got):
        assert all(abs(got - float(value)) <= abs(n - float(value)) for n in neighbours if np.isfinite(n))


def test_bf16_ties_go_to_even() -> None:
    low, high = np.float32(1.0), from_bf16(np.array([0x3F81], dtype=np.uint16))[0]
    assert to_bf16(np.array([(low + high) / 2]))[0] == 0x3F80
    next_high = from_bf16(np.array([0x3F82], dtype=np.uint16))[0]
    assert to_bf16(np.array([(high + next_high) / 2]))[0] == 0x3F82


def test_bf16_keeps_nan_and_infinity() -> None:
    values = from_bf16(to_bf16(np.array([np.nan, np.inf, -np.inf], dtype=np.float32)))
    assert np.isnan(values[0]) and values[1] == np.inf and values[2] == -np.inf


def test_every_bf16_pattern_survives_a_round_trip() -> None:
    bits = np.arange(65536, dtype=np.uint16)
    finite = bits[np.isfinite(from_bf16(bits))]
    assert (to_bf16(from_bf16(finite)) == finite).all()


@pytest.mark.parametrize(("array", "dtype"), [(np.uint16, "bf16"), (np.float16, "f16"), (np.float32, "f32")])
def test_view_of_numpy(array: type, dtype: str) -> None:
    source = np.zeros((3, 5), dtype=array)
    seen = view(source)
    assert (seen.pointer, seen.dtype, seen.shape, seen.device) == (source.ctypes.data, dtype, (3, 5), "cpu")


def test_view_refuses_other_dtypes_strides_and_types() -> None:
    with pytest.raises(plait.ArgumentError, match="a has dtype float64"):
        view(np.zeros(3), "a")
    with pytest.raises(plait.ArgumentError, match="not contiguous"):
        view(np.zeros((4, 4), dtype=np.float32).T)
    with pytest.raises(plait.ArgumentError, match="is a list"):
        view([1.0])


def test_pack_and_unpack_agree() -> None:
    values = np.array([[1.5, -2.25]], dtype=np.float32)
    for dtype in ("bf16", "f16", "f32"):
        assert (unpack(pack(values, dtype), dtype) == values).all()


def test_view_of_torch() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.zeros(2, 3, dtype=torch.bfloat16)
    seen = view(tensor)
    assert (seen.pointer, seen.dtype, seen.shape, seen.device) == (tensor.data_ptr(), "bf16", (2, 3), "cpu")
    with pytest.raises(plait.ArgumentError, match="torch.int64"):
        view(torch.zeros(2, dtype=torch.int64))
