"""Matrix products and convolutions under torch.compile(backend="tc"), as statements of defs."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import tc  # noqa: E402
from tc.interop.fx import choice  # noqa: E402

F = torch.nn.functional
assert tc.torch  # which registers the backend
pytestmark = pytest.mark.usefixtures("fresh_compiler")


def operand(*shape, like=torch.float64):
    return torch.randn(shape, dtype=like, requires_grad=True)


MATRICES = {
    "a product": (lambda a, b: a @ b, (5, 7), (7, 6)),
    "of a transposed matrix": (lambda a, b: a @ b.t(), (5, 7), (6, 7)),
    "with a row that is added": (lambda a, b, c: torch.addmm(c, a, b), (5, 7), (7, 6), (6,)),
    "with a column that is added": (lambda a, b, c: torch.addmm(c, a, b), (5, 7), (7, 6), (5, 1)),
    "times a number": (lambda a, b, c: torch.addmm(c, a, b, beta=0.5, alpha=2.0), (5, 7), (7, 6), (6,)),
    "in batches": (lambda a, b: torch.bmm(a, b), (3, 5, 7), (3, 7, 6)),
    "of a part": (lambda a, b: a[:, 1] @ b, (5, 3, 7), (7, 6)),
    "of heads": (lambda a, b: torch.einsum("bthd,bshd->bhts", a, b), (2, 5, 3, 4), (2, 6, 3, 4)),
    "in a chain": (lambda a, b, c: torch.tanh(torch.tanh(a @ b) @ c).sum(0), (5, 7), (7, 6), (6, 4)),
    "three in a row": (lambda a, b: torch.sin(a @ b) @ b @ b, (6, 6), (6, 6)),
}
CONVOLUTIONS = {
    "plain": {},
    "padded": {"padding": 1},
    "strided": {"stride": 2, "padding": (1, 0)},
    "strided beyond the end": {"stride": (3, 2)},
    "dilated": {"dilation": (2, 1), "padding": 2},
    "of each channel": {"groups": 4, "padding": 1},
    "of each channel, strided": {"groups": 4, "stride": 2, "padding": 1},
    "in two groups": {"groups": 2},
    "transposed": {"transposed": True},
    "transposed, padded": {"transposed": True, "padding": 1, "dilation": 2},
    "transposed, strided": {"transposed": True, "stride": 2, "padding": 1, "output_padding": (1, 0)},
}


def both(f, *operands):
    """Results, gradients and their strides, with all products in defs, are those of eager mode."""
    run = torch.compile(f, backend="tc", options={"products": "tc"})
    weights = torch.randn_like(f(*operands))
    sides = []
    for g in (f, run):
        y = g(*operands)
        sides.append((y, *torch.autograd.grad(y, operands, weights)))
    for wanted, found in zip(*sides, strict=True):
        torch.testing.assert_close(found, wanted)
        assert found.stride() == wanted.stride()


@pytest.mark.share(8)
@pytest.mark.parametrize("name", MATRICES)
def test_matrix_products(name):
    f, *shapes = MATRICES[name]
    both(f, *(operand(*s) for s in shapes))


@pytest.mark.share(8)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name):
    how = dict(CONVOLUTIONS[name])
    transposed = how.pop("transposed", False)
    x, w = operand(2, 4, 7, 6), operand(4, 4 // how.get("groups", 1), 3, 2)
    f = F.conv_transpose2d if transposed else F.conv2d
    both(lambda x, w, b: f(x, w, b, **how), x, w, operand(4))


def test_formulas_around_a_convolution_are_in_its_def():
    x, w = operand(2, 4, 7, 6, like=torch.float32), operand(5, 4, 3, 3, like=torch.float32)

    def f(x, w):
        return torch.relu(F.conv2d(torch.exp(x), w, padding=1) * 2).mean((2, 3))

    both(f, x, w)
    with torch.no_grad():
        said = tc.explain(f, x, w, products="tc")
    assert "operators in 1 TC, 0 operators by PyTorch" in str(said)
    assert "[none,zero,zero,none](i0,i2 + r1 - 1,i3 + r2 - 1,r0)" in str(said)


def test_a_part_that_is_read_outside_of_its_tensor():
    """Subscripts of a view cannot have modes: what is outside is 0 by a condition."""
    x, w = operand(2, 9, 7, 6), operand(3, 4, 3, 3)
    both(lambda x, w: F.conv2d(x[:, 2:6], w, padding=1), x, w)


def test_a_piece_has_two_products_at_most():
    a = torch.randn(6, 6)
    with torch.no_grad():
        said = tc.explain(lambda a: a @ a @ a @ a @ a, a, products="tc")
    assert "4 operators in 2 TCs" in str(said)


def test_what_spreads_a_product_is_computed_where_it_is_read():
    a = torch.randn(6, 6)
    with torch.no_grad():
        said = tc.explain(lambda a: ((a @ a)[:, :, None] + a).sum(1), a, products="tc")
    assert "in 2 TCs" in str(said)


@pytest.mark.parametrize("dtype", [torch.float16, torch.int64, torch.complex64])
def test_other_types_stay_with_pytorch(dtype):
    a = torch.ones(6, 6, dtype=dtype)
    with torch.no_grad():
        said = tc.explain(lambda a: a @ a, a, products="tc")
    assert "mm (mm.default): " in str(said).partition("by PyTorch:")[2]


def test_sizes_that_vary_stay_with_pytorch():
    run = torch.compile(lambda a, b: torch.relu(a @ b), backend="tc", dynamic=True)
    for n in (3, 5, 9):
        a, b = torch.randn(n, 4), torch.randn(4, n)
        torch.testing.assert_close(run(a, b), torch.relu(a @ b))


@pytest.mark.parametrize(
    "times, said",
    [
        (choice.Timed(1.0, 2.0), "2 operators in 1 TC, 0 operators by PyTorch"),
        (choice.Timed(2e-6, 1e-6), "mm (mm.default): PyTorch's kernel is faster: 1 us, ours 2 us"),
        (choice.Timed(0.0, 1.0, "other results than PyTorch's"), "other results than PyTorch's"),
    ],
)
def test_the_faster_one_of_two_kernels_is_taken(times, said, monkeypatch):
    monkeypatch.setattr(choice, "_timed", lambda *_: times)
    monkeypatch.setattr(choice, "_FOUND", {})
    a = torch.randn(6, 6)
    with torch.no_grad():
        assert said in str(tc.explain(lambda a: torch.relu(a @ a), a))


def test_no_clock_decides_where_algorithms_are_deterministic(monkeypatch):
    monkeypatch.setattr(choice, "_timed", lambda *_: pytest.fail("a product was measured"))
    monkeypatch.setattr(choice, "_FOUND", {})
    a = torch.randn(6, 6)
    torch.use_deterministic_algorithms(True)
    try:
        with torch.no_grad():
            assert "PyTorch has a kernel for it" in str(tc.explain(lambda a: torch.relu(a @ a), a))
    finally:
        torch.use_deterministic_algorithms(False)


def test_times_are_taken_once_for_equal_products(monkeypatch):
    monkeypatch.setattr(choice, "_FOUND", {})
    made = []
    original = choice._timed
    monkeypatch.setattr(choice, "_timed", lambda *a: made.append(original(*a)) or made[-1])
    a, b = torch.randn(6, 6), torch.randn(6, 6)
    with torch.no_grad():
        tc.explain(lambda a, b: torch.relu(a @ b) @ b, a, b)
    assert len(made) == 1 and not made[0].problem and made[0].ours > 0 and made[0].theirs > 0


def test_a_kernel_with_other_results_is_not_taken(monkeypatch):
    monkeypatch.setattr(choice, "_FOUND", {})
    monkeypatch.setattr(torch, "allclose", lambda *_, **__: False)
    a = torch.randn(6, 6)
    with torch.no_grad():
        assert "other results than PyTorch's" in str(tc.explain(lambda a: torch.relu(a @ a), a))


def test_an_option_of_another_name_is_refused():
    with pytest.raises(Exception, match=r'takes options=\{"products": "measured" \| "tc" \| "pytorch"\}'):
        torch.compile(torch.sin, backend="tc", options={"product": "tc"})(torch.randn(3))
