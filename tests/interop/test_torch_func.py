"""Operators of PyTorch within the transforms of `torch.func`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tc

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
F: Any = torch.func

SOURCE = "def f(double(N) x, double(N) w) -> (y) { y(i) = sin(x(i)) * w(i) }"
X = torch.linspace(-1, 2, 5, dtype=torch.double)
W = torch.linspace(1, 3, 5, dtype=torch.double)
ROWS = torch.linspace(-1, 1, 15, dtype=torch.double).reshape(3, 5)


def plain(x: Any, w: Any) -> Any:
    return torch.sin(x) * w


def of_rows(f: Callable[..., Any]) -> Callable[..., Any]:
    return F.vmap(f, (0, None))


def total(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, w: f(x, w).sum()


CASES: dict[str, Callable[[Callable[..., Any]], Any]] = {
    "grad": lambda f: F.grad(total(f), argnums=(0, 1))(X, W),
    "grad of grad": lambda f: F.grad(total(F.grad(total(f))))(X, W),
    "vjp": lambda f: F.vjp(f, X, W)[1](W),
    "jvp": lambda f: F.jvp(f, (X, W), (W, X)),
    "jvp along one": lambda f: F.jvp(lambda x: f(x, W), (X,), (W,)),
    "jvp of grad": lambda f: F.jvp(F.grad(total(f)), (X, W), (W, X)),
    "jacrev": lambda f: F.jacrev(f, argnums=(0, 1))(X, W),
    "jacfwd": lambda f: F.jacfwd(f, argnums=(0, 1))(X, W),
    "hessian": lambda f: F.hessian(total(f))(X, W),
    "vmap": lambda f: of_rows(f)(ROWS, W),
    "vmap of columns": lambda f: F.vmap(f, (1, None), 1)(ROWS.T.contiguous(), W),
    "vmap of vmap": lambda f: of_rows(of_rows(f))(torch.stack((ROWS, 2 * ROWS)), W),
    "vmap of grad": lambda f: of_rows(F.grad(total(f)))(ROWS, W),
    "grad of vmap": lambda f: F.grad(total(of_rows(f)), argnums=(0, 1))(ROWS, W),
    "jvp of vmap": lambda f: F.jvp(of_rows(f), (ROWS, W), (2 * ROWS, X)),
    "vmap of jvp": lambda f: of_rows(lambda x, w: F.jvp(f, (x, w), (w, x)))(ROWS, W),
}


@pytest.mark.parametrize("name", CASES)
def test_transforms(name: str) -> None:
    torch.testing.assert_close(CASES[name](tc.torch.op(SOURCE)), CASES[name](plain))


def test_dual_numbers() -> None:
    forward: Any = torch.autograd.forward_ad
    with forward.dual_level():
        found = tc.torch.op(SOURCE)(forward.make_dual(X, W), W)
        told = forward.unpack_dual(found).tangent
    torch.testing.assert_close(told, torch.cos(X) * W * W)


def test_several_results_and_a_scalar() -> None:
    both = tc.torch.op(
        "def g(double(N) x, int k) -> (n, y) { n(i) = k where i in 0:2 y(i) = x(i) * x(i) * k }"
    )
    (_, y), (_, along) = F.jvp(lambda x: both(x, 3), (X,), (W,))
    torch.testing.assert_close((y, along), (3 * X * X, 6 * X * W))
    torch.testing.assert_close(F.grad(lambda x: both(x, 3)[1].sum())(X), 6 * X)


def test_what_has_no_rule_is_refused() -> None:
    own = tc.torch.op(SOURCE, backward=lambda x, w, g: (torch.cos(x) * w * g, torch.sin(x) * g))
    torch.testing.assert_close(F.grad(total(own))(X, W), torch.cos(X) * W)
    with pytest.raises(tc.SemanticError, match="no derivative in a direction") as e:
        F.jvp(own, (X, W), (W, X))
    assert e.value.code == "TC0243"
    with pytest.raises(tc.SemanticError, match="made with backward=None"):
        F.grad(total(tc.torch.op(SOURCE, backward=None)))(X, W)
    changes = tc.torch.op("def h(double(N) x) -> (y) { y(i) = y(i) * x(i) }")
    with pytest.raises(tc.SemanticError, match="'h' changes y and has no gradient"):
        F.grad(lambda x: changes(x, W.clone()) or x.sum())(X)
