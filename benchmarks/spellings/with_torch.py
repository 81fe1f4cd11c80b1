"""PyTorch's spelling of every family; for Inductor too, which compiles the same functions.

`NAME_alt` is a second spelling where the first may not be the best: convolutions with channels last, for
which `PREPARE[NAME]` lays the inputs out before the clock starts, or another operator.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F


def tmm(A, B):
    return A @ B.T


def gemm(A, B):
    return A @ B


def gemm_tn(A, B):
    return A.T @ B


def igemm(A, B):
    return torch._int_mm(A, B)


def tbmm(X, Y):
    return X @ Y.transpose(1, 2)


def bmm(X, Y):
    return X @ Y


def matvec(A, x):
    return A @ x


def vecmat(x, A):
    return x @ A


def dot(a, b):
    return torch.dot(a, b)


def mlp1(I, W1, B1):
    return F.linear(I, W1, B1).relu()


def mlp1_alt(I, W1, B1):
    return (I @ W1.T + B1).clamp_min(0)


def mlp3(I, W2, B2, W3, B3, W4, B4):
    x = F.linear(I, W2, B2).relu()
    y = F.linear(x, W3, B3).relu()
    return x, y, F.linear(y, W4, B4).relu()


def mlp3_alt(I, W2, B2, W3, B3, W4, B4):
    x = (I @ W2.T + B2).clamp_min(0)
    y = (x @ W3.T + B3).clamp_min(0)
    return x, y, (y @ W4.T + B4).clamp_min(0)


def gelu_mlp(X, W1, B1, W2, B2):
    return F.linear(F.gelu(F.linear(X, W1, B1)), W2, B2)


def swiglu(X, W, V):
    return F.silu(F.linear(X, W)) * F.linear(X, V)


def kronecker3(W0, W1, W2, X):
    b = X @ W2.T
    a = torch.einsum("mnqr,dq->mndr", b, W1)
    return torch.einsum("mnqr,dn->mdqr", a, W0), a, b


def attention(Q, K, V):
    return F.scaled_dot_product_attention(Q, K, V)


def attention_alt(Q, K, V):
    return torch.softmax(Q @ K.transpose(1, 2) * Q.shape[2] ** -0.5, 2) @ V


def chain3(A, B, C):
    return A @ B @ C


def bilinear(X, W, Y):
    return F.bilinear(X, Y, W)


def bilinear_alt(X, W, Y):
    return ((X @ W) * Y).sum(2).T


def mttkrp(X, B, C):
    return ((X @ C) * B).sum(1)


def mttkrp_alt(X, B, C):
    return torch.einsum("ijk,jr,kr->ir", X, B, C)


def distances(X, Y):
    d = X[:, None, :] - Y[None, :, :]
    return (d * d).sum(2)


def distances_alt(X, Y):
    return torch.cdist(X, Y, compute_mode="donot_use_mm_for_euclid_dist").square()


def syrk(A):
    return (A @ A.T).tril()


def gconv(I, W1, B):
    n, g, c, h, w = I.shape
    _, f, _, p, q = W1.shape
    x = F.conv2d(I.reshape(n, g * c, h, w), W1.reshape(g * f, c, p, q), B.reshape(-1), groups=g)
    return x.reshape(n, g, f, h - p + 1, w - q + 1)


def gconv_alt(I, W1, B):
    g, f = B.shape
    x = F.conv2d(I, W1, B.reshape(-1), groups=g)
    return x.unflatten(1, (g, f))


def conv2d(I, K):
    return F.conv2d(I, K)


def conv2d_alt(I, K):
    return F.conv2d(I, K)


def conv2d_same(I, K):
    return F.conv2d(I, K, padding=1)


def conv2d_same_alt(I, K):
    return F.conv2d(I, K, padding=1)


def conv2d_stride2(I, K):
    return F.conv2d(I, K, stride=2)


def conv2d_stride2_alt(I, K):
    return F.conv2d(I, K, stride=2)


def conv2d_nhwc(I, K):
    return F.conv2d(I.permute(0, 3, 1, 2), K.permute(3, 2, 0, 1)).permute(0, 2, 3, 1)


def conv1x1(I, K):
    return F.conv2d(I, K[:, :, None, None])


def conv1x1_alt(I, K):
    return F.conv2d(I, K[:, :, None, None])


def depthwise(I, K):
    return F.conv2d(I, K[:, None], groups=K.shape[0])


def depthwise_alt(I, K):
    return F.conv2d(I, K[:, None], groups=K.shape[0])


def conv1d(I, W):
    return F.conv1d(I, W)


def conv1d_alt(I, W):
    return F.conv2d(I, W).squeeze(2)


def conv_transposed(G, K):
    return F.conv_transpose2d(G, K)


def conv_transposed_alt(G, K):
    return F.conv_transpose2d(G, K)


def conv_weights(I, G):
    (_, c, h, w), (_, f, p, q) = I.shape, G.shape
    shape = (f, c, h - p + 1, w - q + 1)
    return torch.ops.aten.convolution_backward(
        G, I, I.new_empty(shape), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [False, True, False]
    )[1]


def conv_weights_alt(I, G):
    return F.conv2d(I.transpose(0, 1), G.transpose(0, 1)).transpose(0, 1)


def max_pool(I):
    return F.max_pool2d(I, 2)


def max_pool_alt(I):
    return F.max_pool2d(I, 2)


def moments(I):
    m = I.mean(1)
    return m, (I * I).mean(1) - m * m


def moments_alt(I):
    var, mean = torch.var_mean(I, 1, correction=0)
    return mean, var


def softmax(I):
    m = I.amax(1)
    e = (I - m[:, None]).exp()
    s = e.sum(1)
    return m, s, e / s[:, None]


def softmax_alt(I):
    m = I.amax(1)
    e = (I - m[:, None]).exp_()
    s = e.sum(1)
    return m, s, e.div_(s[:, None])


def softmax_plain(I):
    return torch.softmax(I, 1)


def layer_norm(X, gain, bias):
    return F.layer_norm(X, gain.shape, gain, bias, 1e-5)


def rms_norm(X, gain):
    return F.rms_norm(X, gain.shape, gain, 1e-6)


def batch_norm(X, gain, bias):
    o, mean, invstd = torch.native_batch_norm(X, gain, bias, None, None, True, 0.1, 1e-5)
    return o, mean, invstd**-2 - 1e-5


def batch_norm_alt(X, gain, bias):
    o, mean, invstd = torch.native_batch_norm(X, gain, bias, None, None, True, 0.1, 1e-5)
    return o, mean, invstd**-2 - 1e-5


def group_norm(X, gain, bias):
    n, g, c, s = X.shape
    return F.group_norm(X.reshape(n, g * c, s), g, gain.reshape(-1), bias.reshape(-1), 1e-5).reshape(
        n, g, c, s
    )


def cross_entropy(X, T):
    return F.cross_entropy(X, T.long(), reduction="none")


def row_sum(A):
    return A.sum(1)


def column_sum(A):
    return A.sum(0)


def row_max(A):
    return A.amax(1)


def total(a):
    return a.sum()


def lut(LUT1, I1):
    return F.embedding_bag(I1, LUT1, mode="sum")


def lut2(LUT1, I1, LUT2, I2):
    return F.embedding_bag(I1, LUT1, mode="sum"), F.embedding_bag(I2, LUT2, mode="sum")


def weighted_lut(T, I, W):
    return F.embedding_bag(I, T, per_sample_weights=W, mode="sum")


def gather_rows(T, I):
    return T.index_select(0, I)


def gather_rows_alt(T, I):
    return F.embedding(I, T)


def gather_elements(T, I):
    return T.index_select(0, I)


def gather_elements_alt(T, I):
    return T[I]


def sparse_rows(A, J, x):
    return (A * x[J]).sum(1)


def add(a, b):
    return a + b


def chain(a, b, c):
    return (a * b + c).relu() * (a - b) + 1


def gate(a, b, c):
    return torch.tanh(a * b) * torch.sigmoid(c)


def outer_sum(a, b):
    return a[:, None] + b[None, :]


def fill(a):
    return torch.full_like(a, 0.5)


def bias_relu(X, b):
    return (X + b[:, None]).relu()


def bias_relu_alt(X, b):
    return (X + b[:, None]).relu_()


def transpose(A):
    return A.T.contiguous()


def permute(X):
    return X.transpose(1, 2).contiguous()


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
    x = I[:, :h, :w].float()
    return (x[:, ::2, ::2] + x[:, ::2, 1::2] + x[:, 1::2, ::2] + x[:, 1::2, 1::2]) * 0.25


def downscale_alt(I):
    return F.avg_pool2d(I.float(), 2)


def _last(x):
    return x.contiguous(memory_format=torch.channels_last)


PREPARE = {
    "gconv": lambda I, W1, B: (_last(I.flatten(1, 2)), _last(W1.flatten(0, 1)), B),
    "conv2d": lambda I, K: (_last(I), _last(K)),
    "conv2d_same": lambda I, K: (_last(I), _last(K)),
    "conv2d_stride2": lambda I, K: (_last(I), _last(K)),
    "conv1x1": lambda I, K: (_last(I), K),
    "depthwise": lambda I, K: (_last(I), K),
    "conv1d": lambda I, W: (_last(I.unsqueeze(2)), _last(W.unsqueeze(2))),
    "conv_transposed": lambda G, K: (_last(G), _last(K)),
    "max_pool": lambda I: (_last(I),),
    "batch_norm": lambda X, gain, bias: (_last(X), gain, bias),
    "convolution": lambda I, K: (
        (_last(I), _last(K)) if I.ndim == 4 else (_last(I.flatten(1, 2)), _last(K.flatten(0, 1)))
    ),
}

# The judge computes in float64; where the plain spelling takes no such operands it has its own.
TRUTH = {
    "igemm": lambda A, B: A.double() @ B.double(),
    "gemm_tn": lambda A, B: A.T @ B,
}
