"""Gradients and tangents of complex numbers: against PyTorch's of the same formulas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import tc
from tc.autodiff.gradient import gradient

torch = pytest.importorskip("torch")
Array = np.ndarray[Any, Any]
LOOK_UPS = pytest.mark.filterwarnings("ignore::tc.DataDependentAccess", "ignore::tc.EmptyRange")
AT = [2, 0, 2, 1, 2]


def shifted(z: Any, by: int, mode: str) -> Any:
    at = torch.arange(len(z)) + by
    if mode == "zero":
        inside = (at >= 0) & (at < len(z))
        return torch.where(inside, z[at.clamp(0, len(z) - 1)], torch.zeros_like(z))
    return z[at % len(z) if mode == "wrap" else at.clamp(0, len(z) - 1)]


def product(z: Any, dim: int) -> Any:
    """`torch.prod` without its rule for zeros."""
    found = z.select(dim, 0)
    for k in range(1, z.shape[dim]):
        found = found * z.select(dim, k)
    return found


def recurrence(x: Any, w: Any) -> Any:
    h, out = torch.zeros_like(w[0]), []
    for row in x:
        h = row + w @ (h / (1 + h.abs()))
        out.append(h)
    return torch.stack(out)


def squared(z: Any) -> Any:
    for _ in range(3):
        z = z * z + 0.5j * z.conj()
    return z


# Sources, the shapes of complex and real (`r`) parameters, and the formulas in PyTorch.
PROGRAMS: dict[str, tuple[str, Mapping[str, Sequence[int]], Callable[..., Any]]] = {
    "arithmetic": (
        """def f(cdouble(N) a, cdouble(N) b, double(N) r) -> (y) {
             y(i) = (a(i) * b(i) - 2j / b(i)) * r(i) + a(i) / (b(i) + 1) + r(i) / a(i) - (-b(i)) * (1 - 3j)
           }""",
        {"a": (5,), "b": (5,), "r": (5,)},
        lambda a, b, r: (a * b - 2j / b) * r + a / (b + 1) + r / a + b * (1 - 3j),
    ),
    "functions": (
        """def f(cdouble(N) z, double(N) r) -> (y) {
             y(i) = exp(z(i)) * sqrt(z(i) * z(i) + r(i)) + conj(z(i)) * z(i) + polar(r(i), r(i) * r(i))
           }""",
        {"z": (6,), "r": (6,)},
        lambda z, r: torch.exp(z) * torch.sqrt(z * z + r) + z.conj() * z + r * torch.exp(1j * r * r),
    ),
    "parts": (
        """def f(cdouble(N) z) -> (a, p, q) {
             a(i) = abs(z(i)) * arg(z(i))
             p(i) = real(z(i)) * imag(z(i) * z(i))
             q(i) = real(conj(z(i)) * 1j) + imag(conj(z(i)))
           }""",
        {"z": (6,)},
        lambda z: (z.abs() * z.angle(), z.real * (z * z).imag, (z.conj() * 1j).real - z.imag),
    ),
    "real numbers by way of complex ones": (
        """def f(double(N) r, double(N) s) -> (y, m) {
             y(i) = abs(polar(r(i), s(i)) + (r(i) + 1j * s(i)) / (2 - 1j * r(i)))
             m(i) = max(y(i), real((r(i) + 2j) * (r(i) - 2j))) + arg(s(i) + 1j)
           }""",
        {"r": (7,), "s": (7,)},
        lambda r, s: (
            y := (r * torch.exp(1j * s) + (r + 1j * s) / (2 - 1j * r)).abs(),
            torch.maximum(y, r * r + 4) + (s + 1j).angle(),
        ),
    ),
    "matrix products": (
        """def f(cdouble(M,K) a, cdouble(K,N) b, double(N,L) w) -> (D) {
             C(m,n) +=! a(m,k) * conj(b(k,n))
             D(m,l) +=! C(m,n) * w(n,l)
           }""",
        {"a": (3, 4), "b": (4, 5), "w": (5, 2)},
        lambda a, b, w: a @ b.conj() @ w.to(a.dtype),
    ),
    "a real loss": (
        """def f(cdouble(N) z, cdouble(N) t) -> (s) {
             d(i) = z(i) * z(i) - t(i)
             s +=! real(d(i)) * real(d(i)) + imag(d(i)) * imag(d(i))
           }""",
        {"z": (9,), "t": (9,)},
        lambda z, t: ((z * z - t).abs() ** 2).sum(),
    ),
    "redefinitions": (
        """def f(cdouble(N) z, double(N) r) -> (y, u) {
             t(i) = exp(z(i))
             y(i) = t(i) * z(i)
             t(i) = t(i) * conj(t(i)) + r(i)
             y(i) *= t(i) - 1j
             y(i) += r(i) * z(0)
             u(i) = y(i) * z(i)
             u(i) = 2j * r(i) where i in 1:3
           }""",
        {"z": (5,), "r": (5,)},
        lambda z, r: (
            y := torch.exp(z) * z * (torch.exp(z) * torch.exp(z).conj() + r - 1j) + r * z[0],
            torch.cat([(y * z)[:1], 2j * r[1:3], (y * z)[3:]]),
        ),
    ),
    "products": (
        """def f(cdouble(N,M) z, double(M) r) -> (p, q) {
             p(i) *=! z(i,j) * r(j)
             q(i) = z(i,0)
             q(i) *= conj(z(i,j)) where j in 1:M
           }""",
        {"z": (3, 4), "r": (4,)},
        lambda z, r: (product(z * r, 1), z[:, 0] * product(z[:, 1:].conj(), 1)),
    ),
    "choices": (
        """def f(cdouble(N) z, cdouble(N) w) -> (y) {
             y(i) = real(z(i)) > 0 ? sqrt(z(i)) * w(i) : i > 2 ? conj(z(i)) : select(z(i) == w(i), 1j, w(i))
           }""",
        {"z": (9,), "w": (9,)},
        lambda z, w: torch.where(
            z.real > 0, torch.sqrt(z) * w, torch.where(torch.arange(9) > 2, z.conj(), w)
        ),
    ),
    "lets": (
        """def f(cdouble(N) z, double(N) r) -> (y) {
             y(i) = u * conj(u) + v * u where u = z(i) * (r(i) + 1j), v = abs(u)
           }""",
        {"z": (6,), "r": (6,)},
        lambda z, r: (u := z * (r + 1j)) * u.conj() + u.abs() * u,
    ),
    "borders": (
        """def f(cdouble(N) z, cdouble(3) k) -> (y, v) {
             y(i) +=! z[zero](i + j - 1) * k(j) where i in 0:N
             v(i) = z[wrap](i - 2) * z[clamp](i + 1) where i in 0:N
           }""",
        {"z": (6,), "k": (3,)},
        lambda z, k: (
            sum(shifted(z, j - 1, "zero") * k[j] for j in range(3)),
            shifted(z, -2, "wrap") * shifted(z, 1, "clamp"),
        ),
    ),
    "strides": (
        "def f(cdouble(H) x, cdouble(K) w) -> (y) { y(h) +=! x(2*h + k) * w(k) }",
        {"x": (9,), "w": (3,)},
        lambda x, w: sum(x[k : k + 7 : 2] * w[k] for k in range(3)),
    ),
    "look-ups": (
        "def f(cdouble(N) t, int(M) at) -> (y) { y(i) = t(at(i)) * conj(t(at(i))) + 1j * t(at(i)) }",
        {"t": (4,)},
        lambda t: t[AT] * t[AT].conj() + 1j * t[AT],
    ),
    "scatters": (
        """def f(cdouble(M) z, int(M) at) -> (y) {
             y(k) = 1j where k in 0:3
             y(at(i)) += z(i) * z(i)
           }""",
        {"z": (5,)},
        lambda z: 1j + torch.zeros(3, dtype=z.dtype).index_add(0, torch.tensor(AT), z * z),
    ),
    "a recurrence": (
        """def f(cdouble(T,N) x, cdouble(N,N) w) -> (y) {
             h(i) = 0 * x(0,i)
             for t in 0:T {
               s(i) +=! w(i,j) * h(j) / (1 + abs(h(j)))
               h(i) = x(t,i) + s(i)
               y(t,i) = h(i)
             }
           }""",
        {"x": (3, 4), "w": (4, 4)},
        recurrence,
    ),
    "a loop that overwrites": (
        """def f(cdouble(N) z) -> (y) {
             y(i) = z(i)
             for t in 0:3 { y(i) = y(i) * y(i) + 0.5j * conj(y(i)) }
           }""",
        {"z": (5,)},
        squared,
    ),
    "calls": (
        """def g(cdouble(N) a, double(N) b) -> (c) { c(i) = a(i) * polar(1, b(i)) }
           def f(cdouble(N) z, double(N) r) -> (y) { (t) = g(z, r) y(i) = t(i) * conj(z(0)) }""",
        {"z": (5,), "r": (5,)},
        lambda z, r: z * torch.exp(1j * r) * z[0].conj(),
    ),
}


def arrays(name: str) -> dict[str, Array]:
    """Arguments around 1 in size."""
    source, shapes, _ = PROGRAMS[name]
    rng = np.random.default_rng(7)
    front = tc.compile(source, backend="reference").front
    found: dict[str, Array] = {}
    for p in front.checked.params:
        shape = shapes.get(p.name, ())
        if p.name == "at":
            found[p.name] = np.array(AT, np.int32)
        elif front.typed.dtype(p).is_complex:
            found[p.name] = noise(rng, np.zeros(shape, complex)) + np.exp(1j * rng.uniform(-3, 3, shape))
        else:
            found[p.name] = rng.uniform(0.4, 1.6, shape) * rng.choice([-1.0, 1.0], shape)
    return found


def noise(rng: np.random.Generator, like: Array) -> Array:
    found = rng.uniform(-0.5, 0.5, like.shape)
    return found + 1j * rng.uniform(-0.5, 0.5, like.shape) if np.iscomplexobj(like) else found


def several(found: Any) -> list[Any]:
    return list(found) if isinstance(found, tuple) else [found]


def inner(a: Array, b: Array) -> float:
    """The inner product of pairs of real numbers."""
    return float(np.vdot(a, b).real)


@LOOK_UPS
@pytest.mark.share(18)
@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_are_those_of_pytorch(name: str, backend: str) -> None:
    source, shapes, formula = PROGRAMS[name]
    values, rng = arrays(name), np.random.default_rng(1)
    tensors = [torch.from_numpy(values[n]).requires_grad_() for n in shapes]
    wanted = several(formula(*tensors))
    made = [np.asarray(x) for x in several(tc.compile(source, backend=backend)(*values.values()))]
    for a, b in zip(made, wanted, strict=True):
        np.testing.assert_allclose(a, b.detach().resolve_conj().numpy(), rtol=1e-12, atol=1e-12)
    seeds = [noise(rng, x) for x in made]
    adjoints = torch.autograd.grad(wanted, tensors, [torch.tensor(s) for s in seeds])
    g = gradient(source, list(shapes))
    found = several(tc.compile(g.source, backend=backend)(*values.values(), *seeds))
    for n, a, b in zip(shapes, found, adjoints, strict=True):
        assert a.dtype == values[n].dtype
        np.testing.assert_allclose(a, b.resolve_conj().numpy(), rtol=1e-11, atol=1e-12, err_msg=n)


@LOOK_UPS
@pytest.mark.share(18)
@pytest.mark.parametrize("name", PROGRAMS)
def test_tangents_are_the_transpose_of_gradients(name: str) -> None:
    source, shapes, _ = PROGRAMS[name]
    values, rng = arrays(name), np.random.default_rng(2)
    along = {n: noise(rng, values[n]) for n in shapes}
    tangent = tc.compile(tc.jvp(source, list(shapes)), backend="reference")
    found = several(tangent(*values.values(), *along.values()))
    primal, moved = found[: len(found) // 2], found[len(found) // 2 :]
    seeds = [noise(rng, np.asarray(x)) for x in primal]
    g = tc.compile(tc.grad(source, list(shapes)), backend="reference")
    adjoints = several(g(*values.values(), *seeds))
    forward = sum(inner(s, t) for s, t in zip(seeds, moved, strict=True))
    backward = sum(inner(along[n], a) for n, a in zip(shapes, adjoints, strict=True))
    assert forward == pytest.approx(backward, rel=1e-11)


@LOOK_UPS
@pytest.mark.share(18)
@pytest.mark.parametrize("name", PROGRAMS)
def test_second_derivatives_are_those_of_pytorch(name: str) -> None:
    source, shapes, formula = PROGRAMS[name]
    values, rng = arrays(name), np.random.default_rng(3)
    tensors = [torch.from_numpy(values[n]).requires_grad_() for n in shapes]
    wanted = several(formula(*tensors))
    seeds = [torch.tensor(noise(rng, x.detach().numpy()), requires_grad=True) for x in wanted]
    first = torch.autograd.grad(wanted, tensors, seeds, create_graph=True)
    along = [noise(rng, values[n]) for n in shapes]
    both = [*tensors, *seeds]
    second = torch.autograd.grad(first, both, [torch.tensor(a) for a in along], allow_unused=True)
    g = gradient(source, list(shapes), tensors=True)
    names = [n for n, x in zip([*shapes, *g.seeds.values()], second, strict=True) if x is not None]
    kernel = tc.compile(tc.grad(g.source, names), backend="reference")
    given = [*values.values(), *(np.atleast_1d(s.detach().numpy()) for s in seeds)]
    found = several(kernel(*given, *along))
    for n, a, b in zip(names, found, (x for x in second if x is not None), strict=True):
        a = a.reshape(b.shape)
        np.testing.assert_allclose(a, b.resolve_conj().numpy(), rtol=1e-10, atol=1e-11, err_msg=n)


def test_a_gradient_reads_as_one_would_write_it() -> None:
    head, *lines = tc.grad(PROGRAMS["matrix products"][0]).strip().splitlines()
    assert head.startswith("def f_grad(cdouble(M,K) a, cdouble(K,N) b, double(N,L) w, cdouble(M,L) d_D)")
    assert lines[1:-1] == [
        "  d_C(m,n) +=! d_D(m, l) * complex128(w(n, l)) where m in 0:M, n in 0:N, l in 0:L",
        "  d_a(m,k) +=! d_C(m, n) * b(k, n) where m in 0:M, k in 0:K, n in 0:N",
        "  d_b(k,n) +=! conj(d_C(m, n)) * a(m, k) where k in 0:K, n in 0:N, m in 0:M",
        "  d_w(n,l) +=! real(d_D(m, l) * conj(C(m, n))) where n in 0:N, l in 0:L, m in 0:M",
    ]


@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_products_with_zeros(zeros: int) -> None:
    source = "def f(cfloat(N) z) -> (p) { p *=! z(i) }"
    z = np.array([2, 3j, 1 - 1j, 1 + 2j], np.complex64)
    z[:zeros] = 0
    wanted = [np.prod(np.delete(z, k)) for k in range(4)]
    found = tc.compile(tc.grad(source), backend="reference")(z, 1j)
    np.testing.assert_allclose(found, 1j * np.conj(wanted), rtol=1e-6)
    _, along = tc.compile(tc.jvp(source), backend="reference")(z, np.array([1, 2, 3j, 4], np.complex64))
    np.testing.assert_allclose(along, np.dot(wanted, [1, 2, 3j, 4]), rtol=1e-6)


def test_absolute_values_and_arguments_of_0_leave_0() -> None:
    source = "def f(cdouble(N) z) -> (a, p) { a(i) = abs(z(i)) p(i) = arg(z(i)) }"
    z, ones = np.array([0, 3 - 4j]), np.ones(2)
    found = tc.compile(tc.grad(source), backend="reference")(z, ones, ones)
    np.testing.assert_allclose(found, [0, (3 - 4j) / 5 + 1j / (3 + 4j)])
    along = tc.compile(tc.jvp(source), backend="reference")(z, np.array([1j, 1j]))
    np.testing.assert_allclose(along[2:], [[0, -0.8], [0, 3 / 25]])


def test_adjoints_have_the_types_of_what_they_are_of() -> None:
    source = """def f(cfloat(N) z, double(N) x, half(N) h, int(N) n) -> (y) {
      y(i) = z(i) * x(i) + complex64(x(i)) * h(i) * n(i)
    }"""
    z, x = np.array([1 + 1j, 2], np.complex64), np.array([0.5, 1.5])
    h, n = np.array([2.0, 1.0], np.float16), np.array([1, 3], np.int32)
    seed = np.array([1j, 2 - 1j])
    d_z, d_x, d_h = tc.compile(tc.grad(source), backend="reference")(z, x, h, n, seed)
    assert (d_z.dtype, d_x.dtype, d_h.dtype) == (np.complex64, np.float64, np.float16)
    np.testing.assert_allclose(d_z, seed * x)
    np.testing.assert_allclose(d_x, (seed * z.conj()).real + seed.real * h * n)
    np.testing.assert_allclose(d_h, seed.real * x * n)


def test_values_before_in_place() -> None:
    g = gradient("def f(cdouble(N) x) -> (y) { y(i) = x(i) * conj(y(i)) }", ["x", "y"])
    x, y, seed = np.array([1 + 2j]), np.array([3 - 1j]), np.array([1j])
    d_x, d_y = tc.compile(g.source, backend="reference")(x, y, seed)
    np.testing.assert_allclose(d_x, seed * y)
    np.testing.assert_allclose(d_y, np.conj(seed) * x)


@pytest.mark.filterwarnings("ignore::tc.DataDependentAccess")
def test_products_into_elements_that_data_choose() -> None:
    source = "def f(cdouble(N) x, int(N) at) -> (y) { y(s) = 1j where s in 0:3 y(at(n)) *= x(n) }"
    x, seed = np.array([1 + 2j, 3 - 1j, 2j, 1 + 1j]), np.array([1 + 1j, 2j, 3 + 0j])
    at = np.array([0, 2, 0, 0], np.int32)
    with pytest.raises(
        tc.SemanticError, match="product of complex numbers into elements that data choose"
    ) as e:
        tc.compile(source, "reference")(x, at)
    assert e.value.code == "TC0231"
    d_x = tc.interpret(tc.grad(source), x, at, seed)
    others = np.array([x[2] * x[3], 1, x[0] * x[3], x[0] * x[2]])
    np.testing.assert_allclose(d_x, seed[[0, 2, 0, 0]] * np.conj(1j * others), rtol=1e-14)


def test_what_has_no_derivative() -> None:
    with pytest.raises(tc.ArgumentError, match="'n' in wrt is no floating or complex tensor of 'f'"):
        tc.grad("def f(cfloat(N) x, int(N) n) -> (y) { y(i) = x(i) * n(i) }", "n")
