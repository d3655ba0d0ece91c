"""Tensors as the runtime sees them: a pointer, a dtype, a shape. numpy arrays and torch tensors, no copy.

bf16 has no numpy dtype: a numpy array of uint16 is taken as the bit patterns of bf16.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .errors import ArgumentError

ITEM_BYTES = {"bf16": 2, "f16": 2, "f32": 4, "i32": 4}
_NUMPY_NAMES = {"uint16": "bf16", "float16": "f16", "float32": "f32", "int32": "i32"}
_TORCH_NAMES = {"torch.bfloat16": "bf16", "torch.float16": "f16", "torch.float32": "f32", "torch.int32": "i32"}
_NUMPY_STORAGE = {"bf16": np.uint16, "f16": np.float16, "f32": np.float32, "i32": np.int32}


@dataclass(frozen=True)
class View:
    """One tensor: pointer, dtype name (bf16, f16, f32; i32 of lists), shape, strides in elements, and where it lies. `owner` keeps it
    alive. The last stride is 1: rows are contiguous, and may lie apart."""

    pointer: int
    dtype: str
    shape: tuple[int, ...]
    device: str
    owner: Any
    strides: tuple[int, ...] = ()
    name: str = "tensor"

    @property
    def contiguous(self) -> bool:
        expected = 1
        for extent, stride in zip(reversed(self.shape), reversed(self.strides)):
            if extent > 1 and stride != expected:
                return False
            expected *= extent
        return True

    def as_tuple(self) -> tuple[int, str, list[int], int]:
        """(pointer, dtype, shape, bytes from row to row of a matrix or 0): what the runtime takes."""
        if self.contiguous or 0 in self.shape:
            return (self.pointer, self.dtype, list(self.shape), 0)
        if len(self.shape) != 2:
            raise ArgumentError(f"{self.name} of shape {list(self.shape)} is not contiguous: strides {list(self.strides)}",
                                "pass a contiguous copy (torch: x.contiguous())")
        if self.strides[0] < self.shape[1]:
            raise ArgumentError(f"rows of {self.name} overlap: shape {list(self.shape)}, strides {list(self.strides)}",
                                "pass a contiguous copy (torch: x.contiguous())")
        return (self.pointer, self.dtype, list(self.shape), self.strides[0] * ITEM_BYTES[self.dtype])

    def folded(self) -> View:
        """The same memory as a matrix: all dims but the last become rows. ArgumentError where the rows do not lie in equal
        steps: nothing is copied."""
        rows, pitch = 1, self.shape[-1]
        for extent, stride in zip(reversed(self.shape[:-1]), reversed(self.strides[:-1])):
            if extent > 1 and rows == 1:
                pitch = stride
            elif extent > 1 and stride != rows * pitch:
                raise ArgumentError(
                    f"{self.name} of shape {list(self.shape)} with strides {list(self.strides)} is no batch of rows in equal steps",
                    "pass a contiguous copy (torch: x.contiguous())")
            rows *= extent
        return replace(self, shape=(rows, self.shape[-1]), strides=(pitch, 1))


@functools.cache
def _is_torch_tensor(kind: type) -> bool:
    return kind.__module__.split(".")[0] == "torch" and hasattr(kind, "data_ptr")


def is_torch(value: Any) -> bool:
    """True for a torch tensor; torch is not imported for the question."""
    return _is_torch_tensor(type(value))


def address(value: Any) -> int:
    """Of the first element of a torch tensor or numpy array."""
    return value.data_ptr() if is_torch(value) else value.ctypes.data


def layout_key(value: Any) -> Any:
    """Equal for two tensors that differ in nothing but address and contents; None for what is no tensor."""
    if is_torch(value):
        return value.shape, value.dtype, value.device, value.stride()
    return (value.shape, value.dtype, value.strides) if isinstance(value, np.ndarray) else None


def view(value: Any, name: str = "tensor") -> View:
    """The View of a numpy array or torch tensor whose rows are contiguous.

    Raises ArgumentError where the value is neither, has rows that are not contiguous, or has a dtype other than bf16 (numpy: uint16),
    f16 and f32.
    """
    if is_torch(value):
        dtype = _TORCH_NAMES.get(str(value.dtype))
        if dtype is None:
            raise ArgumentError(f"{name} has dtype {value.dtype}", "use bfloat16, float16 or float32; int32 for lists")
        strides = tuple(value.stride())
        check_rows(name, tuple(value.shape), strides, "x.contiguous()")
        return View(value.data_ptr(), dtype, tuple(value.shape), value.device.type, value, strides, name)
    if isinstance(value, np.ndarray):
        dtype = _NUMPY_NAMES.get(value.dtype.name)
        if dtype is None:
            raise ArgumentError(f"{name} has dtype {value.dtype}", "use uint16 (bf16 bit patterns), float16 or float32; int32 for lists")
        if any(stride % value.itemsize for stride in value.strides):
            raise ArgumentError(f"{name} has strides of {value.strides} bytes, its elements {value.itemsize}",
                                "pass numpy.ascontiguousarray(x)")
        strides = tuple(stride // value.itemsize for stride in value.strides)
        check_rows(name, value.shape, strides, "numpy.ascontiguousarray(x)")
        return View(value.ctypes.data, dtype, tuple(value.shape), "cpu", value, strides, name)
    raise ArgumentError(f"{name} is a {type(value).__name__}", "pass a numpy array or a torch tensor")


def check_rows(name: str, shape: tuple[int, ...], strides: tuple[int, ...], remedy: str) -> None:
    """Refuses a tensor whose elements do not stand side by side along the last dim. It is never copied silently."""
    if shape and shape[-1] > 1 and strides[-1] != 1 and 0 not in shape:
        raise ArgumentError(f"rows of {name} are not contiguous: shape {list(shape)}, strides {list(strides)}",
                            f"pass {remedy}, or b.T in the function for a transposed operand")


def to_bf16(values: np.ndarray) -> np.ndarray:
    """Bit patterns (uint16) of the nearest bf16, ties to even; NaN stays NaN."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = (bits + (0x7FFF + ((bits >> 16) & 1)).astype(np.uint32)) >> 16
    quiet = (bits >> 16) | 0x40
    return np.where(np.isnan(values), quiet, rounded).astype(np.uint16)


def from_bf16(bits: np.ndarray) -> np.ndarray:
    """float32 values of bf16 bit patterns."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def pack(values: np.ndarray, dtype: str) -> np.ndarray:
    """float array to the storage of `dtype` (bf16: uint16 bit patterns)."""
    return to_bf16(values) if dtype == "bf16" else np.ascontiguousarray(values, dtype=_NUMPY_STORAGE[dtype])


def unpack(array: Any, dtype: str) -> np.ndarray:
    """float64 values of a numpy array or torch tensor that stores `dtype`."""
    if is_torch(array):
        return array.detach().to("cpu").double().numpy()
    return from_bf16(array).astype(np.float64) if dtype == "bf16" else array.astype(np.float64)


def empty(shape: tuple[int, ...], dtype: str, like: Any = None) -> Any:
    """An uninitialised tensor, of torch (on the same device) where `like` is of torch, else of numpy."""
    if like is not None and is_torch(like):
        import torch

        names = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
        return torch.empty(shape, dtype=names[dtype], device=like.device)
    return np.empty(shape, dtype=_NUMPY_STORAGE[dtype])
