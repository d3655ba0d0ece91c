"""Causal grouped-query attention with log-sum-exp on a simulated GPU, checked against a float64 softmax in numpy."""

import numpy as np

import plait
from plait.tensor import from_bf16, to_bf16


@plait.jit
def attend(q, k, v):
    return plait.attention(q, k, v, causal=True, causal_offset=20, lse=True)


def expected(q, k, v, offset):
    """[batch, rows, heads, head_dim] and [batch, heads, rows], in float64."""
    k, v = (np.repeat(x, q.shape[2] // x.shape[2], axis=2) for x in (k, v))
    scores = np.einsum("bihd,bjhd->bhij", q, k) / np.sqrt(q.shape[-1])
    hidden = np.arange(k.shape[1])[None, :] > np.arange(q.shape[1])[:, None] + offset
    scores[..., hidden] = -np.inf
    largest = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - largest)
    total = weights.sum(axis=-1, keepdims=True)
    return np.einsum("bhij,bjhd->bihd", weights / total, v), (largest + np.log(total))[..., 0]


def main() -> None:
    random = np.random.default_rng(0)
    batch, queries, keys, heads, kv_heads, head_dim = 2, 100, 150, 4, 2, 64
    draw = lambda *shape: to_bf16(random.standard_normal(shape, dtype=np.float32))
    q, k, v = draw(batch, queries, heads, head_dim), draw(batch, keys, kv_heads, head_dim), draw(batch, keys, kv_heads, head_dim)

    [(out, lse)] = attend(q, k, v, session=plait.SimSession("1x1", seed=1))

    reference, reference_lse = expected(*(from_bf16(x).astype(np.float64) for x in (q, k, v)), 20)
    error, lse_error = np.abs(from_bf16(out) - reference).max(), np.abs(lse - reference_lse).max()
    assert error < 2e-2 and lse_error < 1e-4, (error, lse_error)
    print(f"out {list(out.shape)}: largest error {error:.1e}; log-sum-exp {list(lse.shape)}: {lse_error:.1e}")

    # Another length of both is the same kernel.
    short = attend(q[:, :7].copy(), k[:, :33].copy(), v[:, :33].copy(), session=plait.SimSession("1x1", seed=2))
    print(f"out {list(short[0][0].shape)} from {attend.compiles} compile")


if __name__ == "__main__":
    main()
