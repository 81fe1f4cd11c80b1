"""Steps as `lax.scan` and `lax.fori_loop`; `_alt` as `lax.associative_scan`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import jax.scipy.linalg
from jax import lax

from benchmarks.workloads.loops.time_steps import RATE


def loop_rnn(x, h, w_ih, w_hh, b_ih, b_hh):
    def step(h, a):
        h = jnp.tanh(a + h @ w_hh.T)
        return h, h

    return lax.scan(step, h, x @ w_ih.T + (b_ih + b_hh))[1]


def loop_lstm(x, h, c, w_ih, w_hh, b_ih, b_hh):
    def step(state, a):
        h, c = state
        i, f, g, o = jnp.split(a + h @ w_hh.T, 4, axis=1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    (h, c), y = lax.scan(step, (h, c), x @ w_ih.T + (b_ih + b_hh))
    return y, h, c


def loop_gru(x, h, w_ih, w_hh, b_ih, b_hh):
    def step(h, a):
        ar, az, am = jnp.split(a, 3, axis=1)
        ur, uz, um = jnp.split(h @ w_hh.T + b_hh, 3, axis=1)
        z = jax.nn.sigmoid(az + uz)
        h = (1 - z) * jnp.tanh(am + jax.nn.sigmoid(ar + ur) * um) + z * h
        return h, h

    h, y = lax.scan(step, h, x @ w_ih.T + b_ih)
    return y, h


def loop_selective_scan(u, delta, a, b, c, skip):
    def step(h, now):
        u, d, b, c = now
        h = jnp.exp(d[:, :, None] * a) * h + (d * u)[:, :, None] * b[:, None]
        return h, jnp.einsum("nds,ns->nd", h, c)

    over_time = tuple(jnp.swapaxes(x, 0, 1) for x in (u, delta, b, c))
    y = lax.scan(step, jnp.zeros((u.shape[0], *a.shape), u.dtype), over_time)[1]
    return jnp.swapaxes(y, 0, 1) + skip * u


def loop_selective_scan_alt(u, delta, a, b, c, skip):
    def join(x, y):
        return x[0] * y[0], y[0] * x[1] + y[1]

    decay = jnp.exp(delta[..., None] * a)
    taken = (delta * u)[..., None] * b[:, :, None]
    h = lax.associative_scan(join, (decay, taken), axis=1)[1]
    return jnp.einsum("nlds,nls->nld", h, c) + skip * u


PADS = {"zero": "constant", "clamp": "edge", "reflect": "reflect", "symmetric": "symmetric", "wrap": "wrap"}


def _heat(mode, T, u):
    def at(p, axis, by):
        inner = [slice(2, -2)] * u.ndim
        inner[axis] = slice(2 + by, 2 + by + u.shape[axis])
        return p[tuple(inner)]

    def step(_, u):
        p = jnp.pad(u, 2, PADS[mode])
        s = (-30 * u.ndim) * u
        for a in range(u.ndim):
            s += 16 * (at(p, a, -1) + at(p, a, 1)) - at(p, a, -2) - at(p, a, 2)
        return u + RATE / 12 * s

    return lax.fori_loop(0, T, step, u)


def loop_heat1d(mode, T, u):
    return _heat(mode, T, u)


def loop_heat2d(mode, T, u):
    return _heat(mode, T, u)


def loop_heat3d(mode, T, u):
    return _heat(mode, T, u)


def loop_lu(A):
    return jax.scipy.linalg.lu_factor(A)[0]


def loop_cholesky(A):
    return jnp.linalg.cholesky(A)


def loop_trisolve(L, B):
    return jax.scipy.linalg.solve_triangular(L, B, lower=True)


def loop_needleman_wunsch(a, b):
    """A row at once: what comes from the left is a running maximum."""
    j = jnp.arange(len(b) + 1, dtype=jnp.int32)

    def step(row, now):
        i, letter = now
        same = jnp.where(letter == b, 1, -1).astype(jnp.int32)
        row = jnp.concatenate([-i[None], jnp.maximum(row[:-1] + same, row[1:] - 1)])
        row = lax.cummax(row + j) - j
        return row, row

    rows = lax.scan(step, -j, (jnp.arange(1, len(a) + 1, dtype=jnp.int32), a))[1]
    return jnp.concatenate([-j[None], rows])


def loop_floyd_warshall(W):
    return lax.fori_loop(0, len(W), lambda k, D: jnp.minimum(D, D[:, k][:, None] + D[k]), W)


def loop_viterbi(E, A, first):
    def forth(d, e):
        s = d[:, None] + A
        return s.max(0) + e, s.argmax(0).astype(jnp.int32)

    d, p = lax.scan(forth, first + E[0], E[1:])
    last = d.argmax().astype(jnp.int32)

    def back(at, row):
        return row[at], row[at]

    path = lax.scan(back, last, p, reverse=True)[1]
    return jnp.concatenate([path, last[None]]), d.max()


def loop_cumulative(kind, x):
    return {"sum": jnp.cumsum, "product": jnp.cumprod, "maximum": lax.cummax}[kind](x, axis=1)


def loop_cumulative_alt(kind, x):
    join = {"sum": jnp.add, "product": jnp.multiply, "maximum": jnp.maximum}[kind]
    return lax.associative_scan(join, x, axis=1)


def loop_histogram(K, x):
    return jnp.bincount(x, length=K).astype(jnp.int32)


def loop_segment_sum(S, x, ids):
    return jax.ops.segment_sum(x, ids, S, indices_are_sorted=True)


def loop_embedding_gradient(V, dy, ids):
    return jnp.zeros((V, dy.shape[1]), dy.dtype).at[ids].add(dy)


def loop_fft(x, w, r):
    return jnp.fft.fft(x, axis=1)
