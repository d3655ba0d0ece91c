"""`plait.attention` end to end in simulation: values, launch arguments, several outputs, errors."""

from __future__ import annotations

import numpy as np
import pytest

import plait
from plait.reference import check_tiles, evaluate
from plait.tensor import pack, unpack


@pytest.fixture
def cache(tmp_path) -> str:
    return str(tmp_path / "cache")


def draw(shape: tuple[int, ...], seed: int, dtype: str = "bf16") -> np.ndarray:
    return pack(2 * np.random.default_rng(seed).standard_normal(shape, dtype=np.float32), dtype)


def tensors(batch: int, queries: int, keys: int, heads: int, kv_heads: int, head_dim: int, layout: str = "bshd", dtype: str = "bf16"):
    shape = lambda rows, count: (batch, rows, count, head_dim) if layout == "bshd" else (batch, count, rows, head_dim)
    return [draw(shape(queries, heads), 1, dtype), draw(shape(keys, kv_heads), 2, dtype), draw(shape(keys, kv_heads), 3, dtype)]


def check(function, args: list[np.ndarray], seed: int = 1):
    """Calls and compares every element of every output with the reference."""
    [result] = function(*args, session=plait.SimSession("1x1", seed=seed))
    compiled = list(function._compiled.values())[-1]
    names = [output["name"] for output in compiled.graph.get("more_outputs", [])]
    results = result if isinstance(result, tuple) else (result,)
    for name, got in zip([compiled.graph["output"], *names], results):
        [expected] = evaluate(compiled.graph, {n: [x] for n, x in zip("qkv", args)}, name)
        assert got.shape == expected.value.shape
        found = check_tiles(unpack(got, "f32" if name in names else compiled.graph["output_dtype"]), expected, 64, 64)
        assert found.wrong_tiles == 0, (name, found)
    return result


@pytest.mark.parametrize(("head_dim", "layout", "dtype"), [(64, "bshd", "bf16"), (128, "bhsd", "f16"), (256, "bshd", "bf16")])
def test_result_and_log_sum_exp_are_right(head_dim: int, layout: str, dtype: str, cache: str) -> None:
    @plait.jit(cache_dir=cache)
    def attend(q, k, v):
        return plait.attention(q, k, v, causal=True, causal_offset=-3, layout=layout, lse=True)

    out, lse = check(attend, tensors(2, 70, 140, 4, 2, head_dim, layout, dtype))
    assert lse.dtype == np.float32 and lse.shape == (2, 4, 70)
    assert np.all(np.isneginf(lse[:, :, :3])), "the first three rows see no key"
    assert np.all(unpack(out, dtype)[(np.s_[:, :3] if layout == "bshd" else np.s_[:, :, :3])] == 0)


def test_one_compile_serves_every_length_and_batch(cache: str) -> None:
    @plait.jit(cache_dir=cache)
    def attend(q, k, v):
        return plait.attention(q, k, v, scale=0.25)

    for batch, queries, keys in [(1, 5, 9), (3, 65, 130), (1, 1, 200), (2, 0, 5), (2, 5, 0)]:
        check(attend, tensors(batch, queries, keys, 2, 1, 64))
    assert attend.compiles == 1
    check(attend, tensors(1, 5, 300, 2, 1, 64))
    assert attend.compiles == 2, "more keys than the range holds"
    check(attend, tensors(1, 5, 9, 4, 1, 64))
    assert attend.compiles == 3, "heads are part of the graph"


def test_out_is_filled(cache: str) -> None:
    @plait.jit(cache_dir=cache)
    def attend(q, k, v):
        return plait.attention(q, k, v, lse=True)

    args = tensors(1, 20, 30, 2, 1, 64)
    session = plait.SimSession("1x1")
    out = (np.full((1, 20, 2, 64), 0x7FFF, np.uint16), np.full((1, 2, 20), np.nan, np.float32))
    [made] = attend(*args, session=session)
    [given] = attend(*args, session=session, out=[out])
    assert given[0] is out[0] and given[1] is out[1]
    assert np.array_equal(made[0], out[0]) and np.array_equal(made[1], out[1])
    with pytest.raises(plait.ArgumentError, match=r"out\[0\] has 1 tensors, the function returns 2"):
        attend(*args, session=session, out=[out[0]])


def traced(body):
    return plait.jit(lambda q, k, v: body(q, k, v))


@pytest.mark.parametrize(
    ("body", "error", "text"),
    [
        (lambda q, k, v: plait.attention(q, k, v, layout="sbhd"), plait.ArgumentError, r"attention_test.py:\d+: attention layout 'sbhd'"),
        (lambda q, k, v: plait.attention(q, k, v, scale=0), plait.ArgumentError, r"attention_test.py:\d+: attention scale 0"),
        (lambda q, k, v: plait.attention(q, k, 3), plait.ScheduleError, r"attention_test.py:\d+: attention with a int as v"),
        (lambda q, k, v: plait.attention(q, k, v, causal_offset=2), plait.ScheduleError, r"attention_test.py:\d+.*causal_offset = 2 without causal|causal_offset = 2 without causal"),
        (lambda q, k, v: plait.relu(plait.attention(q, k, v)), plait.ScheduleError, "relu `relu` cannot be fused with attention"),
    ],
)
def test_what_a_trace_gets_wrong(body, error, text) -> None:
    with pytest.raises(error, match=text):
        traced(body)(*tensors(1, 8, 8, 2, 1, 64), session=plait.SimSession("1x1"))


def test_shapes_that_do_not_agree() -> None:
    attend = traced(lambda q, k, v: plait.attention(q, k, v))
    session = plait.SimSession("1x1")
    q, k, v = tensors(1, 8, 8, 2, 1, 64)
    with pytest.raises(plait.ArgumentError, match=r"keys is 8 in k.shape\[1\] and 7 in v.shape\[1\]"):
        attend(q, k, v[:, :7].copy(), session=session)
    with pytest.raises(plait.ArgumentError, match=r"batch is 1 in q.shape\[0\] and 2 in k.shape\[0\]"):
        attend(q, np.concatenate([k, k]), np.concatenate([v, v]), session=session)
    with pytest.raises(plait.ArgumentError, match=r"head_dim is 64 in q.shape\[3\] and 32 in k.shape\[3\]"):
        attend(q, k[..., :32].copy(), v, session=session)
    with pytest.raises(plait.ScheduleError, match="head dim 32 is not offered"):
        attend(q[..., :32].copy(), k[..., :32].copy(), v[..., :32].copy(), session=session)
    with pytest.raises(plait.ScheduleError, match="3 query heads cannot share 2 key heads"):
        attend(*tensors(1, 8, 8, 3, 2, 64), session=session)
    with pytest.raises(plait.ScheduleError, match="attention with q with 3 dims as q"):
        attend(q[0], k, v, session=session)
