"""torch.compile(backend="tc") against eager mode: values, gradients, what becomes a TC and what does not."""

from __future__ import annotations

import copy
import random
import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import tc  # noqa: E402
from tc.interop.fx import backend as backend_module  # noqa: E402
from tc.interop.fx import views  # noqa: E402

nn, F = torch.nn, torch.nn.functional
assert tc.torch  # which registers the backend
pytestmark = pytest.mark.usefixtures("fresh_compiler")


def close(a, b, tolerance=1e-5):
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def compiled(model, **kwargs):
    return torch.compile(model, backend="tc", options={"products": "pytorch"}, **kwargs)


def training(model, *args, steps=1, tolerance=1e-5):
    """Forward and gradients of a model and of a copy that is compiled; returns the compiled copy."""
    other = copy.deepcopy(model)
    made = compiled(other)
    for _ in range(steps):
        for m in (model, other):
            m.zero_grad()
        torch.manual_seed(1)
        wanted = model(*args)
        torch.manual_seed(1)
        found = made(*args)
        close(found, wanted, tolerance)
        wanted.square().mean().backward()
        found.square().mean().backward()
        for (n, p), q in zip(model.named_parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(
                q.grad, p.grad, rtol=1e-4, atol=tolerance, msg=lambda m, n=n: f"{n}: {m}"
            )
        with torch.no_grad():
            for m in (model, other):
                for p in m.parameters():
                    p -= 0.1 * p.grad
    for p, q in zip(model.buffers(), other.buffers(), strict=True):
        close(q, p)
    return made


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 5))

    def forward(self, x):
        return self.layers(x)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.n = nn.BatchNorm2d(4)
        self.b = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.m = nn.BatchNorm2d(4)

    def forward(self, x):
        y = torch.relu(self.n(self.a(x)))
        return torch.relu(self.m(self.b(y)) + x)


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(11, 6)
        self.cell = nn.LSTMCell(6, 8)
        self.out = nn.Linear(8, 3)

    def forward(self, ids):
        x = self.table(ids)
        h = c = torch.zeros(ids.shape[0], 8)
        for t in range(ids.shape[1]):
            h, c = self.cell(x[:, t], (h, c))
        return self.out(h)


@pytest.mark.slow
def test_mlp():
    training(Mlp(), torch.randn(7, 6), steps=2)


@pytest.mark.slow
def test_transformer_layer():
    model = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, activation="gelu")
    training(model, torch.randn(2, 5, 8), tolerance=2e-5)


@pytest.mark.slow
def test_residual_block():
    model = Residual()
    training(model, torch.randn(2, 4, 5, 5))
    model.eval()
    training(model, torch.randn(2, 4, 5, 5))
    x = torch.randn(2, 4, 5, 5).to(memory_format=torch.channels_last)
    with torch.no_grad():
        found = compiled(model)(x)
        wanted = model(x)
    close(found, wanted)
    assert found.stride() == wanted.stride()


