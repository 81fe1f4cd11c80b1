"""Programs made by hand, as lowering makes them."""

from __future__ import annotations

from tc.dtypes import BOOL, FLOAT32, INT32, DType
from tc.ir.expr import (
    GE,
    LE,
    LT,
    Add,
    And,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    IfThenElse,
    IntImm,
    Mul,
    Sub,
    UIntImm,
    Variable,
    imm,
)  # fmt: skip
from tc.ir.program import (
    Buffer,
    Domain,
    Func,
    IterVar,
    Op,
    Program,
    Range,
    Scalar,
    Site,
    Stage,
)  # fmt: skip

NEUTRAL: dict[str, int | float] = {"+": 0, "*": 1, "min": float("inf"), "max": float("-inf")}


def v(name: str) -> Variable:
    return Variable(name)


def index(e: Expr | int | str) -> Expr:
    return IntImm(e) if isinstance(e, int) else Variable(e) if isinstance(e, str) else e


def span(low: Expr | int | str, high: Expr | int | str) -> Range:
    low, high = index(low), index(high)
    return Range(low, high if low == IntImm(0) else Sub(high, low))


def box(*ends: Expr | int | str) -> tuple[Range, ...]:
    return tuple(span(0, e) for e in ends)


def axis(name: str, low: Expr | int | str, high: Expr | int | str, reduction: bool = False) -> IterVar:
    return IterVar(name, span(low, high), "reduction" if reduction else "pure")


class Build:
    """Collects buffers and stages; a new version of a tensor starts where `version` is called."""

    def __init__(self, name: str, sizes: str) -> None:
        self.name, self.sizes = name, tuple(sizes.split())
        self.buffers: list[Buffer] = []
        self.funcs: list[Func] = []
        self.stages: list[Stage] = []
        self.scalars: list[Scalar] = []
        self.params: list[str] = []
        self.sites: list[Site] = []
        self.current: dict[str, str] = {}

    def input(self, name: str, dtype: DType, *ends: Expr | int | str) -> None:
        self.buffers.append(Buffer(name, dtype, box(*ends), "input"))
        self.funcs.append(Func(name, name, dtype, box(*ends), None))
        self.params.append(name)
        self.current[name] = name

    def scalar(self, name: str, dtype: DType, specialized: bool = False) -> None:
        self.scalars.append(Scalar(name, dtype, specialized))
        self.params.append(name)

    def tensor(
        self, name: str, dtype: DType, *ranges: Range, role: str = "output", inout: bool = False
    ) -> None:
        self.buffers.append(Buffer(name, dtype, tuple(ranges), role, inout))  # type: ignore[arg-type]
        if inout:
            self.funcs.append(Func(name, name, dtype, tuple(ranges), None))
            self.current[name] = name

    def version(self, name: str) -> None:
        buffer = next(b for b in self.buffers if b.name == name)
        count = sum(f.buffer == name for f in self.funcs)
        func = name if count == 0 else f"{name}.{count}"
        self.funcs.append(Func(func, name, buffer.dtype, buffer.box, self.current.get(name)))
        self.current[name] = func

    def read(self, name: str, *subs: Expr | int | str, checked: tuple[int, ...] = (), text: str = "") -> Call:
        buffer = next(b for b in self.buffers if b.name == name)
        site = -1
        if checked:
            site = len(self.sites)
            self.sites.append(Site(name, text or name, ()))
        kind = "image" if buffer.role == "input" else "func"
        return Call(self.current[name], tuple(map(index, subs)), buffer.dtype, kind, checked, site)

    def stage(
        self,
        name: str,
        args: tuple[Expr | int | str, ...],
        op: Op | None,
        value: Expr,
        *axes: IterVar,
        conditions: tuple[Expr, ...] = (),
        init: bool = False,
        text: str = "",
    ) -> None:
        if name not in self.current:
            self.version(name)
        self.stages.append(
            Stage(
                f"S{len(self.stages)}",
                self.current[name],
                tuple(map(index, args)),
                op,
                value,
                Domain(axes, conditions),
                text,
                init,
            )
        )

    def reduce(
        self,
        name: str,
        args: tuple[Expr | int | str, ...],
        op: Op,
        value: Expr,
        *axes: IterVar,
        neutral: Expr | None = None,
        text: str = "",
    ) -> None:
        """`op=!`: the neutral element, then the update."""
        dtype = next(b for b in self.buffers if b.name == name).dtype
        zero = neutral if neutral is not None else imm(NEUTRAL[op], dtype)
        pure = tuple(a for a in axes if a.kind == "pure")
        self.stage(name, args, None, zero, *pure, init=True, text=text)
        self.stage(name, args, op, value, *axes, text=text)

    def done(self) -> Program:
        outputs = tuple(b.name for b in self.buffers if b.role == "output")
        return Program(
            self.name, self.sizes, tuple(self.params), tuple(self.scalars), tuple(self.buffers), outputs,
            tuple(self.funcs), tuple(self.stages), tuple(self.sites),
        )  # fmt: skip


