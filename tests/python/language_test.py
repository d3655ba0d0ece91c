"""Tracing: graphs, source lines, and what a trace itself refuses."""

from __future__ import annotations

import pytest

import plait
from plait.jit import jit


def trace(function, dims, dtype="bf16"):
    traced = jit(function)
    return traced.trace({name: dtype for name in dims}, dims)[0]


def test_records_each_op_with_the_line_that_made_it() -> None:
    def layer(a, b, bias):
        gathered = plait.all_gather(a, dim=0)
        return plait.gelu(gathered @ b + bias)

    graph = trace(layer, {"a": 2, "b": 2, "bias": 1})
    assert [op["op"] for op in graph["ops"]] == ["all_gather", "matmul", "bias", "gelu"]
    first = layer.__code__.co_firstlineno
    assert [op["source"] for op in graph["ops"]] == [f"language_test.py:{first + 1}"] + [f"language_test.py:{first + 2}"] * 3


def test_names_dims_after_the_matmul_and_marks_the_shard() -> None:
    def layer(a, b, bias, residual):
        return plait.all_gather(a) @ b + bias + residual

    graph = trace(layer, {"a": 2, "b": 2, "bias": 1, "residual": 2})
    assert [(t["name"], t["shape"], t["shard"]) for t in graph["inputs"]] == [
        ("a", ["M", "K"], 0), ("b", ["K", "N"], -1), ("bias", ["N"], -1), ("residual", ["M", "N"], -1)]


def test_transposed_weight_becomes_an_attribute() -> None:
    graph = trace(lambda a, b: plait.all_gather(a) @ b.T, {"a": 2, "b": 2})
    assert graph["ops"][1]["transpose_b"] is True
    assert graph["inputs"][1]["shape"] == ["N", "K"]


def test_bias_may_stand_on_the_left() -> None:
    graph = trace(lambda a, b, bias: bias + plait.all_gather(a) @ b, {"a": 2, "b": 2, "bias": 1})
    assert graph["ops"][2]["inputs"] == ["matmul", "bias"]


def test_results_of_repeated_ops_have_names_of_their_own() -> None:
    graph = trace(lambda a, b: plait.relu(plait.relu(plait.all_gather(a) @ b)) * 0.5, {"a": 2, "b": 2})
    results = [op["result"] for op in graph["ops"]]
    assert len(set(results)) == len(results)
    assert graph["output"] == results[-1]
    assert graph["ops"][-1]["value"] == 0.5


def test_a_result_is_not_named_like_an_argument() -> None:
    graph = trace(lambda matmul, b: plait.all_gather(matmul) @ b, {"matmul": 2, "b": 2})
    assert graph["ops"][1]["result"] not in ("matmul", "b")


def test_cast_sets_the_output_dtype() -> None:
    graph = trace(lambda a, b: plait.cast(plait.all_gather(a) @ b, "f16"), {"a": 2, "b": 2})
    assert graph["output_dtype"] == "f16"


def test_dims_that_cannot_be_equal_name_both() -> None:
    with pytest.raises(plait.ScheduleError, match=r"is N and .* is K|is K and .* is N"):
        trace(lambda a, b, c: plait.all_gather(a) @ b @ c, {"a": 2, "b": 2, "c": 2}) and None
        trace(lambda a, b: (plait.all_gather(a) @ b) + a, {"a": 2, "b": 2})


def test_a_branch_on_a_traced_value_is_refused() -> None:
    with pytest.raises(plait.ScheduleError, match="truth of traced value a"):
        trace(lambda a, b: a if a else b, {"a": 2, "b": 2})


def test_adding_a_number_says_what_can_be_added() -> None:
    with pytest.raises(plait.ScheduleError, match=r"\+ with a float"):
        trace(lambda a, b: plait.all_gather(a) @ b + 1.0, {"a": 2, "b": 2})


def test_returning_an_argument_is_refused() -> None:
    with pytest.raises(plait.ScheduleError, match="returns its argument a unchanged"):
        trace(lambda a: a, {"a": 2})


def test_matmul_of_a_vector_is_refused() -> None:
    with pytest.raises(plait.ScheduleError, match="matmul of b with 1 dims"):
        trace(lambda a, b: plait.all_gather(a) @ b, {"a": 2, "b": 1})


def test_unknown_cast_dtype_lists_the_known() -> None:
    with pytest.raises(plait.ArgumentError, match="cast to 'int8'") as caught:
        trace(lambda a, b: plait.cast(plait.all_gather(a) @ b, "int8"), {"a": 2, "b": 2})
    assert "bf16" in caught.value.hint