@pytest.mark.slow
def test_lstm_classifier():
    training(Lstm(), torch.randint(0, 11, (4, 3)))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy(smoothing):
    def loss(x, target):
        return F.cross_entropy(x, target, label_smoothing=smoothing)

    target = torch.tensor([1, 0, -100, 6])
    x = torch.randn(4, 7, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    wanted, found = loss(x, target), compiled(loss)(y, target)
    close(found, wanted)
    wanted.backward()
    found.backward()
    close(y.grad, x.grad)


def test_one_compile_serves_all_batches():
    model = Mlp()
    graphs = []

    def counted(gm, example):
        graphs.append(gm)
        return backend_module.backend(gm, example)

    made = torch.compile(model, backend=counted, dynamic=True)
    made(torch.randn(4, 6))
    at_first = len(graphs)  # Dynamo starts anew where it meets a float
    for n in (9, 3):
        x = torch.randn(n, 6)
        close(made(x), model(x))
        made(x).sum().backward()
    assert len(graphs) == at_first


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_indices_of_sizes_that_no_tensor_has_stay_with_pytorch(mode):
    """Formulas of indices alone, as in the pass backward of a border; nobody is warned of that."""

    def f(x):
        return torch.nn.functional.pad(x, (1, 2), mode=mode) * 2.0

    made = compiled(f, dynamic=True)
    for shape in ((2, 3, 6), (2, 3, 9)):
        x = torch.randn(shape, requires_grad=True)
        y = x.detach().clone().requires_grad_()
        with warnings.catch_warnings():
            warnings.simplefilter("error", tc.PerformanceNotice)
            found = made(y)
            found.square().sum().backward()
        close(found, f(x))
        f(x).square().sum().backward()
        close(y.grad, x.grad)


def test_sizes_as_values_and_means_over_them():
    def f(x):
        y = x * x.shape[0] + torch.arange(x.shape[1])
        return y.mean() + (y.mean(0) * 2.0).exp().sum() / (x.shape[0] * x.shape[1]), y.softmax(0)

    made = compiled(f, dynamic=True)
    for shape in ((4, 3), (5, 7)):
        x = torch.rand(shape) * 0.1
        close(made(x), f(x))


@pytest.mark.slow
def test_empty_batches():
    model = Mlp()
    with torch.no_grad():
        for dynamic in (False, True):
            made = compiled(model, dynamic=dynamic)
            for n in (3, 0, 1):
                x = torch.randn(n, 6)
                close(made(x), model(x))


def test_in_place():
    def f(x, y):
        x.mul_(2.0).add_(y)
        z = x.clone()
        z[:, 1] = 0.0
        z.relu_()
        return z.sum(1) + 1.0

    a, y = torch.randn(3, 4), torch.randn(3, 4)
    b = a.clone()
    close(compiled(f)(a, y), f(b, y))
    close(a, b)


def test_masks():
    def f(x, mask, n):
        keep = mask & (x > 0) | ~(n.unsqueeze(1) > 2)
        y = torch.where(keep, x.exp(), -1.0).masked_fill(n.unsqueeze(1) == 0, 3.0)
        return y, keep, keep.sum(), (n * 3 + 1).clamp(max=7), n.to(torch.int32) % 3, (keep ^ mask).float()

    x, mask, n = torch.randn(5, 4), torch.rand(5, 4) > 0.5, torch.arange(5)
    for a, b in zip(compiled(f)(x, mask, n), f(x, mask, n), strict=True):
        assert a.dtype == b.dtype
        close(a, b)


def test_indices():
    def f(x, at, rows):
        rest = torch.gather(x, 1, rows.abs().unsqueeze(1)).exp() + 1
        return x[at].relu() + 1.0, x[rows, at] * 2.0 + 1.0, rest

    x, at, rows = torch.randn(5, 4), torch.tensor([0, -1, 3]), torch.tensor([1, -2, 0])
    made = compiled(f)
    close(made(x, at, rows), f(x, at, rows))
    with pytest.raises(IndexError):
        made(x, at + 10, rows)


def test_permuted_and_expanded():
    def f(x, y):
        a = (x.transpose(0, 2) * 2.0 + y).permute(1, 0, 2)
        b = y[None, :, None, 0] + x.unsqueeze(0)[..., 1:2].expand(2, 2, 3, 3)
        return a, a.transpose(1, 2).reshape(3, 4, 2).sum(1), b.tanh()

    x, y = torch.randn(2, 3, 4), torch.randn(3, 2)
    for a, b in zip(compiled(f)(x, y), f(x, y), strict=True):
        assert a.stride() == b.stride()
        close(a, b)


def test_double_and_what_the_language_lacks():
    def f(x):
        return (x.double() * 1e-300).log().sum(), (x.bfloat16() + 1).float(), x.cumsum(0) * 2.0 + 1.0

    x = torch.rand(4, 3) + 0.5
    close(compiled(f)(x), f(x))
    said = tc.explain(f, x)
    assert "the type bfloat16" in said.fallback
    assert any("double" in s for s in said.sources)


def test_explain():
    said = tc.explain(Mlp(), torch.randn(4, 6), products="pytorch")
    text = str(said)
    assert text.startswith("forward: ")
    assert "def fused(float(4,16) x0" in text
    assert "addmm (addmm.default): PyTorch has a kernel for it" in text
    assert len(said.sources) == 1


def test_a_single_operator_is_left_to_pytorch():
    said = tc.explain(lambda x: x + 1, torch.randn(4))
    assert said.sources == []
    assert list(said.fallback) == ["fewer than two operators on elements and no reduction"]


def test_what_does_not_compile_falls_back(monkeypatch):
    def broken(*_args, **_kwargs):
        raise tc.BackendError("no compiler")

    monkeypatch.setattr(backend_module, "_kernel", broken)
    x = torch.randn(4, 3)
    model = lambda x: (x.exp() + 1).sum(0)  # noqa: E731
    with pytest.warns(tc.PerformanceNotice, match="no compiler"):
        close(compiled(model)(x), model(x))
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.PerformanceNotice)
        assert "left to PyTorch: BackendError" in str(tc.explain(model, x))


