"""Calls of operators in eager mode that go past the dispatcher, and those that must not."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import tc  # noqa: E402
from tc.interop import torch_direct  # noqa: E402

SCALED = (
    """def scaled_direct(float(N) x, float(N) y, float a) -> (z) { z(n) = a * x(n) * y(n) + sin(x(n)) }"""
)
TWO = """def two_direct(float(N,M) x) -> (y, m) { m(n) max=! x(n,k)  y(n,k) = exp(x(n,k) - m(n)) }"""


@pytest.fixture(scope="module")
def scaled():
    return tc.torch.op(SCALED)


def given(**how):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(6, generator=generator).requires_grad_(**how) for _ in range(2)]


def formula(x, y, a):
    return a * x * y + torch.sin(x)


@pytest.fixture
def dispatched(monkeypatch, scaled):
    """Whether a call went to the dispatcher."""
    seen = []

    class Overload:
        def __call__(self, *args):
            seen.append(args)
            return default(*args)

    default = scaled.default
    monkeypatch.setattr(scaled, "default", Overload())
    return seen


def test_plain_tensors_go_to_the_kernel(scaled, dispatched) -> None:
    x, y = given()
    torch.testing.assert_close(scaled(x, y, 2.0), formula(x, y, 2.0))
    torch.testing.assert_close(scaled(x.detach(), y.detach(), 2), formula(x, y, 2.0).detach())
    with torch.no_grad():
        assert not scaled(x, y, 2.0).requires_grad
    with torch.inference_mode():
        assert scaled(x, y, 2.0).is_inference()
    assert not dispatched


def test_gradients_of_any_order(scaled, dispatched) -> None:
    x, y = given()
    sides = []
    for f in (scaled, formula):
        first = torch.autograd.grad(f(x, y, 2.0).square().sum(), (x, y), create_graph=True)
        second = torch.autograd.grad(sum(g.cos().sum() for g in first), (x, y))
        sides.append((*first, *second))
    for a, b in zip(*sides, strict=True):
        torch.testing.assert_close(a, b)
    only = torch.autograd.grad(scaled(x.detach(), y, 2.0).sum(), y)[0]
    torch.testing.assert_close(only, 2.0 * x.detach())
    assert not dispatched


def test_several_results_of_which_some_have_no_adjoint() -> None:
    op = tc.torch.op(TWO)
    x = torch.randn(4, 3, dtype=torch.float32, requires_grad=True)
    for k in (0, 1):
        (found,) = torch.autograd.grad(op(x)[k].square().sum(), x)
        m = x.amax(1)
        (wanted,) = torch.autograd.grad(((x - m[:, None]).exp(), m)[k].square().sum(), x)
        torch.testing.assert_close(found, wanted)


def test_a_call_in_place_is_noticed(scaled) -> None:
    x, y = given()
    z = scaled(x, y, 2.0)
    with torch.no_grad():
        x.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


class Watching(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names = [*getattr(self, "names", ()), str(func)]
        return func(*args, **(kwargs or {}))


def test_modes_profilers_and_casts_see_the_operator(scaled, dispatched) -> None:
    x, y = given(requires_grad=False)
    with Watching() as mode:
        scaled(x, y, 2.0)
    assert any("scaled_direct" in n for n in mode.names)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert scaled(x.bfloat16(), y, 2.0).dtype is torch.float32
    with torch.profiler.profile() as seen:
        scaled(x, y, 2.0)
    assert any("scaled_direct" in e.key for e in seen.key_averages())
    with torch._subclasses.FakeTensorMode() as fake:
        made = scaled(fake.from_tensor(x), fake.from_tensor(y), 2.0)
        assert isinstance(made, torch._subclasses.FakeTensor)
    assert len(dispatched) == 4


def test_meta_tensors_subclasses_and_lazy_negations(scaled, dispatched) -> None:
    x, y = given(requires_grad=False)
    assert scaled(x.to("meta"), y.to("meta"), 2.0).device.type == "meta"
    negated = torch._neg_view(x)
    assert negated.is_neg()
    torch.testing.assert_close(scaled(negated, y, 2.0), formula(-x, y, 2.0))
    assert len(dispatched) == 2


def test_arguments_that_do_not_fit(scaled) -> None:
    """The dispatcher refuses numbers."""
    x, y = given()
    with pytest.raises(tc.ArgumentError, match="got 2"):
        scaled(x, y)
    with pytest.raises(RuntimeError, match="Expected a value of type"):
        scaled(x, y, "2")
    with pytest.raises(tc.Error):
        scaled(x, y.double(), 2.0)


def test_torch_compile_traces_no_direct_call(scaled, dispatched) -> None:
    x, y = given()
    run = torch.compile(lambda x, y: scaled(x, y, 2.0) * 2, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(run(x, y), formula(x, y, 2.0) * 2)


def test_the_devices_of_a_call() -> None:
    x = torch.zeros(3)
    assert torch_direct.unwatched((x, 2.0), (True, False)) == "cpu"
    assert torch_direct.unwatched((x, x.to("meta")), (True, True)) is None
    assert torch_direct.unwatched((x,), (True, True)) is None
    assert torch_direct.unwatched((x, torch.tensor(2.0)), (True, False)) is None
    assert torch_direct.unwatched((x.to_sparse(),), (True,)) is None
    assert torch_direct.unwatched((torch.nn.Parameter(x),), (True,)) == "cpu"
