"""`@plait.jit` end to end in simulation: values, signatures, errors."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import plait
from plait.jit import placed_view
from plait.reference import check_tiles, evaluate
from plait.tensor import pack, unpack


def shards(matrix: np.ndarray, world: int, dtype: str = "bf16") -> list[np.ndarray]:
    """Rows of each rank: ceil(M / world), trailing ranks shorter or empty."""
    rows = max(-(-matrix.shape[0] // world), 1)
    return [pack(matrix[q * rows : (q + 1) * rows], dtype) for q in range(world)]


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def check(function, session, tensors: dict, dtype: str = "bf16", **call) -> list:
    """Calls and compares every element of every rank with the reference."""
    outputs = function(*tensors.values(), session=session, **call)
    compiled = list(function._compiled.values())[-1]
    listed = {name: value if isinstance(value, list) else [value] * session.world for name, value in tensors.items()}
    for output, expected in zip(outputs, evaluate(compiled.graph, listed)):
        assert output.shape == expected.value.shape
        result = check_tiles(unpack(output, compiled.graph["output_dtype"]), expected, 64, 64)
        assert result.wrong_tiles == 0, result
    return outputs


@pytest.fixture
def cache(tmp_path) -> str:
    return str(tmp_path / "cache")


@pytest.mark.parametrize(
    ("topology", "network", "m", "n", "k"),
    [("1x1", "ordered", 64, 64, 64), ("1x2", "ordered", 130, 136, 72), ("2x2", "ordered", 256, 128, 128),
     ("2x2", "unordered", 250, 72, 200), ("2x1", "unordered", 100, 64, 64), ("3x1", "ordered", 7, 64, 64),
     ("1x4", "ordered", 3, 64, 64)],
)
def test_gather_matmul_is_right(topology: str, network: str, m: int, n: int, k: int, cache: str) -> None:
    @plait.jit(cache_dir=cache)
    def layer(a, b):
        return plait.all_gather(a, dim=0) @ b

    session = plait.SimSession(topology, seed=m, network=network)
    b = [pack(draw(k, n, seed=9 + rank), "bf16") for rank in range(session.world)]
    check(layer, session, {"a": shards(draw(m, k), session.world), "b": b})


def test_a_long_epilogue_is_right(cache: str) -> None:
    @plait.jit(cache_dir=cache)
    def layer(a, b, bias, residual):
        return plait.silu((plait.all_gather(a) @ b.T + bias) * 0.5 + residual)

    session = plait.SimSession("1x2")
    check(layer, session, {"a": shards(draw(96, 64), 2), "b": pack(draw(64, 64, seed=1), "bf16"),
                           "bias": pack(draw(64, seed=2), "bf16"), "residual": pack(draw(96, 64, seed=3), "bf16")})


def test_f16_and_out(cache: str) -> None:
    @plait.jit(cache_dir=cache)
    def layer(a, b):
        return plait.relu(plait.all_gather(a) @ b)

    session = plait.SimSession("1x2")
    out = [np.full((80, 64), np.nan, dtype=np.float16) for _ in range(2)]
    results = check(layer, session, {"a": shards(draw(80, 64), 2, "f16"), "b": pack(draw(64, 64), "f16")}, out=out)
    assert results[0] is out[0] and results[1] is out[1]


def test_twenty_values_of_m_in_one_range_cost_one_compile(cache: str) -> None:
    @plait.jit(cache_dir=cache)
    def layer(a, b):
        return plait.all_gather(a) @ b

    session = plait.SimSession("1x2", check_memory=True)
    b = pack(draw(64, 64), "bf16")
    for m in range(5, 245, 12):
        check(layer, session, {"a": shards(draw(m, 64, seed=m), 2), "b": b})
    assert layer.compiles == 1
    assert session.launches == 20


def test_another_range_n_or_topology_is_another_signature(cache: str) -> None:
    @plait.jit(cache_dir=cache)
    def layer(a, b):
        return plait.all_gather(a) @ b

    two = plait.SimSession("1x2")
    check(layer, two, {"a": shards(draw(40, 64), 2), "b": pack(draw(64, 64), "bf16")})
    check(layer, two, {"a": shards(draw(300, 64), 2), "b": pack(draw(64, 64), "bf16")})
    check(layer, two, {"a": shards(draw(40, 64), 2), "b": pack(draw(64, 72), "bf16")})
    check(layer, plait.SimSession("1x3"), {"a": shards(draw(40, 64), 3), "b": pack(draw(64, 64), "bf16")})
    assert layer.compiles == 4


def test_the_same_seed_repeats_the_run(cache: str) -> None:
    @plait.jit(cache_dir=cache)
    def layer(a, b):
        return plait.all_gather(a) @ b

    steps = []
    for seed in (5, 5, 6):
        check(layer, plait.SimSession("2x2", seed=seed), {"a": shards(draw(100, 64), 4), "b": pack(draw(64, 64), "bf16")})
        steps.append(layer.last_report.steps)
    assert steps[0] == steps[1]


def test_two_sessions_live_side_by_side(cache: str) -> None:
    @plait.jit(cache_dir=cache)
    def layer(a, b):
        return plait.all_gather(a) @ b

    sessions = [plait.SimSession("1x2"), plait.SimSession("1x2", seed=3)]
    for _ in range(2):
        for session in sessions:
            check(layer, session, {"a": shards(draw(40, 64), 2), "b": pack(draw(64, 64), "bf16")})
    assert [session.launches for session in sessions] == [2, 2]


def test_traffic_crosses_the_network_once_per_rail(cache: str) -> None:
    @plait.jit(cache_dir=cache)
    def layer(a, b):
        return plait.all_gather(a) @ b

    session = plait.SimSession("2x2")
    check(layer, session, {"a": shards(draw(256, 64), 4), "b": pack(draw(64, 64), "bf16")})
    shard_bytes = 64 * 64 * 2
    network = {(l.source, l.target): l.bytes for l in layer.last_report.links if l.network and l.bytes}
    assert network == {(0, 2): shard_bytes, (2, 0): shard_bytes, (1, 3): shard_bytes, (3, 1): shard_bytes}


def simple():
    @plait.jit
    def layer(a, b):
        return plait.all_gather(a) @ b

    return layer


def test_a_call_without_session_says_how_to_get_one() -> None:
    with pytest.raises(plait.ArgumentError, match="layer needs a session") as caught:
        simple()(None, None)
    assert "SimSession" in caught.value.hint


def test_wrong_numbers_of_tensors_are_refused() -> None:
    session = plait.SimSession("1x2")
    with pytest.raises(plait.ArgumentError, match="takes 2 tensors, 1 given"):
        simple()(pack(draw(4, 8), "bf16"), session=session)
    with pytest.raises(plait.ArgumentError, match="a has 3 tensors, the cluster 2 ranks"):
        simple()(shards(draw(6, 64), 3), pack(draw(64, 64), "bf16"), session=session)


def test_sizes_that_disagree_name_both_tensors() -> None:
    with pytest.raises(plait.ArgumentError, match=r"K is 64 in a.shape\[1\] and 72 in b.shape\[0\]"):
        simple()(shards(draw(6, 64), 2), pack(draw(72, 64), "bf16"), session=plait.SimSession("1x2"))


def test_wrong_shard_sizes_are_refused() -> None:
    wrong = [pack(draw(10, 64), "bf16"), pack(draw(30, 64), "bf16")]
    with pytest.raises(plait.ArgumentError, match=r"\ba\b"):
        simple()(wrong, pack(draw(64, 64), "bf16"), session=plait.SimSession("1x2"))


def test_m_above_m_max_is_refused() -> None:
    @plait.jit(m_max=64)
    def layer(a, b):
        return plait.all_gather(a) @ b

    with pytest.raises(plait.ArgumentError, match="M = 65 is above m_max = 64"):
        layer(shards(draw(65, 64), 2), pack(draw(64, 64), "bf16"), session=plait.SimSession("1x2"))


def test_a_graph_that_cannot_be_fused_names_op_line_and_reason() -> None:
    @plait.jit
    def two_products(a, b, c):
        first = plait.all_gather(a) @ b
        return first @ c

    session = plait.SimSession("1x2")
    weight = pack(draw(64, 64), "bf16")
    with pytest.raises(plait.ScheduleError) as caught:
        two_products(shards(draw(64, 64), 2), weight, weight, session=session)
    assert "matmul" in str(caught.value)
    assert "jit_test.py:" in str(caught.value)


def test_a_graph_without_matmul_is_refused() -> None:
    @plait.jit
    def gather_only(a):
        return plait.relu(plait.all_gather(a))

    with pytest.raises(plait.ScheduleError, match="matmul"):
        gather_only(shards(draw(64, 64), 2), session=plait.SimSession("1x2"))


def test_an_unknown_knob_names_the_nearest() -> None:
    @plait.jit(schedule={"stage": 3})
    def layer(a, b):
        return plait.all_gather(a) @ b

    with pytest.raises(plait.ScheduleError, match="stages"):
        layer(shards(draw(64, 64), 2), pack(draw(64, 64), "bf16"), session=plait.SimSession("1x2"))


def test_knobs_do_not_change_the_result(cache: str) -> None:
    tensors = [shards(draw(200, 128), 4), [pack(draw(128, 128, seed=rank), "bf16") for rank in range(4)]]
    results = []
    for schedule in ({}, {"stages": 2, "tile_n": 64, "order": "rank"}, {"chunk_rows": 8, "intra_comm": "warp", "pieces": 2}):
        @plait.jit(schedule=schedule, cache_dir=cache)
        def layer(a, b):
            return plait.all_gather(a) @ b

        results.append(layer(*tensors, session=plait.SimSession("2x2")))
    for other in results[1:]:
        assert all((x == y).all() for x, y in zip(results[0], other))


def test_torch_tensors_in_simulation(cache: str) -> None:
    torch = pytest.importorskip("torch")

    @plait.jit(cache_dir=cache)
    def layer(a, b, bias):
        return plait.gelu(plait.all_gather(a, dim=0) @ b + bias)

    generator = torch.Generator().manual_seed(1)
    draw_torch = lambda *shape: torch.randn(*shape, generator=generator).bfloat16()  # noqa: E731
    a = [draw_torch(32, 64) for _ in range(4)]
    b, bias = draw_torch(64, 64), draw_torch(64)
    outputs = layer(a, b, bias, session=plait.SimSession("2x2"))
    expected = torch.nn.functional.gelu(torch.cat(a).double() @ b.double() + bias.double())
    for output in outputs:
        assert output.dtype == torch.bfloat16
        assert (output.double() - expected).abs().max() <= 2.0**-8 * expected.abs().max() * 1.01


def test_what_a_session_warmed_up_ends_with_it() -> None:
    layer = simple()
    sessions = [plait.Session.__new__(plait.Session) for _ in range(2)]   # ids of dead sessions come again
    shapes = layer._shapes_of((), None, 8)
    for session in sessions:
        layer._warm.setdefault(session, {})[shapes] = object()
    del sessions[0], session
    gc.collect()
    assert list(layer._warm) == sessions


def test_tensors_elsewhere_than_the_session_are_refused() -> None:
    torch = pytest.importorskip("torch")
    session = plait.Session.__new__(plait.Session)
    session.device = 1
    with pytest.raises(plait.ArgumentError, match=r"out\[0\] lies on cpu, this session takes cuda:1"):
        placed_view(torch.zeros(2, 8, dtype=torch.bfloat16), "out[0]", session)
    with pytest.raises(plait.ArgumentError, match="lies on meta, this session takes cpu"):
        placed_view(torch.zeros(2, 8, dtype=torch.bfloat16, device="meta"), "a[0]", plait.SimSession("1x2"))


def test_ranks_that_pass_different_tensors_are_refused() -> None:
    torch = pytest.importorskip("torch")
    layer, session = simple(), plait.SimSession("1x2")
    a = [torch.zeros(32, 64, dtype=torch.bfloat16) for _ in range(2)]
    b = torch.zeros(64, 64, dtype=torch.bfloat16)
    with pytest.raises(plait.ArgumentError, match=r"a\[1\] is f16 \[32, 64\], a\[0\] is bf16 \[32, 64\]") as caught:
        layer([a[0], a[1].half()], b, session=session)
    assert "all ranks pass the same dtype" in caught.value.hint
    with pytest.raises(plait.ArgumentError, match=r"a\[1\] lies on meta, this session takes cpu"):
        layer([a[0], a[1].to("meta")], b, session=session)
    with pytest.raises(plait.ArgumentError, match=r"rows of a\[1\] are not contiguous: shape \[32, 64\], strides \[1, 32\]"):
        layer([a[0], torch.zeros(64, 32, dtype=torch.bfloat16).t()], b, session=session)


def test_a_dead_cluster_says_so_and_a_new_one_works() -> None:
    layer = simple()
    shard, b = [pack(draw(32, 64), "bf16")] * 2, pack(draw(64, 64), "bf16")
    session = plait.SimSession("1x2", max_steps=500)
    out = [np.zeros((64, 64), dtype=np.uint16) for _ in range(2)]
    with pytest.raises(plait.StallError, match="not over after 500 steps"):
        layer(shard, b, session=session, out=out)
    assert all((rank == 0xFFFF).all() for rank in out)   # NaN, wherever it was stopped
    with pytest.raises(plait.StallError, match="dead"):
        layer(shard, b, session=session)
    layer(shard, b, session=plait.SimSession("1x2"))