def test_a_kernel_that_fails_when_called_falls_back(monkeypatch):
    class Broken:
        def __init__(self, kernel):
            self.front = kernel.front

        def __call__(self, *args):
            raise tc.BackendError("no device")

    good = backend_module._kernel
    monkeypatch.setattr(backend_module, "_kernel", lambda *a: Broken(good(*a)))
    x = torch.randn(4, 3)
    model = lambda x: (x.exp() + 1).t().reshape(3, 2, 2).sum(0)  # noqa: E731
    with pytest.warns(tc.PerformanceNotice, match="no device"):
        close(compiled(model)(x), model(x))


def test_an_error_of_the_writer_leaves_the_graph_to_pytorch(monkeypatch):
    def broken(*_args):
        raise RuntimeError("oh")

    monkeypatch.setattr(backend_module, "groups_of", broken)
    x = torch.randn(4, 3)
    with pytest.warns(tc.PerformanceNotice, match="oh"):
        close(compiled(torch.softmax)(x, 1), torch.softmax(x, 1))


@pytest.mark.parametrize(
    ("shape", "out", "index"),
    [
        ([2, 1, 3], [2, 3], ("a", "0", "b")),
        ([6, "s"], [2, 3, "s"], ("3*(a) + b", "c")),
        (["s", 4], [1, "s", 4, 1], ("b", "c")),
        ([2, 3], [6], None),
        ([4, 6], [6, 4], None),
        ([], [1], ()),
    ],
)
def test_reshapes_that_are_subscripts(shape, out, index):
    made = views.reshaped(shape, out)
    assert (None if made is None else made(tuple("abcd"[: len(out)]))) == index


def _random_function(seed):
    """A graph of some operators on two matrices and a row, as a function."""
    rng = random.Random(seed)
    unary = [torch.tanh, torch.sigmoid, torch.relu, lambda x: (x * x + 1.0).rsqrt(), lambda x: -x.abs()]
    binary = [torch.add, torch.sub, torch.mul, torch.maximum, lambda a, b: torch.where(a > b, a * 0.5, b)]
    reduce = [torch.sum, torch.mean, torch.amax, torch.amin, lambda x, d, k: x.var(d, keepdim=k)]
    script = [
        (*(rng.random() for _ in range(3)), rng.randrange(5), rng.choice([0, 1, -1]), rng.random() < 0.6)
        for _ in range(rng.randint(4, 10))
    ]

    def f(x, y, row):
        made = [x, y, row]
        for kind, first, second, which, dim, keep in script:
            a, b = made[int(first * len(made))], made[int(second * len(made))]
            if kind < 0.25:
                made.append(unary[which](a))
            elif kind < 0.35:
                made.append(_product(a, b))
            elif kind < 0.6:
                made.append(binary[which](a, b) if _fits(a, b) else unary[which](b))
            elif kind < 0.75 and a.dim() == 2:
                made.append(reduce[which](a, dim, keep))
            elif kind < 0.86:
                made.append(_joined(a, b, dim))
            elif kind < 0.9:
                made.append(a.t().unsqueeze(0).expand(2, *a.t().shape)[1] if a.dim() == 2 else a[None] + 1.0)
            else:
                made.append(a.softmax(-1) if a.dim() else a.exp())
        return made[3:]

    return f