def matmul(dtype: DType = FLOAT32, out: DType | None = None) -> Program:
    out = out or dtype
    b = Build("mm", "M N K")
    b.input("A", dtype, "M", "K")
    b.input("B", dtype, "K", "N")
    b.tensor("C", out, *box("M", "N"))
    compute = FLOAT32 if dtype.is_half else dtype
    left: Expr = b.read("A", "i", "k")
    right: Expr = b.read("B", "k", "j")
    if dtype.is_half:
        left, right = Cast(compute, left), Cast(compute, right)
    b.reduce(
        "C", ("i", "j"), "+", Mul(left, right),
        axis("i", 0, "M"), axis("j", 0, "N"), axis("k", 0, "K", True),
        text="C(i, j) +=! A(i, k) * B(k, j)",
    )  # fmt: skip
    return b.done()


def sgemm() -> Program:
    """Figure 1 of the report: C = b C + a A B with an in/out C."""
    b = Build("sgemm", "N M K")
    b.scalar("a", FLOAT32)
    b.scalar("b", FLOAT32)
    b.input("A", FLOAT32, "N", "M")
    b.input("B", FLOAT32, "M", "K")
    b.tensor("C", FLOAT32, *box("N", "K"), inout=True)
    old = b.read("C", "i", "j")
    b.version("C")
    axes = axis("i", 0, "N"), axis("j", 0, "K")
    b.stage("C", ("i", "j"), None, Mul(Variable("b", FLOAT32), old), *axes, text="C(i, j) = b * C(i, j)")
    product = Mul(Mul(Variable("a", FLOAT32), b.read("A", "i", "k")), b.read("B", "k", "j"))
    b.stage(
        "C", ("i", "j"), "+", product, *axes, axis("k", 0, "M", True), text="C(i, j) += a * A(i, k) * B(k, j)"
    )
    return b.done()


def convolution() -> Program:
    """A strided convolution with specialised strides."""
    b = Build("sconv2d", "N C H W F KH KW")
    b.scalar("sh", INT32, True)
    b.scalar("sw", INT32, True)
    b.input("I", FLOAT32, "N", "C", "H", "W")
    b.input("W", FLOAT32, "F", "C", "KH", "KW")
    from tc.ir.expr import FloorDiv

    rows = Add(FloorDiv(Sub(v("H"), v("KH")), v("sh")), IntImm(1))
    columns = Add(FloorDiv(Sub(v("W"), v("KW")), v("sw")), IntImm(1))
    b.tensor("O", FLOAT32, *box("N", "F", rows, columns))
    value = Mul(
        b.read("I", "n", "c", Add(Mul(v("sh"), v("h")), v("kh")), Add(Mul(v("sw"), v("w")), v("kw"))),
        b.read("W", "f", "c", "kh", "kw"),
    )
    b.reduce(
        "O", ("n", "f", "h", "w"), "+", value,
        axis("n", 0, "N"), axis("f", 0, "F"), axis("h", 0, rows), axis("w", 0, columns),
        axis("c", 0, "C", True), axis("kh", 0, "KH", True), axis("kw", 0, "KW", True),
        text="O(n, f, h, w) +=! I(n, c, sh * h + kh, sw * w + kw) * W(f, c, kh, kw)",
    )  # fmt: skip
    return b.done()


