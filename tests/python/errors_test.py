"""What a user reads who gets a call wrong: what, where, the numbers and what to do."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import plait
from plait.tensor import from_bf16, pack, view


def draw(*shape: int, dtype: str = "bf16") -> np.ndarray:
    return pack(np.random.default_rng(0).standard_normal(shape, dtype=np.float32), dtype)


def gather_matmul(**options):
    @plait.jit(cache_mode="jit_only", **options)
    def layer(a, b):
        return plait.all_gather(a, dim=0) @ b

    return layer


def refusal(kind: type, function, *tensors, label: str = "1x2", **call) -> str:
    """The message and hint of the error that the call ends with."""
    with pytest.raises(kind) as caught:
        function(*tensors, session=plait.SimSession(label), **call)
    assert type(caught.value) is kind
    return str(caught.value)


A = [draw(32, 64), draw(32, 64)]
B = draw(64, 64)


@pytest.mark.parametrize(
    ("schedule", "parts"),
    [
        ({"stagess": 3}, ["stagess", "nearest is `stages`"]),
        ({"stages": 99}, ["stages", "99"]),
        ({"intra_comm": "sm"}, ["intra_comm", "sm", "phase"]),
        # placement larger than the target: the simulated GPU has 6 SMs
        ({"intra_comm": "sms", "intra_comm_sms": 9}, ["roles take 9 SMs (intra_comm 9), host has 6 and compute needs one", "fewer SMs"]),
        # too little shared memory
        ({"stages": 8, "tile_n": 256, "tile_m": 128}, ["bytes of shared memory", "host allows 232448", "stages"]),
    ],
)
def test_a_schedule_that_does_not_fit_names_knob_and_numbers(schedule: dict, parts: list[str]) -> None:
    text = refusal(plait.ScheduleError, gather_matmul(schedule=schedule), A, B)
    for part in parts:
        assert part in text, text


def test_k_and_n_that_are_no_multiple_of_8() -> None:
    text = refusal(plait.ScheduleError, gather_matmul(), [draw(8, 60), draw(8, 60)], draw(60, 64))
    assert "k = 60 is not" in text and "multiple of 8" in text
    text = refusal(plait.ScheduleError, gather_matmul(), A, draw(64, 60))
    assert "n = 60 is not" in text and "multiple of 8" in text


def test_dtypes_that_no_kernel_takes() -> None:
    text = refusal(plait.ArgumentError, gather_matmul(), [x.astype(np.float64) for x in A], B)
    assert "a[0] has dtype float64" in text and "uint16 (bf16 bit patterns), float16 or float32" in text
    text = refusal(plait.ScheduleError, gather_matmul(), A, from_bf16(B))
    assert "f32" in text and "b" in text


def test_tensors_on_another_device() -> None:
    torch = pytest.importorskip("torch")
    text = refusal(plait.ArgumentError, gather_matmul(), torch.zeros(32, 64, dtype=torch.bfloat16, device="meta"), B)
    assert "a[0] lies on meta, this session takes cpu tensors" in text


def test_strides_are_refused_by_name() -> None:
    text = refusal(plait.ArgumentError, gather_matmul(), A, draw(64, 64).T)
    assert "rows of b[0] are not contiguous: shape [64, 64], strides [1, 64]" in text and "b.T" in text


def test_a_graph_that_cannot_be_fused_names_op_line_and_reason() -> None:
    @plait.jit
    def two_products(a, b, c):
        return (plait.all_gather(a) @ b) @ c

    text = refusal(plait.ScheduleError, two_products, A, B, B)
    assert "errors_test.py:" in text and "matmul" in text


def test_ranks_whose_signatures_differ() -> None:
    """Every rank's call must be the same one: dtype, number of dims and sizes, told with the rank that differs."""
    text = refusal(plait.ArgumentError, gather_matmul(), [A[0], draw(32, 64, dtype="f16")], B)
    assert "a[1] is f16 [32, 64], a[0] is bf16 [32, 64]" in text
    text = refusal(plait.ArgumentError, gather_matmul(), A, [B, draw(64, 72)])
    assert "rank 1's tensor `b` has shape [64, 72], expected [64, 64]" in text
    text = refusal(plait.ArgumentError, gather_matmul(), [A[0], draw(32, 72)], B)
    assert "rank 1's tensor `a` has shape [32, 72], expected [32, 64]" in text


def test_an_artifact_of_another_world_is_refused_with_both() -> None:
    layer = gather_matmul()
    layer(A, B, session=plait.SimSession("1x2"))
    artifact = next(iter(layer._compiled.values())).artifact
    other = plait.SimSession("2x2")
    with pytest.raises(plait.ArgumentError, match="was compiled for 1x2 ranks, this session has 2x2"):
        other.launch(artifact, 64, [[view(x) for x in (A[0], B, np.zeros((64, 64), dtype=np.uint16))]] * 4)


def test_tensors_freed_early_are_kept_alive() -> None:
    """A view holds its tensor, so one that is dropped between the view and the launch is still there."""
    layer = gather_matmul()
    out = layer(A, B, session=plait.SimSession("1x2"))
    artifact = next(iter(layer._compiled.values())).artifact
    copies = [[x.copy(), B.copy(), np.zeros_like(out[0])] for x in A]
    alive = [weakref.ref(t) for rank in copies for t in rank]
    results = [rank[2] for rank in copies]
    views = [[view(t) for t in rank] for rank in copies]
    del copies
    gc.collect()
    assert all(ref() is not None for ref in alive)
    plait.SimSession("1x2").launch(artifact, 64, views)
    for got, expected in zip(results, out):
        assert (got == expected).all()


def test_a_cache_mode_that_does_not_exist_lists_those_that_do() -> None:
    @plait.jit(cache_mode="fast")
    def layer(a, b):
        return plait.all_gather(a, dim=0) @ b

    text = refusal(plait.ArgumentError, layer, A, B)
    assert "cache mode is `fast`" in text and "auto, strict or jit_only" in text


def test_strict_misses_until_the_recorded_requests_are_built(tmp_path) -> None:
    """Record on a live run, build, run in production: the whole way, without a compile there."""
    requests, folder = str(tmp_path / "requests.jsonl"), str(tmp_path / "cache")
    production = gather_matmul_in(folder, "strict")
    text = refusal(plait.CompileError, production, A, B)
    assert "holds no artifact of graph layer with M <= 256, N = 64, K = 64 for 1x2 on host" in text
    assert "plaitc --from-requests FILE" in text
    live = gather_matmul(record_requests=requests)
    expected = live(A, B, session=plait.SimSession("1x2"))
    line = (tmp_path / "requests.jsonl").read_text()
    assert line.count("\n") == 1 and "/" not in line and ".py" not in line
    builder = gather_matmul_in(folder, "auto")   # what plaitc does; tests/compiler/tools runs plaitc itself
    builder(A, B, session=plait.SimSession("1x2"))
    got = production(A, B, session=plait.SimSession("1x2"))
    assert all((x == y).all() for x, y in zip(got, expected))
    assert next(iter(production._compiled.values())).stats["lower_ms"] == 0


def gather_matmul_in(folder: str, mode: str):
    @plait.jit(cache_dir=folder, cache_mode=mode)
    def layer(a, b):
        return plait.all_gather(a, dim=0) @ b

    return layer
