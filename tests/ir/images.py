"""Convolutions with zeros around the images, for tests of operands that are computed once."""

SAME = """
def f(float(N,C,H,W) I, float(F,C,KH,KW) K) -> (O) {
  O(n,f,y,x) +=! (y+ky >= 1 && y+ky <= H && x+kx >= 1 && x+kx <= W ? I(n,c,y+ky-1,x+kx-1) : 0) * K(f,c,ky,kx)
    where y in 0:H, x in 0:W
}"""
TRANSPOSED = """
def f(float(N,F,H,W) G, float(F,C,KH,KW) K) -> (O) {
  O(n,c,y,x) +=! (y >= ky && y - ky < H && x >= kx && x - kx < W ? G(n,f,y-ky,x-kx) : 0) * K(f,c,ky,kx)
    where y in 0:H+KH-1, x in 0:W+KW-1
}"""
