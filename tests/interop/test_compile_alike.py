"""Products that are alike as one product, under torch.compile(backend="tc")."""

from __future__ import annotations

import random
from collections import Counter

import pytest

torch = pytest.importorskip("torch")

import tc  # noqa: E402
from tc.interop.fx import alike  # noqa: E402
from tc.interop.fx.backend import backend  # noqa: E402
from tc.interop.fx.views import packet  # noqa: E402

assert tc.torch  # which registers the backend
pytestmark = pytest.mark.usefixtures("fresh_compiler")


def operand(*shape, like=torch.float64):
    return torch.randn(shape, dtype=like, requires_grad=True)


def both(f, *operands):
    """Results, gradients and strides are those of eager mode; gives the operators of each graph."""
    made = []
    joined = alike.with_joined_products

    def counting(gm, returned):
        found = joined(gm, returned)
        made.append(Counter(str(packet(n)).removeprefix("aten.") for n in found.graph.nodes))
        made[-1].update(n.target.__name__ for n in found.graph.nodes if callable(n.target))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tc.interop.fx.backend.with_joined_products", counting)
        run = torch.compile(f, backend=lambda gm, x: backend(gm, x, options={"products": "pytorch"}))
        wanted, found = (listed(g(*operands)) for g in (f, run))
        weights = [torch.randn_like(y) for y in wanted]
        how = {"allow_unused": True, "materialize_grads": True}
        gradients = [torch.autograd.grad(y, operands, weights, **how) for y in (wanted, found)]
    for a, b in zip((*wanted, *gradients[0]), (*found, *gradients[1]), strict=True):
        torch.testing.assert_close(b, a)
        assert b.stride() == a.stride()
    return made


def listed(x):
    return list(x) if isinstance(x, (tuple, list)) else [x]


def recurrent(x, w, u, c):
    h = torch.zeros(x.shape[0], u.shape[1], dtype=x.dtype)
    for t in range(x.shape[1]):
        h = torch.tanh(torch.addmm(c, x[:, t], w.t()) + h @ u.t())
    return h


RECURRENT = ((2, 5, 16), (16, 16), (16, 16), (16,))  # batch, steps and inputs; weights


def test_steps_of_a_recurrent_network():
    forward, backward = both(recurrent, *(operand(*s) for s in RECURRENT))
    assert forward["addmm"] == 1  # of all inputs; states follow each other
    assert forward["mm"] == 5
    assert backward["mm"] == 4 + 3  # of states, of all inputs, and of either weights
    assert backward["select_backward"] == backward["where"] == 0
    assert backward["side_by_side"] == 2 + 1


@pytest.mark.share(3)
@pytest.mark.parametrize(
    ("n", "columns", "products"),
    [(2, 4, 2), (2, 8, 2), (2, 9, 1), (8, 3, 8), (8, 5, 1)],
)
def test_products_are_joined_where_less_is_copied_than_read(n, columns, products):
    """`n` matrices of two rows are copied, read and written, so that the right operand is read once."""

    def f(w, *some):
        return torch.cat([torch.sin(a @ w) for a in some])

    forward, _ = both(f, operand(3, columns), *(operand(2, 3) for _ in range(n)))
    assert (4 * n < (n - 1) * columns) == (products == 1)
    assert forward["mm"] == products


@pytest.mark.share(2)
@pytest.mark.parametrize("turned", [0, 1, 2, 3])
def test_sums_of_products(turned):
    """Of which factors, terms and the sum are transposed."""

    def f(*given):
        some = [
            a.t() @ b if turned == 1 else (b.t() @ a).t() for a, b in zip(*[iter(given)] * 2, strict=True)
        ]
        total = some[0] + (some[1] + some[2])
        total = total + given[0].sum() if turned == 3 else total
        return total.t() if turned == 2 else torch.sin(total)

    forward, _ = both(f, *(operand(2, 6 + k % 2) for k in range(6)))
    assert forward["mm"] == 1


def test_a_product_that_is_added_and_read_stays_alone():
    def f(*given):
        a, b, c = (x.t() @ y for x, y in zip(*[iter(given)] * 2, strict=True))
        return a + b + c, torch.sin(b)

    forward, _ = both(f, *(operand(2, 6) for _ in range(6)))
    assert forward["mm"] == 2


