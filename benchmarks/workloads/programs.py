"""Programs of several statements, and moves that no operator of its own has everywhere."""

from __future__ import annotations

from benchmarks.workloads.model import Array, Workload


def lstm_cell(B: int, I: int, H: int) -> Workload:
    gates = ("i", "f", "g", "o")
    sums = "\n".join(f"{g}(b,h) +=! x(b,j) * W{g}(h,j)\n{g}(b,h) += s(b,k) * U{g}(h,k)" for g in gates)
    params = ", ".join(f"float(H,{n}) {m}{g}" for g in gates for m, n in (("W", "I"), ("U", "H")))
    return Workload(
        "lstm_cell",
        f"""
        def lstm_cell(float(B,I) x, float(B,H) s, float(B,H) c, {params}) -> (t, d) {{
          {sums}
          d(b,h) = sigmoid(f(b,h)) * c(b,h) + sigmoid(i(b,h)) * tanh(g(b,h))
          t(b,h) = sigmoid(o(b,h)) * tanh(d(b,h))
        }}
        """,
        (
            Array("x", (B, I)),
            Array("s", (B, H)),
            Array("c", (B, H)),
            *(Array(f"{m}{g}", (H, n)) for g in gates for m, n in (("W", I), ("U", H))),
        ),
        flops=8.0 * B * H * (I + H) + 9.0 * B * H,
        kind="compute",
        terms=I + H,
    )


def causal_attention(B: int, T: int, D: int) -> Workload:
    return Workload(
        "causal_attention",
        f"""
        def causal_attention(float(B,T,D) Q, float(B,T,D) K, float(B,T,D) V) -> (O) {{
          S(b,t,u) +=! Q(b,t,d) * K(b,u,d)
          S(b,t,u) = u <= t ? S(b,t,u) * {D**-0.5!r} : -1e30
          M(b,t) max=! S(b,t,u)
          E(b,t,u) = exp(S(b,t,u) - M(b,t))
          Z(b,t) +=! E(b,t,u)
          O(b,t,d) +=! E(b,t,u) * V(b,u,d)
          O(b,t,d) = O(b,t,d) / Z(b,t)
        }}
        """,
        tuple(Array(n, (B, T, D)) for n in "QKV"),
        flops=2.0 * B * T * (T + 1) * D,
        kind="compute",
        terms=D + T,
    )


def separable_conv(N: int, C: int, O: int, H: int, W: int) -> Workload:
    return Workload(
        "separable_conv",
        """
        def separable_conv(float(N,C,H,W) X, float(C,KH,KW) D, float(O,C) P, float(O) B) -> (Y) {
          T(n,c,h,w) +=! X(n,c,h+kh,w+kw) * D(c,kh,kw)
          Y(n,o,h,w) +=! T(n,c,h,w) * P(o,c)
          Y(n,o,h,w) = fmax(Y(n,o,h,w) + B(o), 0)
        }
        """,
        (Array("X", (N, C, H + 2, W + 2)), Array("D", (C, 3, 3)), Array("P", (O, C)), Array("B", (O,))),
        flops=(18.0 + 2.0 * O) * N * C * H * W + 2.0 * N * O * H * W,
        kind="compute",
        terms=9 * C,
    )


def conv_pool(N: int, C: int, F: int, H: int, W: int) -> Workload:
    """A convolution, ReLU, and the largest of each 2x2 square."""
    return Workload(
        "conv_pool",
        """
        def conv_pool(float(N,C,H,W) X, float(F,C,KH,KW) K, float(F) B) -> (Y) {
          T(n,f,h,w) +=! X(n,c,h+kh,w+kw) * K(f,c,kh,kw)
          T(n,f,h,w) = fmax(T(n,f,h,w) + B(f), 0)
          Y(n,f,h,w) max=! T(n,f,2*h+i,2*w+j) where i in 0:2, j in 0:2
        }
        """,
        (Array("X", (N, C, 2 * H + 2, 2 * W + 2)), Array("K", (F, C, 3, 3)), Array("B", (F,))),
        flops=4.0 * N * F * H * W * (18.0 * C + 3),
        kind="compute",
        terms=9 * C,
    )


def squeeze_excite(N: int, C: int, R: int, H: int, W: int) -> Workload:
    return Workload(
        "squeeze_excite",
        """
        def squeeze_excite(float(N,C,H,W) X, float(R,C) A, float(C,R) B) -> (Y) {
          M(n,c) +=! X(n,c,h,w)
          S(n,r) +=! M(n,c) * A(r,c)
          S(n,r) = fmax(S(n,r) / float(H*W), 0)
          G(n,c) +=! S(n,r) * B(c,r)
          Y(n,c,h,w) = X(n,c,h,w) * sigmoid(G(n,c))
        }
        """,
        (Array("X", (N, C, H, W)), Array("A", (R, C)), Array("B", (C, R))),
        flops=2.0 * N * C * H * W + 4.0 * N * C * R,
        kind="memory",
        terms=C + H * W,
    )


def harris(H: int, W: int) -> Workload:
    """Corners of an image (Harris and Stephens, 1988), over windows of 3x3."""
    window = "where p in 0:3, q in 0:3"
    return Workload(
        "harris",
        f"""
        def harris(float(H,W) I) -> (R) {{
          X(y,x) = I(y,x+2) - I(y,x) + 2 * I(y+1,x+2) - 2 * I(y+1,x) + I(y+2,x+2) - I(y+2,x)
          Y(y,x) = I(y+2,x) - I(y,x) + 2 * I(y+2,x+1) - 2 * I(y,x+1) + I(y+2,x+2) - I(y,x+2)
          A(y,x) +=! X(y+p,x+q) * X(y+p,x+q) {window}
          B(y,x) +=! Y(y+p,x+q) * Y(y+p,x+q) {window}
          C(y,x) +=! X(y+p,x+q) * Y(y+p,x+q) {window}
          R(y,x) = A(y,x) * B(y,x) - C(y,x) * C(y,x) - 0.04 * (A(y,x) + B(y,x)) * (A(y,x) + B(y,x))
        }}
        """,
        (Array("I", (H, W)),),
        flops=75.0 * H * W,
        kind="memory",
        terms=9,
    )


def upscale(N: int, H: int, W: int, K: int) -> Workload:
    """Images to K times the size, each pixel as often."""
    return Workload(
        "upscale",
        "def upscale(float(N,H,W) X) -> (Y) {"
        f" Y(n,y,x) = X(n,y/{K},x/{K}) where y in 0:{K}*H, x in 0:{K}*W }}",
        (Array("X", (N, H, W)),),
        flops=0.0,
        kind="memory",
        constants=(K,),
    )


def pixel_shuffle(N: int, C: int, H: int, W: int, K: int) -> Workload:
    """Pixels of K times K channels side by side."""
    return Workload(
        "pixel_shuffle",
        "def pixel_shuffle(float(N,D,H,W) X) -> (Y) {"
        f" Y(n,c,y,x) = X(n,{K * K}*c+{K}*(y%{K})+x%{K},y/{K},x/{K}) "
        f"where c in 0:D/{K * K}, y in 0:{K}*H, x in 0:{K}*W }}",
        (Array("X", (N, C * K * K, H, W)),),
        flops=0.0,
        kind="memory",
        constants=(K,),
    )


def roll(M: int, N: int) -> Workload:
    return Workload(
        "roll",
        "def roll(float(M,N) X) -> (Y) { Y(i,j) = X((i+1)%M,(j+2)%N) where i in 0:M, j in 0:N }",
        (Array("X", (M, N)),),
        flops=0.0,
        kind="memory",
    )
