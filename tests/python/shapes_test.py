"""Which tensors and worlds a call takes: any M, batches, rows that lie apart, offsets past 4 GiB. All in simulation."""

from __future__ import annotations

import mmap

import numpy as np
import pytest

import plait
from plait.reference import check_tiles, evaluate
from plait.tensor import pack, unpack, view

NAN = np.uint16(0xFFFF)
_NO_RESERVE = 0x4000   # Linux; the mmap module names it from Python 3.13 on
WORLDS = ["1x1", "1x2", "1x3", "1x5", "1x7", "1x8", "2x1", "2x3", "2x5", "2x7", "2x8", "3x1", "3x5", "4x1", "4x3", "4x4"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> str:
    return str(tmp_path_factory.mktemp("cache"))


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def shards(matrix: np.ndarray, world: int) -> list[np.ndarray]:
    rows = max(-(-matrix.shape[0] // world), 1)
    return [pack(matrix[q * rows : (q + 1) * rows], "bf16") for q in range(world)]


def apart(array: np.ndarray, gap: int) -> np.ndarray:
    """The same values as a view whose rows lie `gap` elements further apart; NaN between them."""
    buffer = np.full((array.shape[0], array.shape[1] + gap), NAN, dtype=array.dtype)
    buffer[:, : array.shape[1]] = array
    return buffer[:, : array.shape[1]]


def gaps_of(part: np.ndarray) -> np.ndarray:
    """What lies between the rows of a view made by apart()."""
    return part.base[:, part.shape[1] :]


def assert_right(function, tensors: dict[str, list], outputs: list) -> None:
    graph = list(function._compiled.values())[-1].graph
    for output, expected in zip(outputs, evaluate(graph, tensors)):
        flat = np.ascontiguousarray(output).reshape(expected.value.shape)
        result = check_tiles(unpack(flat, "bf16"), expected, 64, 64)
        assert result.wrong_tiles == 0, result


@pytest.mark.parametrize("label", WORLDS)
def test_any_world_and_any_m(label: str, cache: str) -> None:
    @plait.jit(cache_dir=cache)
    def nn(a, b):
        return plait.all_gather(a, dim=0) @ b

    @plait.jit(cache_dir=cache)
    def nt(a, b):
        return plait.all_gather(a, dim=0) @ b.T

    session = plait.SimSession(label, seed=5, network="unordered")
    n, k = 40, 72
    for m in (0, 1, session.world - 1, 70):   # no rows at all, ranks without rows, a short last shard
        a = shards(draw(m, k, seed=m), session.world)
        b = [draw(k, n, seed=100 + rank) for rank in range(session.world)]
        for function, operand in ((nn, [pack(x, "bf16") for x in b]), (nt, [pack(np.ascontiguousarray(x.T), "bf16") for x in b])):
            outputs = function(a, operand, session=session, m=m)
            assert outputs[0].shape == (m, n)
            assert_right(function, {"a": a, "b": operand}, outputs)


@pytest.mark.parametrize("label", ["1x2", "2x2"])
def test_rows_that_lie_apart_are_taken_as_they_are(label: str, cache: str) -> None:
    @plait.jit(cache_dir=cache)
    def layer(a, b, bias, residual):
        return plait.all_gather(a, dim=0) @ b + bias + residual

    session = plait.SimSession(label, seed=3)
    world, m, n, k = session.world, 75, 72, 136
    tight = {"a": shards(draw(m, k), world), "b": [pack(draw(k, n, seed=1), "bf16")] * world,
             "bias": [pack(draw(n, seed=2), "bf16")] * world, "residual": [pack(draw(m, n, seed=3), "bf16")] * world}
    loose = {"a": [apart(x, 24) for x in tight["a"]], "b": [apart(x, 8) for x in tight["b"]], "bias": tight["bias"],
             "residual": [apart(x, 40) for x in tight["residual"]]}
    out = [apart(np.full((m, n), NAN), 16) for _ in range(world)]
    results = layer(*loose.values(), session=session, out=out)
    assert_right(layer, tight, results)
    assert all((gaps_of(x) == NAN).all() for x in out), "the kernel wrote between the rows of its output"
    plain = layer(*tight.values(), session=session)
    assert all((x == y).all() for x, y in zip(plain, results)), "a pitch changed the result"
    assert layer.compiles == 1, "a pitch is a launch value"


def test_rows_apart_without_communication(cache: str) -> None:
    @plait.jit(cache_dir=cache)
    def layer(a, b):
        return a @ b.T

    session = plait.SimSession("1x1", seed=3)
    tight = {"a": [pack(draw(70, 72), "bf16")], "b": [pack(draw(40, 72, seed=1), "bf16")]}
    outputs = layer(apart(tight["a"][0], 8), apart(tight["b"][0], 64), session=session)
    assert_right(layer, tight, outputs)


def test_halves_of_one_buffer_are_two_arguments(cache: str) -> None:
    @plait.jit(cache_dir=cache)
    def layer(a, b, residual):
        return a @ b + residual

    session = plait.SimSession("1x1", seed=3)
    both = pack(draw(70, 72 + 40), "bf16")
    a, residual, b = both[:, :72], both[:, 72:], pack(draw(72, 40, seed=1), "bf16")
    for left, right in ((a, residual), (a.copy(), residual), (a, residual.copy())):
        outputs = layer(left, b, right, session=session)
        assert_right(layer, {"a": [a], "b": [b], "residual": [residual]}, outputs)


def test_strides_that_no_copy_can_take_are_refused_with_the_remedy(cache: str) -> None:
    @plait.jit(cache_dir=cache)
    def layer(a, b):
        return a @ b

    session = plait.SimSession("1x1")
    a, b = pack(draw(16, 64), "bf16"), pack(draw(64, 64), "bf16")
    cases = [
        (apart(a, 4), r"rows of tensor `a` are 128 bytes long and lie 136 bytes apart, not a multiple of 16", "pad the rows"),
        (np.lib.stride_tricks.as_strided(a, strides=(64, 2)), r"rows of a\[0\] overlap: shape \[16, 64\], strides \[32, 1\]", "contiguous copy"),
        (np.broadcast_to(a[0], (16, 64)), r"rows of a\[0\] overlap: shape \[16, 64\], strides \[0, 1\]", "contiguous copy"),
        (pack(draw(64, 16), "bf16").T, r"rows of a\[0\] are not contiguous: shape \[16, 64\], strides \[1, 16\]", "ascontiguousarray"),
        (a[::-1], r"rows of a\[0\] overlap: .* strides \[-64, 1\]", "contiguous copy"),
        (a[:, ::-1], r"rows of a\[0\] are not contiguous", "ascontiguousarray"),
    ]
    for given, message, remedy in cases:
        with pytest.raises(plait.ArgumentError, match=message) as caught:
            layer(given, b, session=session)
        assert remedy in caught.value.hint


def test_batch_dims_are_folded(cache: str) -> None:
    @plait.jit(cache_dir=cache)
    def layer(x, w, residual):
        return plait.gelu(x @ w) + residual

    session = plait.SimSession("1x1", seed=4)
    x, w, residual = draw(3, 5, 64), draw(64, 40, seed=1), draw(3, 5, 40, seed=2)
    outputs = layer(pack(x, "bf16"), pack(w, "bf16"), pack(residual, "bf16"), session=session)
    assert outputs[0].shape == (3, 5, 40)
    flat = {"x": [pack(x.reshape(15, 64), "bf16")], "w": [pack(w, "bf16")], "residual": [pack(residual.reshape(15, 40), "bf16")]}
    assert_right(layer, flat, outputs)


def test_gathered_batches_are_folded(cache: str) -> None:
    @plait.jit(cache_dir=cache)
    def layer(x, w):
        return plait.all_gather(x, dim=0) @ w

    session = plait.SimSession("2x2", seed=4)
    x, w = draw(8, 5, 64), pack(draw(64, 40, seed=1), "bf16")
    given = [pack(x[2 * rank : 2 * rank + 2], "bf16") for rank in range(4)]
    out = [np.full((8, 5, 40), NAN) for _ in range(4)]
    outputs = layer(given, w, session=session, out=out)
    assert outputs[0] is out[0]
    assert_right(layer, {"x": [g.reshape(10, 64) for g in given], "w": [w] * 4}, outputs)


def test_batches_with_rows_apart_are_folded_where_their_steps_are_equal(cache: str) -> None:
    @plait.jit(cache_dir=cache)
    def layer(x, w):
        return x @ w

    session = plait.SimSession("1x1", seed=4)
    wide, w = pack(draw(3, 5, 128), "bf16"), pack(draw(64, 40, seed=1), "bf16")
    outputs = layer(wide[:, :, :64], w, session=session)
    assert_right(layer, {"x": [np.ascontiguousarray(wide[:, :, :64]).reshape(15, 64)], "w": [w]}, outputs)
    with pytest.raises(plait.ArgumentError, match=r"x\[0\] of shape \[3, 4, 64\] with strides \[640, 128, 1\] is no batch of rows"):
        layer(wide[:, :4, :64], w, session=session)


def test_batches_that_differ_and_batched_weights_are_refused(cache: str) -> None:
    @plait.jit(cache_dir=cache)
    def layer(x, w, residual):
        return x @ w + residual

    session = plait.SimSession("1x1")
    x, w = pack(draw(3, 4, 64), "bf16"), pack(draw(64, 40), "bf16")
    with pytest.raises(plait.ArgumentError, match=r"residual\[0\] has dims \[4, 3, 40\], x\[0\] has \[4\] between"):
        layer(x, w, pack(draw(4, 3, 40), "bf16"), session=session)
    with pytest.raises(plait.ScheduleError, match="matmul of w with 3 dims"):
        layer(x, pack(draw(2, 64, 40), "bf16"), pack(draw(3, 4, 40), "bf16"), session=session)


def sparse(rows: int, columns: int, pitch_bytes: int) -> np.ndarray:
    """A matrix of NaN whose rows lie far apart in memory that exists only where it is touched."""
    memory = mmap.mmap(-1, rows * pitch_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
    whole = np.frombuffer(memory, dtype=np.uint16).reshape(rows, pitch_bytes // 2)
    whole[:, :columns] = NAN
    return whole[:, :columns]


@pytest.mark.parametrize("label", ["1x1", "1x2"])
def test_offsets_past_four_gibibytes(label: str, cache: str) -> None:
    @plait.jit(cache_dir=cache)
    def layer(a, b, residual):
        return plait.all_gather(a, dim=0) @ b + residual

    session = plait.SimSession(label, seed=2)
    world, m, n, k = session.world, 140, 64, 64
    pitch = 64 << 20   # 70 rows are 4.4 GiB
    tight = {"a": shards(draw(m, k), world), "b": [pack(draw(k, n, seed=1), "bf16")] * world,
             "residual": [pack(draw(m, n, seed=2), "bf16")] * world}
    given = {name: [] for name in tight}
    for name, tensors in tight.items():
        for tensor in tensors:
            far = sparse(*tensor.shape, pitch)
            far[:] = tensor
            given[name].append(far)
    out = [sparse(m, n, pitch) for _ in range(world)]
    assert view(out[0]).as_tuple()[3] * (m - 1) > 1 << 32
    assert_right(layer, tight, layer(*given.values(), session=session, out=out))


def test_receive_space_past_four_gibibytes(cache: str) -> None:
    """The second bank of the gather buffer begins beyond 4 GiB; launches take turns between the banks."""
    @plait.jit(cache_dir=cache, m_max=24 << 20)
    def layer(a, b):
        return plait.all_gather(a, dim=0) @ b

    session = plait.SimSession("1x2", seed=2)
    b = [pack(draw(72, 64, seed=1), "bf16")] * 2
    for launch in range(4):
        a = shards(draw(150, 72, seed=launch), 2)
        assert_right(layer, {"a": a, "b": b}, layer(a, b, session=session))
    import json
    assert json.loads(layer._compiled[next(iter(layer._compiled))].artifact.manifest)["workspace_bytes"] > 3 << 31