def test_terms_added_twice():
    def f(a, b):
        c = a.t() @ b
        d = torch.cos(a).t() @ b
        e = c + d
        return e + e, d + d

    both(f, operand(2, 6), operand(2, 6))


def test_sums_with_other_terms_and_inner_dimensions():
    def f(a, b, c, d, e):
        return a @ b + e + c @ d + torch.cos(a) @ b + 2.0

    forward, _ = both(f, operand(6, 2), operand(2, 7), operand(6, 3), operand(3, 7), operand(6, 7))
    assert forward["mm"] == 2  # those of two inner elements


@pytest.mark.share(6)
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("missing", [(), (1,), (0, 3), (0, 1, 2)])
def test_gradients_of_selected_places(dim, missing):
    def f(x):
        some = [k for k in range(4) if k not in missing]
        return [torch.exp(x.select(dim, k) * (k + 1)) for k in (*some, some[0])]

    _, backward = both(f, operand(4, 4, 4))
    assert bool(backward["side_by_side"]) == (len(missing) < 3)


def test_products_in_a_chain_of_two_weights():
    """None of `a` depends on another one, nor of `b`, but each of one on some of the other."""

    def f(x, y, w, v):
        a, b = torch.sin(x @ w), torch.sin(y @ v)
        c, d = torch.cos(b[:, :3] @ w), torch.cos(a[:, :3] @ v)
        return a + b + c + d

    both(f, operand(2, 3), operand(2, 3), operand(3, 24), operand(3, 24))


def test_what_is_returned_has_memory_of_its_own():
    w = torch.randn(3, 24)
    some = [torch.randn(2, 3) for _ in range(4)]
    f = torch.compile(lambda *a: [x @ w for x in a], backend="tc", options={"products": "pytorch"})
    found = f(*some)
    assert len({y.untyped_storage().data_ptr() for y in found}) == 4
    for x, y in zip(some, found, strict=True):
        torch.testing.assert_close(y, x @ w)


@pytest.mark.slow
def test_sizes_that_vary():
    run = torch.compile(recurrent, backend="tc", dynamic=True)
    for n in (2, 4, 7):
        given = [operand(n, *RECURRENT[0][1:]), *(operand(*s) for s in RECURRENT[1:])]
        a, b = (torch.autograd.grad(g(*given).sum(), given) for g in (recurrent, run))
        for p, q in zip(a, b, strict=True):
            torch.testing.assert_close(q, p)


def test_sizes_that_vary_beside_products_of_fixed_ones(recwarn):
    def f(x, a, b, w):
        return torch.sin(a @ w) + torch.cos(b @ w), torch.tanh(x + x) * 2.0

    given = [torch.randn(5, 3), torch.randn(2, 3), torch.randn(2, 3), torch.randn(3, 24)]
    torch._dynamo.mark_dynamic(given[0], 0)
    run = torch.compile(f, backend="tc", options={"products": "pytorch"})
    with torch.no_grad():
        torch.testing.assert_close(run(*given), f(*given))
    assert not [w for w in recwarn if issubclass(w.category, tc.PerformanceNotice)]


def _unrolled(seed):
    """Steps that read parts of a tensor, and share some weights and some of the states before them."""
    rng = random.Random(seed)
    steps, wide = rng.randint(2, 6), rng.choice([6, 12, 24])
    dim = rng.choice([0, 1])
    script = [
        [(rng.random(), rng.random(), rng.randrange(4)) for _ in range(rng.randint(1, 4))]
        for _ in range(steps)
    ]
    shape = [2, wide]
    shape.insert(dim, steps)

    def f(x, w, v, row):
        states = [x.select(dim, 0)]
        for k, formulas in enumerate(script):
            for first, second, which in formulas:
                a = states[int(first * len(states))] if first < 0.8 else x.select(dim, int(second * steps))
                b = (w, v, w.t(), v.t())[which]
                y = torch.addmm(row, a, b) if second < 0.3 else a @ b
                states.append(torch.tanh(y + x.select(dim, k)) if second < 0.7 else y + states[-1])
        return states[-1], sum(states)

    return f, (shape, (wide, wide), (wide, wide), (wide,))


@pytest.mark.share(8)
@pytest.mark.parametrize("seed", range(16))
def test_random_steps(seed):
    f, shapes = _unrolled(seed)
    both(f, *(operand(*s) for s in shapes))
