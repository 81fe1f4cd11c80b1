"""Convolutions and pooling: windows sliding over one or two dimensions."""

from __future__ import annotations

from benchmarks.workloads.model import Array, Workload


def gconv(N: int, G: int, F: int, C: int, W: int, H: int) -> Workload:
    """A grouped 3x3 convolution with a bias; the groups have a dimension of their own."""
    return Workload(
        "gconv",
        """
        def gconv(float(N,G,C,H,W) I, float(G,F,C,KH,KW) W1, float(G,F) B) -> (O) {
          O(n,g,f,h,w) +=! I(n,g,c,h+kh,w+kw) * W1(g,f,c,kh,kw)
          O(n,g,f,h,w) = O(n,g,f,h,w) + B(g,f)
        }
        """,
        (Array("I", (N, G, C, H, W)), Array("W1", (G, F, C, 3, 3)), Array("B", (G, F))),
        flops=2.0 * N * G * F * C * (W - 2) * (H - 2) * 9,
        kind="compute",
        terms=9 * C,
    )


def conv2d(N: int, C: int, F: int, H: int, W: int) -> Workload:
    """3x3, NCHW."""
    return Workload(
        "conv2d",
        "def conv2d(float(N,C,H,W) I, float(F,C,KH,KW) K) -> (O) {"
        " O(n,f,y,x) +=! I(n,c,y+ky,x+kx) * K(f,c,ky,kx) }",
        (Array("I", (N, C, H, W)), Array("K", (F, C, 3, 3))),
        flops=2.0 * N * F * C * (H - 2) * (W - 2) * 9,
        kind="compute",
        terms=9 * C,
    )


def conv2d_same(N: int, C: int, F: int, H: int, W: int) -> Workload:
    """3x3, NCHW, zeros around the images: as many points as there are pixels."""
    return Workload(
        "conv2d_same",
        """
        def conv2d_same(float(N,C,H,W) I, float(F,C,KH,KW) K) -> (O) {
          O(n,f,y,x) +=! (y+ky >= 1 && y+ky <= H && x+kx >= 1 && x+kx <= W ? I(n,c,y+ky-1,x+kx-1) : 0)
              * K(f,c,ky,kx)
            where y in 0:H, x in 0:W
        }
        """,
        (Array("I", (N, C, H, W)), Array("K", (F, C, 3, 3))),
        flops=2.0 * N * F * C * (3 * H - 2) * (3 * W - 2),
        kind="compute",
        terms=9 * C,
    )


def conv2d_stride2(N: int, C: int, F: int, H: int, W: int) -> Workload:
    """3x3, NCHW, every second point."""
    return Workload(
        "conv2d_stride2",
        "def conv2d_stride2(float(N,C,H,W) I, float(F,C,KH,KW) K) -> (O) {"
        " O(n,f,y,x) +=! I(n,c,2*y+ky,2*x+kx) * K(f,c,ky,kx) }",
        (Array("I", (N, C, H, W)), Array("K", (F, C, 3, 3))),
        flops=2.0 * N * F * C * ((H - 3) // 2 + 1) * ((W - 3) // 2 + 1) * 9,
        kind="compute",
        terms=9 * C,
    )


def conv2d_nhwc(N: int, C: int, F: int, H: int, W: int) -> Workload:
    """3x3 with the channels last, in the inputs and in the result."""
    return Workload(
        "conv2d_nhwc",
        "def conv2d_nhwc(float(N,H,W,C) I, float(KH,KW,C,F) K) -> (O) {"
        " O(n,y,x,f) +=! I(n,y+ky,x+kx,c) * K(ky,kx,c,f) }",
        (Array("I", (N, H, W, C)), Array("K", (3, 3, C, F))),
        flops=2.0 * N * F * C * (H - 2) * (W - 2) * 9,
        kind="compute",
        terms=9 * C,
    )


def conv1x1(N: int, C: int, F: int, H: int, W: int) -> Workload:
    return Workload(
        "conv1x1",
        "def conv1x1(float(N,C,H,W) I, float(F,C) K) -> (O) { O(n,f,y,x) +=! I(n,c,y,x) * K(f,c) }",
        (Array("I", (N, C, H, W)), Array("K", (F, C))),
        flops=2.0 * N * F * C * H * W,
        kind="compute",
        terms=C,
    )


def depthwise(N: int, C: int, H: int, W: int) -> Workload:
    """Each channel with its own 3x3 window."""
    return Workload(
        "depthwise",
        "def depthwise(float(N,C,H,W) I, float(C,KH,KW) K) -> (O) {"
        " O(n,c,y,x) +=! I(n,c,y+ky,x+kx) * K(c,ky,kx) }",
        (Array("I", (N, C, H, W)), Array("K", (C, 3, 3))),
        flops=2.0 * N * C * (H - 2) * (W - 2) * 9,
        kind="memory",
        terms=9,
    )


def conv1d(B: int, C: int, F: int, L: int, K: int) -> Workload:
    return Workload(
        "conv1d",
        "def conv1d(float(B,C,L) I, float(F,C,K) W) -> (O) { O(b,f,x) +=! I(b,c,x+k) * W(f,c,k) }",
        (Array("I", (B, C, L)), Array("W", (F, C, K))),
        flops=2.0 * B * C * F * (L - K + 1) * K,
        kind="compute",
        terms=C * K,
    )


def conv_transposed(N: int, C: int, F: int, H: int, W: int) -> Workload:
    """The gradient of a 3x3 convolution in its input: each point reads what lies before it, zero outside."""
    return Workload(
        "conv_transposed",
        """
        def conv_transposed(float(N,F,H,W) G, float(F,C,KH,KW) K) -> (O) {
          O(n,c,y,x) +=! (y >= ky && y - ky < H && x >= kx && x - kx < W ? G(n,f,y-ky,x-kx) : 0)
              * K(f,c,ky,kx)
            where y in 0:H+KH-1, x in 0:W+KW-1
        }
        """,
        (Array("G", (N, F, H, W)), Array("K", (F, C, 3, 3))),
        flops=2.0 * N * F * C * H * W * 9,
        kind="compute",
        terms=9 * F,
    )


def conv_weights(N: int, C: int, F: int, H: int, W: int) -> Workload:
    """The gradient of a 3x3 convolution in its weights: few results, long sums."""
    return Workload(
        "conv_weights",
        "def conv_weights(float(N,C,H,W) I, float(N,F,P,Q) G) -> (O) {"
        " O(f,c,ky,kx) +=! I(n,c,y+ky,x+kx) * G(n,f,y,x) }",
        (Array("I", (N, C, H, W)), Array("G", (N, F, H - 2, W - 2))),
        flops=2.0 * N * F * C * (H - 2) * (W - 2) * 9,
        kind="compute",
        terms=N * H * W,
    )


def max_pool(N: int, C: int, H: int, W: int) -> Workload:
    """The greatest of each 2x2 square."""
    return Workload(
        "max_pool",
        "def max_pool(float(N,C,H,W) I) -> (O) {"
        " O(n,c,y,x) max=! I(n,c,2*y+ky,2*x+kx) where ky in 0:2, kx in 0:2 }",
        (Array("I", (N, C, H, W)),),
        flops=4.0 * N * C * (H // 2) * (W // 2),
        kind="memory",
    )
