# pyright: basic, reportMissingImports=false
"""Triton's spelling: kernels of our own, those of `benchmarks.spellings.triton_kernels`.

Of families that are said in indices it has the convolutions.  Arguments lie as workloads have them,
contiguous.
"""

from __future__ import annotations

import torch

from benchmarks.spellings.triton_kernels import layers, lookups, products, rowwise, streams, sums, windows

_WIDEST = 128  # of layers that one block holds the weights of


def tmm(A, B):
    return products.multiply(A, B.T)


def gemm(A, B):
    return products.multiply(A, B)


def gemm_tn(A, B):
    return products.multiply(A.T, B)


def igemm(A, B):
    return products.multiply(A, B)


def tbmm(X, Y):
    return products.multiply(X, Y.transpose(1, 2))


def bmm(X, Y):
    small = X.shape[2] <= 16 and X.shape[1] * Y.shape[2] <= 256
    return products.multiply_tiny(X, Y) if small else products.multiply(X, Y)


def matvec(A, x):
    return sums.rows(A, "dot", x)


def vecmat(x, A):
    return sums.columns(A, x)


def dot(a, b):
    return sums.rows(a[None], "dot", b).view(())


def mlp1(I, W1, B1):
    return products.multiply(I, W1.T, B1, "relu")


def mlp3(I, W2, B2, W3, B3, W4, B4):
    if max(I.shape[1], len(W2), len(W3), len(W4)) <= _WIDEST:
        return layers.three_layers(I, W2, B2, W3, B3, W4, B4)
    x = mlp1(I, W2, B2)
    y = mlp1(x, W3, B3)
    return x, y, mlp1(y, W4, B4)


def gelu_mlp(X, W1, B1, W2, B2):
    return products.multiply(products.multiply(X, W1.T, B1, "gelu"), W2.T, B2)


def swiglu(X, W, V):
    return layers.swiglu(X, W, V)


def kronecker3(W0, W1, W2, X):
    M, N0, N1, N2 = X.shape
    D0, D1, D2 = len(W0), len(W1), len(W2)
    b = products.multiply(X.view(M * N0 * N1, N2), W2.T)
    a = products.multiply(W1, b.view(M * N0, N1, D2))
    y = products.multiply(W0, a.view(M, N0, D1 * D2))
    return y.view(M, D0, D1, D2), a.view(M, N0, D1, D2), b.view(M, N0, N1, D2)


def attention(Q, K, V):
    return layers.attention(Q, K, V, causal=False)


def causal_attention(Q, K, V):
    return layers.attention(Q, K, V, causal=True)


def chain3(A, B, C):
    return products.multiply(products.multiply(A, B), C)


def bilinear(X, W, Y):
    return layers.forms(X, W, Y, torch.empty((len(X), len(W)), dtype=X.dtype, device=X.device))


def mttkrp(X, B, C):
    O = torch.empty((len(X), B.shape[1]), dtype=X.dtype, device=X.device)
    layers.forms(C.T, X.transpose(1, 2), B.T, O.T)
    return O


def distances(X, Y):
    return layers.distances(X, Y)


def syrk(A):
    return layers.lower_square(A)


def lstm_cell(x, s, c, Wi, Ui, Wf, Uf, Wg, Ug, Wo, Uo):
    return layers.lstm_cell(x, s, c, Wi, Ui, Wf, Uf, Wg, Ug, Wo, Uo)


def _convolved(I, K, shape, **more):
    """A convolution to a contiguous result of so many rows and columns."""
    out = torch.empty((len(I), len(K), *shape), dtype=I.dtype, device=I.device)
    return windows.convolve(I, K, out, **more)


def _valid(I, K):
    return I.shape[-2] - K.shape[-2] + 1, I.shape[-1] - K.shape[-1] + 1


def gconv(I, W1, B):
    G, F = B.shape
    x = _convolved(I.flatten(1, 2), W1.flatten(0, 1), _valid(I, W1), bias=B, groups=G)
    return x.unflatten(1, (G, F))


def conv2d(I, K):
    return _convolved(I, K, _valid(I, K))


def conv2d_same(I, K):
    return _convolved(I, K, I.shape[2:], pad=1)


