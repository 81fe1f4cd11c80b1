"""PyTorch's spelling of the programs that are drawn at random, and of those of the group `programs`."""

from __future__ import annotations

import torch
import torch.nn.functional as F


def contraction(equation, *operands):
    return torch.einsum(equation, *operands)


def reduction(operation, over, X):
    return X.sum(over) if operation == "sum" else X.amax(over)


def permutation(order, X):
    return X.permute(order).contiguous()


def broadcast(places, *operands):
    a, b, c = (o[p] for p, o in zip(places, operands))
    return (a * b + c).relu()


def normalisation(kind, over, X):
    if kind == "softmax":
        e = (X - X.amax(over, True)).exp()
        return e / e.sum(over, True)
    v, m = torch.var_mean(X, over, correction=0, keepdim=True)
    return (X - m) * (v + 1e-5).rsqrt()


def normalisation_alt(kind, over, X):
    """With the library's calls, where it has one."""
    if kind == "softmax" and len(over) == 1:
        return torch.softmax(X, over[0])
    if kind == "standard" and over == tuple(range(over[0], X.ndim)):
        return F.layer_norm(X, X.shape[over[0] :], eps=1e-5)
    return normalisation(kind, over, X)


def convolution(stride, dilation, I, K):
    if I.ndim == 4:
        return F.conv2d(I, K, stride=stride, dilation=dilation)
    g, f = K.shape[:2]
    x = F.conv2d(I.flatten(1, 2), K.flatten(0, 1), stride=stride, dilation=dilation, groups=g)
    return x.unflatten(1, (g, f))


def convolution_alt(stride, dilation, I, K):
    groups = I.shape[1] // K.shape[1]
    x = F.conv2d(I, K, stride=stride, dilation=dilation, groups=groups)
    return x.unflatten(1, (groups, -1)) if groups > 1 else x


def stencil(windows, weights, X):
    return sum(w * X[at] for at, w in zip(windows, weights))


def lstm_cell(x, s, c, Wi, Ui, Wf, Uf, Wg, Ug, Wo, Uo):
    i, f, g, o = (x @ W.T + s @ U.T for W, U in ((Wi, Ui), (Wf, Uf), (Wg, Ug), (Wo, Uo)))
    d = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * d.tanh(), d


def causal_attention(Q, K, V):
    return F.scaled_dot_product_attention(Q, K, V, is_causal=True)


def separable_conv(X, D, P, B):
    return F.conv2d(F.conv2d(X, D[:, None], groups=len(D)), P[:, :, None, None], B).relu()


def conv_pool(X, K, B):
    return F.max_pool2d(F.conv2d(X, K, B).relu(), 2)


def squeeze_excite(X, A, B):
    g = F.linear(F.linear(X.mean((2, 3)), A).relu(), B).sigmoid()
    return X * g[:, :, None, None]


def harris(I):
    a, b, c, d, e, f, g, h = _around(I)
    x, y = c - a + 2 * e - 2 * d + h - f, f - a + 2 * g - 2 * b + h - c
    A, B, C = (_window(t) for t in (x * x, y * y, x * y))
    return A * B - C * C - 0.04 * (A + B) * (A + B)


def harris_alt(I):
    k = torch.tensor([[[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]], [[-1, -2, -1], [0, 0, 0], [1, 2, 1]]])
    x, y = F.conv2d(I[None, None], k[:, None])[0]
    A, B, C = F.avg_pool2d(torch.stack((x * x, y * y, x * y)), 3, 1, divisor_override=1)
    return A * B - C * C - 0.04 * (A + B) * (A + B)


def _around(I):
    """The eight neighbours of every pixel but those at the edges."""
    h, w = I.shape
    places = [(y, x) for y in range(3) for x in range(3) if (y, x) != (1, 1)]
    return [I[y : h - 2 + y, x : w - 2 + x] for y, x in places]


def _window(X):
    h, w = X.shape
    return sum(X[y : h - 2 + y, x : w - 2 + x] for y in range(3) for x in range(3))


def upscale(k, X):
    return F.interpolate(X[None], scale_factor=float(k), mode="nearest")[0]


def upscale_alt(k, X):
    return X.repeat_interleave(k, 1).repeat_interleave(k, 2)


def pixel_shuffle(k, X):
    return F.pixel_shuffle(X, k)


def roll(X):
    return X.roll((-1, -2), (0, 1))