def softmax() -> Program:
    """One temporary used twice: its second version starts after the first was read."""
    b = Build("softmax", "N D")
    b.input("I", FLOAT32, "N", "D")
    b.tensor("O", FLOAT32, *box("N", "D"))
    b.tensor("tmp", FLOAT32, *box("N"), role="temporary")
    n, d = axis("n", 0, "N"), axis("d", 0, "D")
    dr = axis("d", 0, "D", True)
    b.reduce("tmp", ("n",), "max", b.read("I", "n", "d"), n, dr, text="tmp(n) max=! I(n, d)")
    shifted = Sub(b.read("I", "n", "d"), b.read("tmp", "n"))
    b.stage("O", ("n", "d"), None, Call("exp", (shifted,), FLOAT32, "intrinsic"), n, d,
            text="O(n, d) = exp(I(n, d) - tmp(n))")  # fmt: skip
    first = b.read("O", "n", "d")
    b.version("tmp")
    b.reduce("tmp", ("n",), "+", first, n, dr, text="tmp(n) +=! O(n, d)")
    b.version("O")
    b.stage("O", ("n", "d"), None, Div(first, b.read("tmp", "n")), n, d, text="O(n, d) = O(n, d) / tmp(n)")
    return b.done()


def lut2(dtype: DType = FLOAT32) -> Program:
    """Two look-up tables with checked, data-dependent subscripts."""
    b = Build("2LUT", "B D L1 E1 L2 E2")
    b.input("LUT1", dtype, "E1", "D")
    b.input("I1", INT32, "B", "L1")
    b.input("2LUT", dtype, "E2", "D")
    b.input("I2", INT32, "B", "L2")
    b.tensor("O1", dtype, *box("B", "D"))
    b.tensor("O2", dtype, *box("B", "D"))
    for k in ("1", "2"):
        table = "LUT1" if k == "1" else "2LUT"
        row = Cast(IntImm(0).dtype, b.read(f"I{k}", "i", "k"))
        b.reduce(
            f"O{k}", ("i", "j"), "+", b.read(table, row, "j", checked=(0,), text=f"{table}(I{k}(i, k), j)"),
            axis("i", 0, "B"), axis("j", 0, "D"), axis("k", 0, f"L{k}", True),
            text=f"O{k}(i, j) +=! {table}(I{k}(i, k), j)",
        )  # fmt: skip
    return b.done()


def triangle() -> Program:
    """A triangular reduction over an initialised square."""
    b = Build("triangle", "N")
    b.input("A", FLOAT32, "N", "N")
    b.tensor("R", FLOAT32, *box("N"))
    b.stage("R", ("i",), None, FloatImm(0.0, FLOAT32), axis("i", 0, "N"), init=True, text="R(i) +=! A(i, j)")
    b.stage("R", ("i",), "+", b.read("A", "i", "j"), axis("i", 0, "N"), axis("j", 0, "N", True),
            conditions=(LE(v("j"), v("i")),), text="R(i) +=! A(i, j) where j <= i")  # fmt: skip
    return b.done()


def shifted() -> Program:
    """A non-zero lower bound, kept by a temporary and an output."""
    b = Build("shifted", "N")
    b.input("B", FLOAT32, "N")
    end = Add(v("N"), IntImm(1))
    b.tensor("T", FLOAT32, span(1, end), role="temporary")
    b.tensor("A", FLOAT32, span(2, Add(v("N"), IntImm(2))))
    b.stage("T", ("i",), None, b.read("B", Sub(v("i"), IntImm(1))), axis("i", 1, end), text="T(i) = B(i - 1)")
    b.stage("A", ("i",), None, Add(b.read("T", Sub(v("i"), IntImm(1))), FloatImm(1.0, FLOAT32)),
            axis("i", 2, Add(v("N"), IntImm(2))), text="A(i) = T(i - 1) + 1")  # fmt: skip
    return b.done()


def padded() -> Program:
    """A guarded read: zero padding by a lazy ternary."""
    b = Build("padded", "N")
    b.input("X", FLOAT32, "N")
    b.tensor("Y", FLOAT32, *box(Add(v("N"), IntImm(2))))
    at = Sub(v("i"), IntImm(1))
    guard = And(GE(at, IntImm(0)), LT(at, v("N")))
    value = IfThenElse(guard, b.read("X", at), FloatImm(0.0, FLOAT32))
    b.stage("Y", ("i",), None, value, axis("i", 0, Add(v("N"), IntImm(2))),
            text="Y(i) = 0 <= i - 1 && i - 1 < N ? X(i - 1) : 0")  # fmt: skip
    return b.done()


ALL = {
    "matmul": matmul, "sgemm": sgemm, "convolution": convolution, "softmax": softmax, "lut2": lut2,
    "triangle": triangle, "shifted": shifted, "padded": padded,
}  # fmt: skip

TRUE_BOOL = UIntImm(1, BOOL)