def _product(a, b):
    """A product of matrices as they are or transposed, with a row that is added where one is there."""
    if a.dim() == 2 and b.dim() == 2 and a.shape[1] in b.shape:
        return torch.sin(a @ (b if b.shape[0] == a.shape[1] else b.t()))
    if a.dim() == 2 and b.dim() == 1 and a.shape[0] == b.shape[0]:
        return torch.addmm(b, a, a.t()) * 0.5
    return a * 0.5


def _joined(a, b, dim):
    same = a.dim() == b.dim() > 0 and all(
        m == n for k, (m, n) in enumerate(zip(a.shape, b.shape, strict=True)) if k != dim % a.dim()
    )
    return torch.cat([a, b * 2.0, a], dim % a.dim()) if same else a + 1.0


def _fits(a, b):
    pairs = zip(reversed(a.shape), reversed(b.shape), strict=False)
    return all(m == n or m == 1 or n == 1 for m, n in pairs)


@pytest.mark.share(18)
@pytest.mark.parametrize("seed", range(10))
def test_random_graphs(seed):
    f = _random_function(seed)
    given = [torch.randn(4, 6), torch.randn(4, 6), torch.randn(6)]
    a = [x.clone().requires_grad_() for x in given]
    b = [x.clone().requires_grad_() for x in given]
    dynamic = seed == 4
    run = (
        torch.compile(f, backend="tc", options={"products": "tc"})
        if not dynamic
        else compiled(f, dynamic=True)
    )
    wanted, found = f(*a), run(*b)
    close(found, wanted, 2e-5)
    for results in (wanted, found):
        torch.stack([w.sum() for w in results]).sum().backward()
    for p, q in zip(a, b, strict=True):
        if p.grad is not None or q.grad is not None:
            torch.testing.assert_close(q.grad, p.grad, rtol=1e-4, atol=5e-5)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_joined_tensors(dim):
    a, b = torch.randn(3, 4, 5), torch.randn(3, 4, 5)

    def f(a, b):
        joined = torch.cat([torch.exp(a), b.transpose(0, 1).transpose(0, 1), torch.exp(b) * a], dim)
        return joined.sum(0), torch.tanh(joined) * 2

    for found, wanted in zip(compiled(f)(a, b), f(a, b), strict=True):
        close(found, wanted)
    with torch.no_grad():
        assert "cat (cat.default)" not in str(tc.explain(f, a, b)).partition("by PyTorch:")[2]


def test_joined_tensors_of_several_types_and_ranks():
    def f(a, b):
        return torch.cat([a * 2, b + 1, torch.zeros(0)], 0) * 3

    a, b = torch.randn(3), torch.arange(4)
    close(compiled(f)(a, b), f(a, b))


def test_joined_tensors_of_sizes_that_vary():
    def f(a, b):
        return torch.relu(torch.cat([torch.exp(a), b], 1)), torch.relu(torch.cat([torch.exp(a), b], 0))

    run = compiled(f, dynamic=True)
    for n in (3, 5, 6):
        a, b = torch.randn(n, 4), torch.randn(n, 4)
        for found, wanted in zip(run(a, b), f(a, b), strict=True):
            close(found, wanted)


class Skip(nn.Module):
    """Convolutions whose results are joined, below what keeps the pass backward from a layout of its own."""

    def __init__(self, between):
        super().__init__()
        self.between = between
        self.a = nn.Conv2d(2, 4, 3, padding=1)
        self.b = nn.Conv2d(4, 4, 3, padding=1)
        self.c = nn.Conv2d(8, 3, 3, padding=1)

    def forward(self, x):
        a = self.a(x).relu()
        return self.c(torch.cat([a, self.between(self.b(a).relu())], 1))


