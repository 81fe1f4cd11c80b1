"""JAX's spelling; functions are compiled as they stand."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax


def tmm(A, B):
    return A @ B.T


def gemm(A, B):
    return A @ B


def gemm_tn(A, B):
    return A.T @ B


def igemm(A, B):
    return jnp.matmul(A, B, preferred_element_type=jnp.int32)


def tbmm(X, Y):
    return X @ Y.swapaxes(1, 2)


def bmm(X, Y):
    return X @ Y


def matvec(A, x):
    return A @ x


def vecmat(x, A):
    return x @ A


def dot(a, b):
    return jnp.dot(a, b)


def mlp1(I, W1, B1):
    return jnp.maximum(I @ W1.T + B1, 0)


def mlp3(I, W2, B2, W3, B3, W4, B4):
    x = jnp.maximum(I @ W2.T + B2, 0)
    y = jnp.maximum(x @ W3.T + B3, 0)
    return x, y, jnp.maximum(y @ W4.T + B4, 0)


def gelu_mlp(X, W1, B1, W2, B2):
    return jax.nn.gelu(X @ W1.T + B1, approximate=False) @ W2.T + B2


def swiglu(X, W, V):
    return jax.nn.silu(X @ W.T) * (X @ V.T)


def kronecker3(W0, W1, W2, X):
    b = X @ W2.T
    a = jnp.einsum("mnqr,dq->mndr", b, W1)
    return jnp.einsum("mnqr,dn->mdqr", a, W0), a, b


def attention(Q, K, V):
    return jax.nn.softmax(Q @ K.swapaxes(1, 2) * Q.shape[2] ** -0.5, 2) @ V


def chain3(A, B, C):
    return A @ B @ C


def bilinear(X, W, Y):
    return jnp.einsum("bi,kij,bj->bk", X, W, Y)


def mttkrp(X, B, C):
    return jnp.einsum("ijk,jr,kr->ir", X, B, C)


def distances(X, Y):
    d = X[:, None, :] - Y[None, :, :]
    return (d * d).sum(2)


def syrk(A):
    return jnp.tril(A @ A.T)


def _conv(x, k, *, stride=1, groups=1, padding=0, layout=("NCHW", "OIHW", "NCHW")):
    return lax.conv_general_dilated(
        x, k, (stride, stride), [(padding, padding)] * 2, feature_group_count=groups, dimension_numbers=layout
    )


def gconv(I, W1, B):
    n, g, c, h, w = I.shape
    _, f, _, p, q = W1.shape
    x = _conv(I.reshape(n, g * c, h, w), W1.reshape(g * f, c, p, q), groups=g)
    return x.reshape(n, g, f, h - p + 1, w - q + 1) + B[None, :, :, None, None]


def conv2d(I, K):
    return _conv(I, K)


def conv2d_same(I, K):
    return _conv(I, K, padding=1)


def conv2d_stride2(I, K):
    return _conv(I, K, stride=2)


def conv2d_nhwc(I, K):
    return _conv(I, K, layout=("NHWC", "HWIO", "NHWC"))


def conv1x1(I, K):
    return _conv(I, K[:, :, None, None])


def depthwise(I, K):
    return _conv(I, K[:, None], groups=K.shape[0])


def conv1d(I, W):
    return lax.conv_general_dilated(I, W, (1,), "VALID", dimension_numbers=("NCH", "OIH", "NCH"))


def conv_transposed(G, K):
    return _conv(G, K[:, :, ::-1, ::-1].swapaxes(0, 1), padding=K.shape[2] - 1)


def conv_weights(I, G):
    return _conv(I.swapaxes(0, 1), G.swapaxes(0, 1)).swapaxes(0, 1)


def max_pool(I):
    return lax.reduce_window(I, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


def moments(I):
    m = I.mean(1)
    return m, (I * I).mean(1) - m * m


def softmax(I):
    m = I.max(1)
    e = jnp.exp(I - m[:, None])
    s = e.sum(1)
    return m, s, e / s[:, None]


def softmax_plain(I):
    return jax.nn.softmax(I, 1)


def layer_norm(X, gain, bias):
    d = X - X.mean(1, keepdims=True)
    return d * lax.rsqrt((d * d).mean(1, keepdims=True) + 1e-5) * gain + bias


def rms_norm(X, gain):
    return X * lax.rsqrt((X * X).mean(1, keepdims=True) + 1e-6) * gain


def batch_norm(X, gain, bias):
    mean = X.mean((0, 2, 3), keepdims=True)
    d = X - mean
    var = (d * d).mean((0, 2, 3), keepdims=True)
    o = d * lax.rsqrt(var + 1e-5) * gain[:, None, None] + bias[:, None, None]
    return o, mean.reshape(-1), var.reshape(-1)


def group_norm(X, gain, bias):
    d = X - X.mean((2, 3), keepdims=True)
    var = (d * d).mean((2, 3), keepdims=True)
    return d * lax.rsqrt(var + 1e-5) * gain[..., None] + bias[..., None]


def cross_entropy(X, T):
    return jax.nn.logsumexp(X, 1) - jnp.take_along_axis(X, T[:, None], 1)[:, 0]


def row_sum(A):
    return A.sum(1)


def column_sum(A):
    return A.sum(0)


def row_max(A):
    return A.max(1)


def total(a):
    return a.sum()


def lut(LUT1, I1):
    return LUT1[I1].sum(1)


def lut2(LUT1, I1, LUT2, I2):
    return LUT1[I1].sum(1), LUT2[I2].sum(1)


def weighted_lut(T, I, W):
    return (T[I] * W[:, :, None]).sum(1)


def gather_rows(T, I):
    return T[I]


def gather_elements(T, I):
    return T[I]


def sparse_rows(A, J, x):
    return (A * x[J]).sum(1)


def add(a, b):
    return a + b


def chain(a, b, c):
    return jnp.maximum(a * b + c, 0) * (a - b) + 1


def gate(a, b, c):
    return jnp.tanh(a * b) * jax.nn.sigmoid(c)


def outer_sum(a, b):
    return a[:, None] + b[None, :]


def fill(a):
    return jnp.full_like(a, 0.5)


def bias_relu(X, b):
    return jnp.maximum(X + b[:, None], 0)


def transpose(A):
    return A.T


def permute(X):
    return X.swapaxes(1, 2)


def jacobi2d(A):
    return 0.2 * (A[1:-1, 1:-1] + A[:-2, 1:-1] + A[2:, 1:-1] + A[1:-1, :-2] + A[1:-1, 2:])


def jacobi3d(A):
    i = slice(1, -1)
    x = A[:-2, i, i] + A[2:, i, i] + A[i, :-2, i] + A[i, 2:, i] + A[i, i, :-2] + A[i, i, 2:]
    return 0.4 * A[i, i, i] + 0.1 * x


def blur(I):
    b = (I[:, :-2] + I[:, 1:-1] + I[:, 2:]) * 0.33333333
    return (b[:-2] + b[1:-1] + b[2:]) * 0.33333333


def downscale(I):
    h, w = (n - n % 2 for n in I.shape[1:])
    x = I[:, :h, :w].astype(jnp.float32)
    return (x[:, ::2, ::2] + x[:, ::2, 1::2] + x[:, 1::2, ::2] + x[:, 1::2, 1::2]) * 0.25


def contraction(equation, *operands):
    return jnp.einsum(equation, *operands)


def reduction(operation, over, X):
    return X.sum(over) if operation == "sum" else X.max(over)


def permutation(order, X):
    return X.transpose(order)


def broadcast(places, *operands):
    a, b, c = (o[p] for p, o in zip(places, operands))
    return jnp.maximum(a * b + c, 0)


def normalisation(kind, over, X):
    if kind == "softmax":
        return jax.nn.softmax(X, over)
    m = X.mean(over, keepdims=True)
    v = ((X - m) ** 2).mean(over, keepdims=True)
    return (X - m) * lax.rsqrt(v + 1e-5)


def convolution(stride, dilation, I, K):
    x, k, groups = I, K, 1
    if I.ndim == 5:
        n, groups, c, h, w = I.shape
        x, k = I.reshape(n, groups * c, h, w), K.reshape(-1, *K.shape[2:])
    y = lax.conv_general_dilated(
        x, k, (stride, stride), "VALID", rhs_dilation=(dilation, dilation), feature_group_count=groups
    )
    return y if I.ndim == 4 else y.reshape(n, groups, -1, *y.shape[2:])


def stencil(windows, weights, X):
    return sum(w * X[at] for at, w in zip(windows, weights))


def lstm_cell(x, s, c, Wi, Ui, Wf, Uf, Wg, Ug, Wo, Uo):
    i, f, g, o = (x @ W.T + s @ U.T for W, U in ((Wi, Ui), (Wf, Uf), (Wg, Ug), (Wo, Uo)))
    d = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(d), d


def causal_attention(Q, K, V):
    t = jnp.arange(Q.shape[1])
    s = jnp.einsum("btd,bud->btu", Q, K) * Q.shape[2] ** -0.5
    return jax.nn.softmax(jnp.where(t[:, None] >= t, s, -1e30), -1) @ V


def separable_conv(X, D, P, B):
    t = lax.conv_general_dilated(X, D[:, None], (1, 1), "VALID", feature_group_count=len(D))
    return jnp.maximum(jnp.einsum("nchw,oc->nohw", t, P) + B[:, None, None], 0)


def conv_pool(X, K, B):
    t = jnp.maximum(lax.conv_general_dilated(X, K, (1, 1), "VALID") + B[:, None, None], 0)
    return lax.reduce_window(t, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


def squeeze_excite(X, A, B):
    g = jax.nn.sigmoid(jnp.maximum(X.mean((2, 3)) @ A.T, 0) @ B.T)
    return X * g[:, :, None, None]


def harris(I):
    h, w = I.shape
    a, b, c, d, e, f, g, i = (
        I[y : h - 2 + y, x : w - 2 + x] for y in range(3) for x in range(3) if (y, x) != (1, 1)
    )
    x, y = c - a + 2 * e - 2 * d + i - f, f - a + 2 * g - 2 * b + i - c
    A, B, C = (lax.reduce_window(t, 0.0, lax.add, (3, 3), (1, 1), "VALID") for t in (x * x, y * y, x * y))
    return A * B - C * C - 0.04 * (A + B) * (A + B)


def upscale(k, X):
    return X.repeat(k, 1).repeat(k, 2)


def pixel_shuffle(k, X):
    n, c, h, w = X.shape
    return X.reshape(n, c // k**2, k, k, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(n, c // k**2, k * h, k * w)


def roll(X):
    return jnp.roll(X, (-1, -2), (0, 1))