def conv2d_stride2(I, K):
    H, W = _valid(I, K)
    return _convolved(I, K, ((H + 1) // 2, (W + 1) // 2), stride=2)


def conv2d_nhwc(I, K):
    N, H, W, _ = I.shape
    O = torch.empty((N, H - K.shape[0] + 1, W - K.shape[1] + 1, K.shape[3]), dtype=I.dtype, device=I.device)
    windows.convolve(I.permute(0, 3, 1, 2), K.permute(3, 2, 0, 1), O.permute(0, 3, 1, 2), last=True)
    return O


def conv1x1(I, K):
    return products.multiply(K, I.flatten(2)).view(len(I), len(K), *I.shape[2:])


def depthwise(I, K):
    return windows.depthwise(I, K)


def separable_conv(X, D, P, B):
    T = windows.depthwise(X, D)
    return products.multiply(P, T.flatten(2), B, "relu", by_rows=True).view(len(X), len(P), *T.shape[2:])


def conv1d(I, W):
    return _convolved(I[:, :, None], W[:, :, None], (1, I.shape[2] - W.shape[2] + 1)).squeeze(2)


def conv_transposed(G, K):
    K = K.transpose(0, 1)
    return _convolved(G, K, (G.shape[2] + K.shape[2] - 1, G.shape[3] + K.shape[3] - 1), step=-1)


def conv_weights(I, G):
    (_, C, H, W), (_, F, P, Q) = I.shape, G.shape
    O = torch.empty((F, C, H - P + 1, W - Q + 1), dtype=I.dtype, device=I.device)
    windows.convolve(I.transpose(0, 1), G.transpose(0, 1), O.transpose(0, 1))
    return O


def conv_pool(X, K, B):
    return windows.pool(_convolved(X, K, _valid(X, K), bias=B, act="relu"), highest=True)


def convolution(stride, dilation, I, K):
    (KH, KW), (H, W) = K.shape[-2:], I.shape[-2:]
    shape = ((H - dilation * (KH - 1) - 1) // stride + 1, (W - dilation * (KW - 1) - 1) // stride + 1)
    if I.ndim == 4:
        return _convolved(I, K, shape, stride=stride, step=dilation)
    G, F = K.shape[:2]
    x = _convolved(I.flatten(1, 2), K.flatten(0, 1), shape, stride=stride, step=dilation, groups=G)
    return x.unflatten(1, (G, F))


def max_pool(I):
    return windows.pool(I, highest=True)


def downscale(I):
    return windows.pool(I, highest=False)


def squeeze_excite(X, A, B):
    N, C, H, W = X.shape
    over = sums.rows(X.view(N * C, H * W), "sum").view(N, C)
    return streams.by_planes("scale", X, streams.gates(over, A, B, H * W))


def moments(I):
    return sums.moments(I)


def softmax(I):
    return rowwise.softmax(I, stats=True)


def softmax_plain(I):
    return rowwise.softmax(I, stats=False)[0]


def layer_norm(X, gain, bias):
    return rowwise.norm(X, gain, bias, 1e-5)


def rms_norm(X, gain):
    return rowwise.norm(X, gain, None, 1e-6)


def batch_norm(X, gain, bias):
    return rowwise.batch_norm(X, gain, bias)


def group_norm(X, gain, bias):
    return rowwise.norm(X.flatten(2), gain, bias, 1e-5, groups=X.shape[1], run=X.shape[3]).view(X.shape)


def cross_entropy(X, T):
    return rowwise.cross_entropy(X, T)


def row_sum(A):
    return sums.rows(A, "sum")


def column_sum(A):
    return sums.columns(A)


def row_max(A):
    return sums.rows(A, "max")


def total(a):
    return sums.rows(a[None], "sum").view(())


def lut(LUT1, I1):
    return lookups.bags(LUT1, I1)


def lut2(LUT1, I1, LUT2, I2):
    return lookups.two_bags(LUT1, I1, LUT2, I2)


def weighted_lut(T, I, W):
    return lookups.bags(T, I, W)


def gather_rows(T, I):
    return lookups.gather(T, I)


def gather_elements(T, I):
    return lookups.gather(T, I)


def sparse_rows(A, J, x):
    return sums.rows(A, "gather", x, J)


def add(a, b):
    return streams.over("add", a, b)


def chain(a, b, c):
    return streams.over("chain", a, b, c)


def gate(a, b, c):
    return streams.over("gate", a, b, c)


def outer_sum(a, b):
    return streams.outer_sum(a, b)


def fill(a):
    return streams.over("fill", a)


def bias_relu(X, b):
    return streams.by_planes("bias_relu", X, b)


def transpose(A):
    return streams.transpose(A)


def permute(X):
    return streams.permute(X)


def jacobi2d(A):
    return windows.stencil(A, "cross")


def jacobi3d(A):
    return windows.jacobi3d(A)


def blur(I):
    return windows.stencil(I, "box")


def harris(I):
    return windows.stencil(I, "corners")


def upscale(k, X):
    N, H, W = X.shape
    return streams.move("upscale", X, (N, k * H, k * W), k)


def pixel_shuffle(k, X):
    N, D, H, W = X.shape
    return streams.move("pixel_shuffle", X, (N, D // k**2, k * H, k * W), k)


def roll(X):
    return streams.move("roll", X, tuple(X.shape))
