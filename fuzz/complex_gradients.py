"""Random programs of complex numbers for `fuzz.gradients`: those of `fuzz.complex_programs`, with functions,
quotients, real temporaries, look-ups, scatters and a def that is called.

They have no evaluator: their gradients and tangents are held against differences of the programs themselves.
"""

from __future__ import annotations

from hypothesis import strategies as st

from fuzz import complex_programs as base
from fuzz.complex_programs import Term
from fuzz.strategies import Program

_CALLED = "def g(cdouble(K) a) -> (b) { b(k) = a(k) * conj(a(K - 1 - k)) + 1j }\n"
_HEAD = "def f(cdouble(N,M) A, cdouble(M,N) B, cdouble(N) x, double(M) w, int(N) X, cdouble s)"


def _of_nothing(text: str, is_complex: bool) -> Term:
    return Term(text, lambda env: env["x"], is_complex)


class _Maker(base.Maker):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.p.sizes["N"] = self.rng.choice([3, 4, 5, 9])  # which hold what X has

    def leaf(self, names: str) -> Term:
        if "i" in names and self.own != "x" and self.chance(8):
            return _of_nothing("x(X(i))", True)
        return super().leaf(names)

    def term(self, names: str, depth: int = 3) -> Term:
        if depth == 0 or self.chance(75):
            return super().term(names, depth)
        a = super().term(names, depth - 1)
        z = a.text if a.complex else f"cdouble({a.text})"
        match self.rng.choice(["abs", "arg", "exp", "sqrt", "polar", "/", "max", "cfloat"]):
            case "abs" | "arg" as name:
                return _of_nothing(f"{name}({z})", False)
            case "exp":
                return _of_nothing(f"exp({z} / (1 + abs({z})))", True)
            case "sqrt":
                return _of_nothing(f"sqrt({z})", True)
            case "polar":
                b = super().term(names, 1)
                return _of_nothing(f"polar({self.real(a)}, {self.real(b)})", True)
            case "/":
                b = super().term(names, 1)
                return _of_nothing(f"({a.text}) / (cdouble({b.text}) + (3 - 1j))", True)
            case "max":
                b = super().term(names, 1)
                return _of_nothing(f"max({self.real(a)}, {self.real(b)})", False)
            case _:
                return _of_nothing(f"(2 * {z} * imag({z}))", True)

    def real(self, a: Term) -> str:
        return f"real({a.text})" if a.complex else f"double({a.text})"

    def statement(self, k: int) -> None:
        vectors = [n for n, r in self.p.ranks.items() if r == "i" and n != "x"]
        if self.chance(6):
            start = self.real(self.term("i", 1))
            self.p.lines.append(f"T{k}(i) = {start} where i in 0:N")
            self.p.ranks[f"T{k}"] = "i"
            self.p.real.add(f"T{k}")
            self.scatter(f"T{k}")
        elif vectors and self.chance(12):
            self.scatter(self.rng.choice(vectors))
        elif self.chance(12):
            self.p.lines.append(f"(T{k}) = g(x)")
            self.p.ranks[f"T{k}"] = "i"
        else:
            super().statement(k)
            self.some_real(k)

    def scatter(self, name: str) -> None:
        """A reduction into elements that data choose; of real numbers any."""
        rank, self.own = self.p.ranks.pop(name), name
        value = self.term("i", 2)
        self.p.ranks[name] = rank
        is_real = name in self.p.real
        text = self.real(value) if is_real else f"cdouble({value.text})"
        op = self.rng.choice(["+=", "max=", "min=", "*="]) if is_real else "+="
        self.p.lines.append(f"{name}(X(i)) {op} {text}")

    def some_real(self, k: int) -> None:
        """A tensor that a statement began has real numbers, if they are that before they become complex."""
        name = f"T{k}"
        line = self.p.lines[-1]
        if line.startswith(name) and "= complex64(" in line and self.chance(60) and " where " in line:
            head, rest = line.split("= complex64(", 1)
            self.p.lines[-1] = f"{head}= real(complex64({rest}".replace(" where ", ") where ", 1)
            self.p.real.add(name)


def program(seed: int) -> Program:
    """The program of a seed."""
    maker = _Maker(seed)
    for k in range(maker.rng.randint(1, 4)):
        maker.statement(k)
    p = maker.p
    results = ", ".join(n for n in p.ranks if n.startswith("T"))
    lines = (f"  {line}\n" if line.endswith("}") else f"  {line};\n" for line in p.lines)
    body = "".join(lines).replace("complex64(", "complex128(")
    source = f"{_CALLED}{_HEAD} -> ({results}) {{\n{body}}}\n"
    return Program(source, p.sizes, "small", seed & 0xFFFF, {"s": complex(0.5, -0.75)})


def programs() -> st.SearchStrategy[Program]:
    return st.integers(0, 1 << 24).map(program)
