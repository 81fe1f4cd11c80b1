"""Layouts under torch.compile(backend="tc"): channels-last convolutions, and the strides that callers see."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")

import tc  # noqa: E402
from tc.interop.fx import layout  # noqa: E402

nn, F = torch.nn, torch.nn.functional
assert tc.torch  # which registers the backend
pytestmark = [
    pytest.mark.usefixtures("fresh_compiler"),
    pytest.mark.skipif(
        not torch.backends.mkldnn.is_available(), reason="PyTorch without oneDNN keeps the layouts of a model"
    ),
]


class Model(nn.Module):
    """A convolution, its transposed form, and what is made of their results."""

    def __init__(self, then, channels=6, groups=1):
        super().__init__()
        self.a = nn.Conv2d(channels, channels, 3, padding=1, groups=groups)
        self.b = nn.ConvTranspose2d(channels, channels, 2, 2)
        self.n = nn.BatchNorm2d(channels)
        self.g = nn.GroupNorm(channels // 2 or 1, channels)
        self.then = then

    def forward(self, x):
        return self.then(self, x)


def several(found):
    return found if isinstance(found, tuple) else (found,)


def strides(some):
    """The strides of dimensions that have more than one element."""
    return [
        None if x is None else [s for n, s in zip(x.shape, x.stride(), strict=True) if n > 1] for x in some
    ]


def gradients(run, model, x):
    x = x.detach().clone(memory_format=torch.preserve_format).requires_grad_()
    results = several(run(x))
    torch.manual_seed(1)
    of = [x, *model.parameters()]
    found = torch.autograd.grad(results, of, [torch.randn_like(r) for r in results], allow_unused=True)
    return results, found


def compiled(model, dynamic=None):
    return torch.compile(model, backend="tc", dynamic=dynamic, options={"products": "pytorch"})


def same(then, x=None, dynamic=None, channels=6, groups=1):
    """Results, gradients and their strides are those of eager mode."""
    x = torch.randn(2, channels, 10, 12) if x is None else x
    model = Model(then, channels, groups)
    other = copy.deepcopy(model)
    run = compiled(other, dynamic)
    for wanted, found in zip(gradients(model, model, x), gradients(run, other, x), strict=True):
        for a, b in zip(wanted, found, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-4)
        assert strides(found) == strides(wanted)


CASES = {
    "a view that needs the dimensions as they were": lambda m, x: F.relu(m.a(x)).view(2, -1),
    "strides that are read": lambda m, x: (lambda y: (y.as_strided((2, 6), (720, 120)), m.b(y)))(m.a(x)),
    "pools": lambda m, x: F.avg_pool2d(F.max_pool2d(F.gelu(m.a(x)), 2), 2) + F.adaptive_avg_pool2d(m.a(x), 1),
    "one that is resized": lambda m, x: F.interpolate(m.a(x), scale_factor=2),
    "a residual": lambda m, x: F.relu(m.n(m.a(x)) + x),
    "joined with the input": lambda m, x: torch.cat([x, m.a(x), x], 1).softmax(1),
    "normalised in groups": lambda m, x: F.silu(m.g(m.a(x))),
    "rows of channels": lambda m, x: (lambda q: F.scaled_dot_product_attention(q, q, q))(
        m.a(x).permute(0, 2, 3, 1).reshape(2, 120, 6)
    ),
    "a part": lambda m, x: (m.a(x)[:, ::2, 1:], m.b(m.a(x)).mean((2, 3))),
    "pixels from channels": lambda m, x: F.pixel_shuffle(F.pixel_unshuffle(m.a(x), 2), 2),
}


@pytest.mark.share(8)
@pytest.mark.parametrize("name", CASES)
def test_results_and_strides_are_those_of_eager_mode(name):
    same(CASES[name])


@pytest.mark.share(6)
@pytest.mark.parametrize("channels, groups", [(1, 1), (6, 6), (6, 2)])
def test_channels_and_groups(channels, groups):
    same(lambda m, x: torch.tanh(m.b(torch.tanh(m.a(x)))), channels=channels, groups=groups)


def test_an_input_whose_channels_are_innermost_is_not_copied():
    x = torch.randn(2, 6, 10, 12).contiguous(memory_format=torch.channels_last)
    same(lambda m, x: F.silu(m.a(x)), x)
    said = tc.explain(Model(lambda m, x: F.silu(m.a(x))), x, products="pytorch")
    assert "clone" not in str(said)


def test_without_gradients():
    model = Model(CASES["a residual"]).eval()
    x = torch.randn(2, 6, 10, 12)
    with torch.no_grad():
        wanted, found = model(x), compiled(model)(x)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
    assert found.stride() == wanted.stride()


def test_sizes_that_vary():
    same(lambda m, x: F.relu(m.a(x)).flatten(1), dynamic=True)


def test_saved_tensors_keep_the_layout_they_were_written_in(monkeypatch):
    """The pass backward knows the strides of what the pass forward stored: it copies the gradient."""
    seen = []
    original = layout.channels_innermost

    def recording(gm, inputs, fixed):
        seen.append((gm, inputs, original(gm, inputs, fixed)))
        return seen[-1][-1]

    monkeypatch.setattr("tc.interop.fx.backend.channels_innermost", recording)
    model = Model(lambda m, x: torch.tanh(m.a(torch.tanh(m.a(x)))))
    x = torch.randn(2, 6, 10, 12, requires_grad=True)
    compiled(model)(x).sum().backward()
    _, backward = seen
    innermost = [
        a for a in backward[1] if a.dim() == 4 and a.is_contiguous(memory_format=torch.channels_last)
    ]
    assert len(innermost) == 3  # the two results of tanh, and the copy of the input
    read = [n for n in backward[2].graph.nodes if "convolution_backward" in str(n.target)]
    assert {a.op for n in read for a in n.args[1:2]} == {"placeholder"}  # not copied again


def test_an_operator_of_others_sees_the_strides_of_eager_mode():
    @torch.library.custom_op("tc_tests::strides_of", mutates_args=())
    def strides_of(x: torch.Tensor) -> torch.Tensor:  # pyright: ignore[reportInvalidTypeForm]
        return torch.tensor([float(s) for s in x.stride()])

    @strides_of.register_fake
    def _(x):
        return x.new_empty(x.dim())

    model = Model(lambda m, x: strides_of(F.relu(m.a(x)))).requires_grad_(False)
    x = torch.randn(2, 6, 10, 12)
    assert torch.equal(compiled(model)(x), model(x))


def test_a_graph_that_cannot_have_other_layouts_stays_as_it_is():
    def then(m, x):
        y = m.a(x)
        return y, y[:, 1:].as_strided((2, 5), (720, 120))  # of a tensor that is not dense

    model = Model(then).requires_grad_(False)
    x = torch.randn(2, 6, 10, 12)
    for a, b in zip(compiled(model)(x), model(x), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.share(10)
@pytest.mark.parametrize(
    "shape, groups, affine, dtype",
    [
        ((2, 6, 5, 7), 3, True, "float32"),
        ((2, 6, 5, 7), 6, False, "float64"),
        ((3, 8), 4, True, "float64"),
        ((2, 4, 9), 1, True, "float32"),
        ((2, 4, 3, 4, 5), 2, True, "float64"),
    ],
)
def test_group_normalisation(shape, groups, affine, dtype):
    model = nn.GroupNorm(groups, shape[1], affine=affine).to(getattr(torch, dtype))
    for p in model.parameters():
        nn.init.normal_(p)
    x = torch.randn(shape, dtype=getattr(torch, dtype)) + 100  # whose squares would lose the variance
    run = compiled(copy.deepcopy(model))
    pairs = zip(gradients(model, model, x), gradients(run, run, x), strict=True)
    for wanted, found in pairs:
        torch.testing.assert_close(found, wanted, rtol=2e-3, atol=2e-3)
