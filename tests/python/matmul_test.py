"""Matmul on one rank in simulation: layouts, output dtypes, tile widths, gates, sizes at the edge of tiles."""

from __future__ import annotations

import numpy as np
import pytest

import plait
from plait.reference import check_tiles, evaluate
from plait.tensor import pack, unpack

SMALL = {"tile_m": 64, "consumer_warpgroups": 1, "stages": 2}


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def check(function, tensors: dict[str, np.ndarray], dtype: str = "bf16", session=None, **call) -> np.ndarray:
    """Calls and compares every element with the reference."""
    session = session or plait.SimSession("1x1", seed=3)
    packed = {name: pack(value, dtype) for name, value in tensors.items()}
    output = function(*packed.values(), session=session, **call)[0]
    compiled = list(function._compiled.values())[-1]
    expected = evaluate(compiled.graph, {name: [value] for name, value in packed.items()})[0]
    assert output.shape == expected.value.shape
    result = check_tiles(unpack(output, compiled.graph["output_dtype"]), expected, 64, 64)
    assert result.wrong_tiles == 0, result
    return output


def product(layout: str, schedule=None, out: str | None = None):
    def nn(a, b):
        return plait.cast(a @ b, out) if out else a @ b

    def nt(a, b):
        return plait.cast(a @ b.T, out) if out else a @ b.T

    def tn(a, b):
        return plait.cast(a.T @ b, out) if out else a.T @ b

    return plait.jit({"nn": nn, "nt": nt, "tn": tn}[layout], schedule=schedule)


def operands(layout: str, m: int, n: int, k: int) -> dict[str, np.ndarray]:
    return {"a": draw(*((k, m) if layout == "tn" else (m, k)), seed=m),
            "b": draw(*((n, k) if layout == "nt" else (k, n)), seed=n + 1)}


@pytest.mark.parametrize("layout", ["nn", "nt", "tn"])
@pytest.mark.parametrize(("m", "n", "k"), [(136, 200, 136), (64, 64, 64), (8, 8, 8), (264, 72, 520)])
def test_every_layout_is_right_with_the_chosen_tile(layout: str, m: int, n: int, k: int) -> None:
    check(product(layout), operands(layout, m, n, k))


# 176 and 80: the last box of a row is cut at the tile. 200 = 2 * 80 + 40 and 176 + 24: at N, too; 160 = 2 * 80: nowhere else.
@pytest.mark.parametrize("layout", ["nn", "nt"])
@pytest.mark.parametrize("out", ["bf16", "f16", "f32"])
@pytest.mark.parametrize(("tile_n", "n"), [(80, 200), (80, 160), (176, 200), (16, 40), (48, 96), (112, 104)])
def test_tiles_of_any_width_store_each_element_once(layout: str, out: str, tile_n: int, n: int) -> None:
    function = product(layout, {**SMALL, "tile_n": tile_n}, out)
    check(function, operands(layout, 70, n, 72))


@pytest.mark.parametrize(("tile_m", "tile_n"), [(256, 176), (128, 224), (256, 192), (128, 256), (256, 128)])
def test_the_tiles_of_large_problems(tile_m: int, tile_n: int) -> None:
    check(product("nn", {"tile_m": tile_m, "tile_n": tile_n}), operands("nn", 260, 264, 136))


# Odd numbers of row and column tiles, of SMs, widths whose last box is cut at the tile, and one tile for two CTAs.
@pytest.mark.parametrize("layout", ["nn", "nt", "tn"])
@pytest.mark.parametrize("along", ["m", "n"])
@pytest.mark.parametrize(("tile_n", "m", "n", "k"), [(64, 136, 200, 136), (80, 72, 200, 72), (48, 264, 144, 200), (128, 8, 8, 8)])
def test_clusters_of_two_ctas(layout: str, along: str, tile_n: int, m: int, n: int, k: int) -> None:
    schedule = {**SMALL, "tile_n": tile_n, "cluster": 2, "cluster_along": along}
    check(product(layout, schedule, "f32" if along == "n" else None), operands(layout, m, n, k),
          session=plait.SimSession("1x1", resident_ctas=5, seed=m))


