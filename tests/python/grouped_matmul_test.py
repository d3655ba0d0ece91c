"""`plait.grouped_matmul` end to end in simulation: values of both forms, launch arguments, wrong tables, refusals."""

from __future__ import annotations

import numpy as np
import pytest

import plait
from plait.reference import check_tiles, evaluate
from plait.tensor import pack, unpack


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return pack(np.random.default_rng(seed).standard_normal(shape, dtype=np.float32), "bf16")


def ends(*counts: int) -> np.ndarray:
    return np.cumsum(counts, dtype=np.int32)


def check(function, session, tensors: dict) -> np.ndarray:
    """Calls and compares every element with the reference."""
    output = function(*tensors.values(), session=session)[0]
    compiled = list(function._compiled.values())[-1]
    expected = evaluate(compiled.graph, {name: [value] for name, value in tensors.items()})[0]
    assert output.shape == expected.value.shape
    if output.size:
        result = check_tiles(unpack(output, "bf16"), expected, 64, 64)
        assert result.wrong_tiles == 0, result
    return output


@pytest.fixture
def cache(tmp_path) -> str:
    return str(tmp_path / "cache")


@pytest.mark.parametrize("counts", [(70, 0, 65, 3), (0, 0, 130), (64, 64), (1, 1, 1, 1, 1), (0, 0)])
def test_sorted_rows_are_right(counts: tuple[int, ...], cache: str) -> None:
    @plait.jit(cache_dir=cache)
    def layer(x, w, offs):
        return plait.grouped_matmul(x, w, offs)

    tensors = {"x": draw(sum(counts), 72), "w": draw(len(counts), 72, 136, seed=1), "offs": ends(*counts)}
    check(layer, plait.SimSession("1x1", seed=sum(counts)), tensors)


def test_rows_from_two_tensors_with_an_epilogue_are_right(cache: str) -> None:
    @plait.jit(cache_dir=cache)
    def layer(x, w, offs, rows, more, residual):
        return plait.relu(plait.grouped_matmul(x, w.mT, offs, rows=rows, second=more) * 0.5 + residual)

    rows = np.random.default_rng(4).integers(0, 50, 140, dtype=np.int32)
    check(layer, plait.SimSession("1x1"), {"x": draw(30, 136), "w": draw(3, 72, 136, seed=1), "offs": ends(75, 0, 65),
                                           "rows": rows, "more": draw(20, 136, seed=2), "residual": draw(140, 72, seed=3)})


def test_rows_and_experts_are_launch_arguments(cache: str) -> None:
    @plait.jit(cache_dir=cache)
    def layer(x, w, offs, rows):
        return plait.grouped_matmul(x, w.mT, offs, rows=rows)

    session = plait.SimSession("1x1")
    for experts, m, tokens in ((1, 5, 1), (4, 100, 30), (9, 256, 200), (2, 0, 7)):
        counts = np.random.default_rng(m).multinomial(m, [1 / experts] * experts)
        rows = np.random.default_rng(m).integers(0, tokens, m, dtype=np.int32)
        check(layer, session, {"x": draw(tokens, 64), "w": draw(experts, 64, 64, seed=1), "offs": ends(*counts), "rows": rows})
    assert layer.compiles == 1


def test_both_forms_give_the_same_bits(cache: str) -> None:
    @plait.jit(cache_dir=cache)
    def by_order(x, w, offs):
        return plait.grouped_matmul(x, w.mT, offs)

    @plait.jit(cache_dir=cache)
    def by_index(x, w, offs, rows):
        return plait.grouped_matmul(x, w.mT, offs, rows=rows)

    rows = np.random.default_rng(4).integers(0, 40, 130, dtype=np.int32)
    x, w, offs, session = draw(40, 136), draw(3, 72, 136, seed=1), ends(66, 1, 63), plait.SimSession("1x1")
    assert (by_order(x[rows], w, offs, session=session)[0] == by_index(x, w, offs, rows, session=session)[0]).all()


@pytest.mark.parametrize(("offs", "said"), [([60, 40, 130], r"offs\[1\] is 40, it must lie in 60..130"),
                                            ([60, 70, 129], r"offs\[2\] is 129, it must lie in 130..130")])
def test_a_wrong_table_is_an_error_with_the_entry(offs: list[int], said: str, cache: str) -> None:
    @plait.jit(cache_dir=cache)
    def layer(x, w, offs):
        return plait.grouped_matmul(x, w, offs)

    with pytest.raises(plait.ArgumentError, match=said):
        layer(draw(130, 64), draw(3, 64, 64), np.array(offs, dtype=np.int32), session=plait.SimSession("1x1"))


def test_arguments_that_do_not_fit_are_refused(cache: str) -> None:
    @plait.jit(cache_dir=cache)
    def layer(x, w, offs):
        return plait.grouped_matmul(x, w, offs)

    session = plait.SimSession("1x1")
    with pytest.raises(plait.ArgumentError, match=r"experts is 3 in w.shape\[0\] and 2 in offs.shape\[0\]"):
        layer(draw(64, 64), draw(3, 64, 64), ends(32, 32), session=session)
    with pytest.raises(plait.ArgumentError, match=r"experts = 0 .* is outside of 1..256"):
        layer(draw(64, 64), draw(0, 64, 64), ends(), session=session)
    with pytest.raises(plait.ScheduleError, match="offs of dtype bf16 as offs"):
        layer(draw(64, 64), draw(3, 64, 64), draw(3), session=session)
    with pytest.raises(plait.ScheduleError, match="w with 2 dims as w"):
        layer(draw(64, 64), draw(64, 64), ends(64), session=session)


def test_uses_that_mean_nothing_are_refused(cache: str) -> None:
    @plait.jit(cache_dir=cache)
    def second_alone(x, w, offs, more):
        return plait.grouped_matmul(x, w, offs, second=more)

    @plait.jit(cache_dir=cache)
    def gathered(x, w, offs):
        return plait.grouped_matmul(plait.all_gather(x), w, offs)

    session = plait.SimSession("1x1")
    with pytest.raises(plait.ScheduleError, match="a second x and no rows"):
        second_alone(draw(64, 64), draw(1, 64, 64), ends(64), draw(8, 64), session=session)
    with pytest.raises(plait.ScheduleError, match="op 0 all_gather .* a grouped_matmul must stand here"):
        gathered(draw(64, 64), draw(1, 64, 64), ends(64), session=session)


def test_f16_on_two_ranks_with_tables_of_their_own(cache: str) -> None:
    @plait.jit(cache_dir=cache)
    def layer(x, w, offs):
        return plait.grouped_matmul(x, w.mT, offs)

    half = lambda *shape, seed: pack(np.random.default_rng(seed).standard_normal(shape, dtype=np.float32), "f16")   # noqa: E731
    tensors = {"x": [half(130, 72, seed=1), half(130, 72, seed=2)], "w": [half(2, 64, 72, seed=3), half(2, 64, 72, seed=4)],
               "offs": [ends(65, 65), ends(0, 130)]}
    outputs = layer(*tensors.values(), session=plait.SimSession("1x2"))
    graph = list(layer._compiled.values())[0].graph
    for output, expected in zip(outputs, evaluate(graph, tensors)):
        assert check_tiles(unpack(output, "f16"), expected, 64, 64).wrong_tiles == 0