@pytest.mark.parametrize(
    "between",
    [
        lambda x: torch.nn.functional.interpolate(x[:, :, ::2, ::2], scale_factor=2, mode="nearest"),
        lambda x: x.flip(2),
        lambda x: torch.roll(x, 1, 3),
        lambda x: torch.nn.functional.pad(x, (1, 1, 0, 0), mode="reflect")[..., 1:-1],
        lambda x: x.sort(3).values,
    ],
    ids=["nearest", "flip", "roll", "reflect", "sort"],
)
@pytest.mark.parametrize("products", ["measured", "tc", "pytorch"])
def test_arguments_of_the_pass_backward_keep_their_places(between, products):
    torch.manual_seed(0)
    model = Skip(between)
    x = torch.randn(2, 2, 8, 8)
    model(x).square().sum().backward()
    wanted = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    torch._dynamo.reset()
    torch.compile(model, backend="tc", options={"products": products})(x).square().sum().backward()
    for p, w in zip(model.parameters(), wanted, strict=True):
        close(p.grad, w, 1e-3)


def test_gradients_of_layers_of_one_shape():
    """Arguments in other places would fit."""
    torch.manual_seed(0)
    layers = nn.ModuleList(nn.Conv2d(4, 4, 3, padding=1) for _ in range(5))

    def f(x: Any) -> Any:
        a, b, c, d, e = layers
        return e(d(c(torch.cat([a(x)[:, :2], b(x)[:, 2:]], 1))))

    x = torch.randn(4, 4, 3, 3)
    f(x).square().sum().backward()
    wanted = [p.grad.clone() for p in layers.parameters()]
    layers.zero_grad()
    torch._dynamo.reset()
    torch.compile(f, backend="tc")(x).square().sum().backward()
    for p, w in zip(layers.parameters(), wanted, strict=True):
        close(p.grad, w, 1e-3)


def test_bits_as_another_type():
    cases = [
        (lambda x: x.view(torch.int32).float().sum(), torch.ones(4)),
        (
            lambda x: (0x5F3759DF - (x.view(torch.int32) >> 1)).view(torch.float32) * 1.5 + x,
            torch.tensor([1.0, 4.0]),
        ),
        (lambda x: (x.view(torch.int32) < 0).float() * 2, torch.tensor([1.0, -1.0, -0.0, float("nan")])),
    ]
    for f, x in cases:
        torch._dynamo.reset()
        close(torch.compile(f, backend="tc")(x), f(x))


@pytest.mark.parametrize(("n", "correction"), [(2, 3), (1, 1), (1, 1.5), (4, 2), (3, 3)])
def test_corrections_of_variances(n, correction):
    x = torch.arange(3.0 * n).reshape(3, n) ** 2

    def f(x):
        return x.var(1, correction=correction) * 1, x.std(1, correction=correction) + 1

    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for a, w in zip(torch.compile(f, backend="tc")(x), f(x), strict=True):
            torch.testing.assert_close(a, w, equal_nan=True)


def test_sums_of_a_node_with_itself_take_no_time():
    a, b = nn.Linear(4, 4), nn.Linear(4, 4)

    def f(x):
        y = a(x)
        for _ in range(40):
            y = y + y
        return b(y)

    with torch.no_grad():
        close(torch.compile(f, backend="tc")(torch.ones(2, 4)), f(torch.ones(2, 4)))


def test_a_model_is_explained_as_often_as_one_asks():
    model = nn.Sequential(nn.Linear(3, 4), nn.Softmax(1))
    for _ in range(10):
        assert "TC 0" in str(tc.explain(model, torch.ones(2, 3)))
    graphs = []

    def counted(gm, example):
        graphs.append(gm)
        return gm

    torch.compile(model, backend=counted)(torch.ones(2, 3))
    assert len(graphs) == 1