@pytest.mark.parametrize("along", ["m", "n"])
def test_clusters_change_no_bit(along: str) -> None:
    tensors = operands("nn", 300, 264, 200)
    alone = check(product("nn", {"tile_n": 112}), tensors)
    assert np.array_equal(alone, check(product("nn", {"tile_n": 112, "cluster": 2, "cluster_along": along}), tensors))


@pytest.mark.parametrize("along", ["m", "n"])
def test_silu_mul_and_an_epilogue_in_clusters(along: str) -> None:
    def layer(x, w, residual):
        return plait.silu_mul(x @ w) * 0.5 + residual

    function = plait.jit(layer, schedule={**SMALL, "tile_n": 48, "cluster": 2, "cluster_along": along})
    check(function, {"x": draw(200, 72), "w": draw(72, 272, seed=1), "residual": draw(200, 136, seed=2)})


def test_an_epilogue_over_a_ragged_tile() -> None:
    def layer(a, b, bias, residual):
        return plait.gelu(a @ b + bias) + residual

    tensors = {**operands("nn", 70, 200, 64), "bias": draw(200, seed=5), "residual": draw(70, 200, seed=6)}
    check(plait.jit(layer, schedule={**SMALL, "tile_n": 80}), tensors)


@pytest.mark.parametrize("layout", ["nn", "nt"])
@pytest.mark.parametrize(("tile_n", "n"), [(64, 64), (64, 104), (48, 72), (128, 136)])
def test_silu_mul_meets_both_halves_in_one_tile(layout: str, tile_n: int, n: int) -> None:
    def nn(x, w):
        return plait.silu_mul(x @ w)

    def nt(x, w):
        return plait.silu_mul(x @ w.T)

    function = plait.jit(nn if layout == "nn" else nt, schedule={**SMALL, "tile_n": tile_n})
    a, b = operands(layout, 70, 2 * n, 72).values()
    assert check(function, {"x": a, "w": b}).shape == (70, n)


def test_silu_mul_with_the_chosen_tile_and_an_epilogue() -> None:
    def layer(x, w, residual):
        return plait.silu_mul(x @ w) * 0.5 + residual

    check(plait.jit(layer), {"x": draw(136, 64), "w": draw(64, 272, seed=1), "residual": draw(136, 136, seed=2)})


def test_silu_mul_of_an_odd_number_of_columns_says_so() -> None:
    with pytest.raises(plait.ArgumentError, match="silu_mul halves it"):
        check(plait.jit(lambda x, w: plait.silu_mul(x @ w)), {"x": draw(8, 64), "w": draw(64, 65)})


def test_silu_mul_of_an_argument_says_what_it_takes() -> None:
    with pytest.raises(plait.ScheduleError, match="not the result of a matmul"):
        check(plait.jit(lambda x: plait.silu_mul(x)), {"x": draw(8, 64)})


def test_rows_of_a_transposed_operand_come_in_eights() -> None:
    with pytest.raises(plait.ArgumentError, match=r"map a_map\[0\] of `a`: .*TMA steps by multiples of 16"):
        check(product("tn"), operands("tn", 12, 64, 64))


def test_no_rows_are_no_error() -> None:
    assert check(product("nn"), {"a": draw(0, 64), "b": draw(64, 72)}).shape == (0, 72)


def test_the_chosen_tile_changes_no_bit() -> None:
    tensors = operands("nn", 200, 264, 200)
    chosen = check(product("nn"), tensors)
    for schedule in ({**SMALL, "tile_n": 64}, {"tile_m": 256, "tile_n": 176}, {"tile_n": 112}):
        assert np.array_equal(chosen, check(product("nn", schedule), tensors)), schedule


def test_a_range_of_m_holds_few_tiles() -> None:
    function = product("nn")
    session = plait.SimSession("1x1")
    for m in range(1, 250, 24):
        check(function, operands("nn", m, 72, 64), session=session)
    assert function.compiles <= 3
    assert all("waves" in compiled.choice or "wave" in compiled.choice for compiled in function._compiled.values())
