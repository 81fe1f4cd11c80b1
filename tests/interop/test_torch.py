"""Defs as operators of PyTorch."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import tc

torch: Any = pytest.importorskip("torch")
testing: Any = pytest.importorskip("torch._dynamo.testing")

PROGRAMS: dict[str, tuple[str, tuple[tuple[int, ...], ...]]] = {
    "layer": (
        """def layer(double(B,I) x, double(O,I) w, double(O) b) -> (y) {
             y(n,o) +=! x(n,i) * w(o,i)
             y(n,o) = tanh(y(n,o) + b(o))
           }""",
        ((5, 7), (4, 7), (4,)),
    ),
    "soft-max": (
        """def softmax(double(N,M) x) -> (y) {
             m(i) max=! x(i,j)
             e(i,j) = exp(x(i,j) - m(i))
             s(i) +=! e(i,j)
             y(i,j) = e(i,j) / s(i)
           }""",
        ((3, 9),),
    ),
    "strided convolution": (
        """def conv(double(N,C,H) I, double(O,C,K) W) -> (y) { y(n,o,h) +=! I(n,c,2*h+k) * W(o,c,k) }""",
        ((2, 3, 11), (4, 3, 3)),
    ),
    "two results, one of rank 0": (
        """def both(double(N) x) -> (y, s) { y(i) = x(i) * x(i)  s +=! y(i) * x(i) }""",
        ((6,),),
    ),
    "padded pool": (
        """def pool(double(C,H) x) -> (y) {
             y(c,h) max=! x[clamp](c,2*h+k-1) where c in 0:C, k in 0:3, h in 0:H/2
           }""",
        ((2, 8),),
    ),
}


def tensors(shapes: tuple[tuple[int, ...], ...], dtype: Any = None) -> list[Any]:
    g = torch.Generator().manual_seed(3)
    return [torch.randn(*s, generator=g, dtype=dtype or torch.float64, requires_grad=True) for s in shapes]


@pytest.mark.share(12)
@pytest.mark.parametrize("name", list(PROGRAMS))
def test_gradcheck(name: str) -> None:
    source, shapes = PROGRAMS[name]
    op = tc.torch.op(source)
    assert torch.autograd.gradcheck(op, tensors(shapes))
    assert torch.autograd.gradgradcheck(op, tensors(shapes))


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_opcheck(name: str) -> None:
    source, shapes = PROGRAMS[name]
    found = torch.library.opcheck(tc.torch.op(source).default, tuple(tensors(shapes)))
    assert set(found.values()) == {"SUCCESS"} and len(found) == 4


def test_the_same_as_in_pytorch() -> None:
    op = tc.torch.op(
        """def f(float(B,I) x, float(O,I) w, float(O) b) -> (y) {
             y(n,o) +=! x(n,i) * w(o,i)
             y(n,o) = fmax(y(n,o) + b(o), 0)
           }"""
    )
    given = tensors(((5, 7), (4, 7), (4,)), torch.float32)
    x, w, b = given
    found = op(x, b=b, w=w)
    wanted = torch.relu(x @ w.T + b)
    torch.testing.assert_close(found, wanted)
    weights = torch.randn(5, 4)
    for f, g in zip(
        torch.autograd.grad((found * weights).sum(), given),
        torch.autograd.grad((wanted * weights).sum(), given),
        strict=True,
    ):
        torch.testing.assert_close(f, g)


def test_only_what_is_asked_for_is_computed() -> None:
    source, shapes = PROGRAMS["layer"]
    op = tc.torch.op(source)
    x, w, b = tensors(shapes)
    op(x.detach(), w, b.detach()).sum().backward()
    assert w.grad is not None and x.grad is None
    assert ("w",) in {key[0] for key in op._gradients}


@pytest.mark.slow
def test_one_compile_for_all_sizes() -> None:
    source, _ = PROGRAMS["strided convolution"]
    op = tc.torch.op(source)
    counter = testing.CompileCounterWithBackend("aot_eager")
    torch._dynamo.reset()

    def loss(i: Any, w: Any) -> Any:
        return (op(i, w) * 2).sum()

    compiled = torch.compile(loss, fullgraph=True, dynamic=True, backend=counter)
    w = torch.randn(4, 3, 3, dtype=torch.float64, requires_grad=True)
    for length in range(11, 21):
        i = torch.randn(2, 3, length, dtype=torch.float64, requires_grad=True)
        compiled(i, w).backward()
        (wanted,) = torch.autograd.grad(torch.nn.functional.conv1d(i, w, stride=2).mul(2).sum(), (i,))
        torch.testing.assert_close(i.grad, wanted)
    assert counter.frame_count == 1


def test_export() -> None:
    source, shapes = PROGRAMS["soft-max"]
    op = tc.torch.op(source)

    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return op(x) * 2

    (x,) = [t.detach() for t in tensors(shapes)]
    length = torch.export.Dim("length", min=2, max=100)
    program = torch.export.export(Model(), (x,), dynamic_shapes={"x": {0: length, 1: None}})
    longer = torch.randn(17, 9, dtype=torch.float64)
    torch.testing.assert_close(program.module()(longer), 2 * torch.softmax(longer, 1))


def test_a_module_is_trained() -> None:
    torch.manual_seed(0)
    model = tc.torch.Module(
        """def f(float(B,I) x, float(O,I) w, float(O) b) -> (y) {
             y(n,o) +=! x(n,i) * w(o,i)
             y(n,o) = y(n,o) + b(o)
           }""",
        {"w": (1, 3), "b": torch.zeros(1)},
    )
    assert {n: tuple(p.shape) for n, p in model.named_parameters()} == {"w": (1, 3), "b": (1,)}
    x = torch.randn(64, 3)
    wanted = x @ torch.tensor([[1.0], [-2.0], [0.5]]) + 3
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    loss = torch.zeros(())
    for _ in range(100):
        optimizer.zero_grad()
        loss = ((model(x) - wanted) ** 2).mean()
        loss.backward()
        optimizer.step()
    assert float(loss.detach()) < 1e-6
    assert "w" in model.state_dict()


LINEAR = "def lin{v}({t}(B,I) x, {t}(O,I) w) -> (y) {{ y(n,o) +=! x(n,i) * w(o,i) }}"


@pytest.mark.parametrize("v", ["", "<T>"])
def test_modules_and_operators_are_copied_and_pickled(v: str) -> None:
    model = tc.torch.Module(LINEAR.format(v=v, t="T" if v else "float"), {"w": (2, 3)})
    x = torch.randn(4, 3)
    stored = io.BytesIO()
    torch.save(model, stored)
    stored.seek(0)
    copies = (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model)))
    for other in (*copies, torch.load(stored, weights_only=False)):
        torch.testing.assert_close(other(x), model(x))
    assert copies[1].w is not model.w
    named = tc.torch.op(LINEAR.format(v="", t="float"), name="other", backward=None, unroll=8)
    assert pickle.loads(pickle.dumps(named)) is named


def test_a_module_of_a_def_with_type_variables() -> None:
    """Its parameters have the types of the tensors that are given, and change with `.double()`."""
    source = LINEAR.format(v="<T>", t="T")
    model = tc.torch.Module(source, {"w": (2, 3)})
    assert model.w.dtype == torch.float32
    assert model.double()(torch.ones(4, 3, dtype=torch.float64)).dtype == torch.float64
    given = tc.torch.Module(source, {"w": torch.ones(2, 3, dtype=torch.float64)})
    assert given(torch.ones(4, 3, dtype=torch.float64)).tolist() == [[3.0, 3.0]] * 4
    with pytest.raises(tc.ArgumentError, match="'v' is no tensor parameter of 'lin'"):
        tc.torch.Module(source, {"v": (2, 3)})


def test_what_changes_in_place() -> None:
    op = tc.torch.op("def f(float(N) x) -> (y) { y(i) = y(i) * 0.5 + x(i) }")
    x, y = torch.ones(4), torch.full((4,), 2.0)
    assert op(x, y) is None
    torch.testing.assert_close(y, torch.full((4,), 2.0))
    assert set(torch.library.opcheck(op.default, (x, y)).values()) == {"SUCCESS"}


@pytest.mark.filterwarnings("ignore::tc.DataDependentAccess")
def test_integers_get_no_gradients() -> None:
    op = tc.torch.op(
        """def f(double(N,D) table, int(L) at) -> (y, n) { y(l,d) = table(at(l),d)  n(l) = at(l) + 1 }"""
    )
    table = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    at = torch.tensor([1, 4, 1], dtype=torch.int32)
    y, n = op(table, at)
    assert not n.requires_grad
    y.sum().backward()
    wanted = torch.zeros(5, 2, dtype=torch.float64)
    wanted[1], wanted[4] = 2, 1
    torch.testing.assert_close(table.grad, wanted)


def test_scalar_parameters() -> None:
    op = tc.torch.op(
        "def f(double(N) x, double s, int k) -> (y) { y(i) = s * x(i) * x(i) + k where i in 0:N }"
    )
    (x,) = tensors(((5,),))
    op(x, 1.5, 2).sum().backward()
    torch.testing.assert_close(x.grad, 3.0 * x.detach())


def backward(x: Any, dy: Any) -> Any:
    return 10 * dy


@pytest.mark.parametrize(
    "given",
    [backward, "def g(double(N) x, double(N) d_y) -> (d_x) { d_x(i) = 10 * d_y(i) + 0 * x(i) }"],
    ids=["callable", "source"],
)
def test_another_backward(given: str | Callable[..., Any]) -> None:
    op = tc.torch.op("def f(double(N) x) -> (y) { y(i) = x(i) * x(i) }", backward=given)
    (x,) = tensors(((5,),))
    op(x).sum().backward()
    torch.testing.assert_close(x.grad, torch.full((5,), 10.0, dtype=torch.float64))


def test_a_backward_def_takes_results_by_their_names() -> None:
    source = """
    def f(double(N,D) x, double scale) -> (y, best) {
      m(n) max=! x(n,d)
      e(n,d) = exp(x(n,d) - m(n)) * scale
      s(n) +=! e(n,d)
      y(n,d) = e(n,d) / s(n)
      best(n) argmax=! x(n,d)
    }
    """
    given = """
    def g(double(N,D) d_y, int(N) best, double(N,D) y) -> (d_x) {
      t(n) +=! y(n,d) * d_y(n,d)
      d_x(n,d) = y(n,d) * (d_y(n,d) - t(n)) + 0 * best(n)
    }
    """
    (x,) = tensors(((4, 6),))
    op, auto = tc.torch.op(source, backward=given), tc.torch.op(source)
    weights = torch.rand(4, 6, dtype=torch.float64)
    (found,) = torch.autograd.grad((op(x, 2.0)[0] * weights).sum(), x, create_graph=True)
    (wanted,) = torch.autograd.grad((auto(x, 2.0)[0] * weights).sum(), x, create_graph=True)
    torch.testing.assert_close(found, wanted)
    second = [torch.autograd.grad(g.square().sum(), x)[0] for g in (found, wanted)]
    torch.testing.assert_close(*second)
    torch.library.opcheck(op.default, (x, 2.0))
    assert torch.autograd.gradcheck(lambda x: op(x, 2.0)[0], (x,))


def test_a_backward_def_with_other_names_takes_all_in_order() -> None:
    given = "def g(double(N) a, double(N) y, double(N) d) -> (u, v) { u(i) = y(i) * d(i) v(i) = a(i) * d(i) }"
    op = tc.torch.op("def f(double(N) x, double(N) z) -> (y) { y(i) = x(i) * z(i) }", backward=given)
    x, z = tensors(((5,), (5,)))
    op(x, z).sum().backward()
    torch.testing.assert_close(x.grad, z.detach())
    torch.testing.assert_close(z.grad, x.detach())


def test_wrong_backwards() -> None:
    source = "def f(double(N) x, double(N) z) -> (y) { y(i) = x(i) * z(i) }"
    x, z = tensors(((5,), (5,)))
    with pytest.raises(tc.ArgumentError, match="returns 1 tensor where there should be 2"):
        tc.torch.op(source, backward=lambda x, z, d: d)(x, z).sum().backward()
    with pytest.raises(tc.ArgumentError, match=r"returns \(1, 5\) for x, which has the shape \(5,\)"):
        tc.torch.op(source, backward=lambda x, z, d: (d[None], d))(x, z).sum().backward()
    with pytest.raises(tc.SemanticError, match="backward=None"):
        tc.torch.op(source, backward=None)(x, z).sum().backward()


def test_shapes_that_do_not_fit() -> None:
    op = tc.torch.op(PROGRAMS["layer"][0])
    x, w, b = (t.detach() for t in tensors(((5, 7), (4, 6), (4,))))
    with pytest.raises(tc.ArgumentError, match="I"):
        op(x, w, b)
    with pytest.raises(RuntimeError, match="dimension 1 of w has another extent than I"):
        op(*(t.to("meta") for t in (x, w, b)))


def test_the_same_source_is_the_same_operator() -> None:
    source = PROGRAMS["layer"][0]
    assert tc.torch.op(source) is tc.torch.op(source)
    assert tc.torch.op(source) is not tc.torch.op(source, name="other")
    assert tc.torch.op(source, name="other").name.startswith("tc::other_")
    assert tc.torch.op(tc.compile(source)).name == tc.torch.op(source).name


def test_autocast() -> None:
    op = tc.torch.op("def f(float(N) x) -> (y) { y(i) = x(i) + 1 }")
    with torch.autocast("cpu", torch.bfloat16):
        assert op(torch.ones(3, dtype=torch.bfloat16)).dtype == torch.float32


def test_scalars_that_shape_results() -> None:
    """Strides and paddings as parameters of the operator, also in the gradient."""
    op = tc.torch.op(
        """def f(double(N,C,H) x, double(O,C,K) w, int s, int p) -> (y) {
             y(n,o,i) +=! x[none,none,zero](n,c,s*i+k-p) * w(o,c,k) where i in 0:(H+2*p-K)/s+1
           }"""
    )
    given = tensors(((2, 3, 11), (4, 3, 3)))
    found = op(*given, 2, 1)
    wanted = torch.nn.functional.conv1d(*given, stride=2, padding=1)
    torch.testing.assert_close(found, wanted)
    for f, g in zip(
        torch.autograd.grad(found.sum(), given), torch.autograd.grad(wanted.sum(), given), strict=True
    ):
        torch.testing.assert_close(f, g)


RNN = """def rnn(double(T,I) x, double(H,I) w, double(H,H) u, double(H) h0) -> (h, o) {
  h(j) = h0(j)
  for t in 0:T {
    z(j) +=! w(j,i) * x(t,i)
    z(j) += u(j,k) * h(k)
    h(j) = tanh(z(j))
    o(t,j) = h(j)
  }
}"""


@pytest.mark.slow
def test_gradients_of_a_loop() -> None:
    op = tc.torch.op(RNN)
    given = tensors(((3, 2), (2, 2), (2, 2), (2,)))
    assert torch.autograd.gradcheck(op, given)
    assert torch.autograd.gradgradcheck(op, given)
    cell = torch.nn.RNN(2, 2, bias=False, dtype=torch.float64)
    x = torch.randn(4, 2, dtype=torch.float64)
    w, u = (p.detach().clone().requires_grad_() for p in (cell.weight_ih_l0, cell.weight_hh_l0))
    _, o = op(x, w, u, torch.zeros(2, dtype=torch.float64))
    wanted, _ = cell(x)
    torch.testing.assert_close(o, wanted)
    wanted.square().sum().backward()
    o.square().sum().backward()
    torch.testing.assert_close(w.grad, cell.weight_ih_l0.grad)
    torch.testing.assert_close(u.grad, cell.weight_hh_l0.grad)


def test_a_batch_is_a_kernel_and_no_loop() -> None:
    op = tc.torch.op("def f(float(N) x, float(M,N) w) -> (y) { y(m) +=! tanh(x(n)) * w(m,n) }")
    x, w = torch.randn(4, 5, requires_grad=True), torch.randn(3, 5)
    found = torch.vmap(op, (0, None))(x, w)
    torch.testing.assert_close(found, torch.tanh(x) @ w.T)
    (adjoint,) = torch.autograd.grad(found.sum(), x)
    (wanted,) = torch.autograd.grad((torch.tanh(x) @ w.T).sum(), x)
    torch.testing.assert_close(adjoint, wanted)
    ws = torch.randn(3, 4, 5)
    torch.testing.assert_close(torch.vmap(op, (0, 1))(x, ws)[2], torch.tanh(x[2]) @ ws[:, 2].T)
    assert set(op._batches) == {("x",), ("x", "w")}
