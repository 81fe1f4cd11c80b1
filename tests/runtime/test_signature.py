"""Matching calls: what is accepted, and the code, message, place and help of everything refused."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from tc.dtypes import FLOAT32, FLOAT64, INT32
from tc.errors import ArgumentError, BackendError, DTypeError, Error, Source, Span
from tc.runtime.signature import Bound, Output, Param, Signature

TEXT = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
SOURCE = Source(TEXT)


def span(text: str) -> Span:
    start = TEXT.index(text)
    return Span(SOURCE, start, start + len(text))


A_SPAN, B_SPAN, C_SPAN = (
    span("float(M,K) A"),
    span("float(K,N) B"),
    Span(SOURCE, TEXT.index("(C)") + 1, TEXT.index("(C)") + 2),
)
MM = Signature(
    "mm",
    (Param("A", FLOAT32, ("M", "K"), span=A_SPAN), Param("B", FLOAT32, ("K", "N"), span=B_SPAN)),
    (Output("C", 2, FLOAT32, span=C_SPAN),),
)
PAIR = Signature(
    "two", (Param("X", FLOAT32, ("N",)),), (Output("first", 1, FLOAT32), Output("second", 1, FLOAT64))
)
INOUT = Signature("update", (Param("X", FLOAT32, ("N",)),), (Output("C", 1, FLOAT32, True, C_SPAN),))
MIXED = Signature(
    "mixed",
    (
        Param("lut", FLOAT32, ("L", 4)),
        Param("index", INT32, ("N",), any_integer=True),
        Param("alpha", FLOAT32, scalar=True),
        Param("shift", INT32, scalar=True, specialized=True),
        Param("S", FLOAT32),
    ),
    (Output("C", 0, FLOAT32),),
)
NONE = Signature("zeros", (), (Output("C", 1, FLOAT32),))


def zeros(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.zeros(shape, dtype)


def refuses(
    signature: Signature,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    code: str,
    message: str,
    *,
    help: str | None = None,
    place: Span | None = None,
    kind: type[Error] = ArgumentError,
) -> None:
    with pytest.raises(kind) as caught:
        signature.bind(args, kwargs)
    error = caught.value
    assert error.code == code
    assert message in error.message
    assert error.span == place
    assert error.help
    if help is not None:
        assert help in error.help


def test_by_position_and_by_name() -> None:
    a, b = zeros(3, 4), zeros(4, 5)
    for bound in (MM.bind((a, b), {}), MM.bind((a,), {"B": b}), MM.bind((), {"B": b, "A": a})):
        assert isinstance(bound, Bound)
        assert bound.sizes == {"M": 3, "K": 4, "N": 5}
        assert list(bound.arrays) == ["A", "B"]
        assert bound.arrays["A"].owner is a
        assert bound.arrays["B"].owner is b
        assert bound.out == {}
        assert bound.aliases == frozenset()
        assert bound.library == "numpy"


def test_mixed_kinds() -> None:
    bound = MIXED.bind((zeros(7, 4), zeros(3, dtype=np.uint8), 2, np.int64(-3), np.array(1, np.float32)), {})
    assert bound.sizes == {"L": 7, "N": 3}
    assert bound.scalars == {"alpha": 2.0, "shift": -3}
    assert list(bound.arrays) == ["lut", "index", "S"]


def test_the_first_array_names_the_library() -> None:
    assert MM.bind((torch.zeros(3, 4), zeros(4, 5)), {}).library == "torch"
    assert MM.bind((jnp.zeros((3, 4)), torch.zeros(4, 5)), {}).library == "jax"
    assert MM.bind((), {"B": zeros(4, 5), "A": torch.zeros(3, 4)}).library == "torch"
    assert NONE.bind((), {}).library == "numpy"
    assert NONE.bind((), {"out": torch.zeros(3)}).library == "numpy"


def test_strided_and_empty_inputs() -> None:
    assert MM.bind((zeros(8, 3).T[:, ::2], np.broadcast_to(np.float32(1), (4, 5))), {}).sizes["K"] == 4
    assert MM.bind((zeros(0, 4), zeros(4, 5)), {}).sizes == {"M": 0, "K": 4, "N": 5}


# ---- TC0501, TC0502: count and names


def test_count() -> None:
    a = zeros(3, 4)
    refuses(MM, (a,), {}, "TC0501", "mm: expected 2 inputs (A, B), got 1", help="pass B too", place=B_SPAN)
    refuses(MM, (), {}, "TC0501", "expected 2 inputs (A, B), got 0", help="pass A, B too", place=A_SPAN)
    refuses(MM, (), {"B": a}, "TC0501", "expected 2 inputs (A, B), got 1", help="pass A too", place=A_SPAN)
    refuses(MM, (a, a, a), {}, "TC0501", "expected 2 inputs (A, B), got 3", help="out=C", place=B_SPAN)
    refuses(PAIR, (a, a), {}, "TC0501", "expected 1 input (X), got 2", help="out=(first, second)")
    refuses(NONE, (a,), {}, "TC0501", "expected 0 inputs, got 1")


def test_names() -> None:
    a, b = zeros(3, 4), zeros(4, 5)
    refuses(MM, (a,), {"b": b}, "TC0502", "mm: unknown argument 'b'", help="did you mean 'B'?")
    refuses(MM, (a, b), {"ouy": a}, "TC0502", "unknown argument 'ouy'", help="did you mean 'out'?")
    refuses(MM, (a, b), {"C": a}, "TC0502", "unknown argument 'C'", help="out=C")
    refuses(PAIR, (a,), {"first": a}, "TC0502", "unknown argument 'first'", help="out={'first'")
    refuses(MM, (a, b), {"gamma": a}, "TC0502", "unknown argument 'gamma'", help="the inputs are A, B")
    refuses(NONE, (), {"gamma": a}, "TC0502", "unknown argument 'gamma'", help="takes no inputs")
    refuses(MM, (a, b), {"A": a}, "TC0502", "A is given by position and by name", place=A_SPAN)


# ---- TC0503, TC0504, TC0411: rank, sizes, types


def test_rank() -> None:
    message = "A: expected a tensor with 2 dimensions (M,K), got 1 dimension of shape (3,)"
    refuses(MM, (zeros(3), zeros(4, 5)), {}, "TC0503", message, help="A.reshape(…, …)", place=A_SPAN)
    message = "B: expected a tensor with 2 dimensions (K,N), got 3 dimensions of shape (1, 4, 5)"
    refuses(MM, (zeros(3, 4), zeros(1, 4, 5)), {}, "TC0503", message, help="B[0]", place=B_SPAN)
    good = (zeros(7, 4), zeros(3, dtype=np.int64), 1, 1)
    refuses(MIXED, (*good, zeros(2)), {}, "TC0503", "S: expected a tensor with 0 dimensions, got 1 dimension")


def test_sizes() -> None:
    message = "size K is 3 from A (dimension 1) but 4 from B (dimension 0)"
    refuses(
        MM,
        (zeros(2, 3), zeros(4, 5)),
        {},
        "TC0504",
        message,
        help="A has shape (2, 3), B has shape (4, 5)",
        place=B_SPAN,
    )
    square = Signature("f", (Param("A", FLOAT32, ("N", "N"), span=A_SPAN),), (Output("C", 1, FLOAT32),))
    message = "size N is 2 from A (dimension 0) but 3 from A (dimension 1)"
    refuses(square, (zeros(2, 3),), {}, "TC0504", message, place=A_SPAN)
    rest = (zeros(3, dtype=np.int8), 1, 1, zeros())
    refuses(MIXED, (zeros(7, 5), *rest), {}, "TC0504", "dimension 1 of lut is 5, but is declared as 4")


@pytest.mark.parametrize(
    ("value", "help"),
    [
        (zeros(3, 4, dtype=np.float64), "A.astype(np.float32)"),
        (torch.zeros(3, 4, dtype=torch.float64), "A.to(torch.float32)"),
        (jnp.zeros((3, 4), "int32"), "A.astype(jnp.float32)"),
        (memoryview(zeros(3, 4, dtype=np.int8)), "np.asarray(A).astype(np.float32)"),
    ],
)
def test_element_type(value: Any, help: str) -> None:
    found = str(value.dtype).removeprefix("torch.") if hasattr(value, "dtype") else "int8"
    refuses(
        MM,
        (value, zeros(4, 5)),
        {},
        "TC0411",
        f"A: expected float32, found {found}",
        help=help,
        place=A_SPAN,
        kind=DTypeError,
    )


def test_element_type_of_an_index() -> None:
    rest = (1, 1, zeros())
    for bad in (np.float32, np.bool_):
        refuses(
            MIXED,
            (zeros(7, 4), zeros(3, dtype=bad), *rest),
            {},
            "TC0411",
            "index: expected an integer type",
            help="index.astype(np.int32)",
            kind=DTypeError,
        )


def test_type_before_rank_and_rank_before_size() -> None:
    refuses(MM, (zeros(3, dtype=np.int8), zeros(4)), {}, "TC0411", "A:", place=A_SPAN, kind=DTypeError)
    refuses(MM, (zeros(3, 9), zeros(4)), {}, "TC0503", "B:", place=B_SPAN)


# ---- TC0505, TC0509, TC0510: what is not a usable array or scalar


def test_unusable_inputs() -> None:
    b = zeros(4, 5)
    refuses(MM, ([[1.0]], b), {}, "TC0505", "A is not an array but a list", place=A_SPAN)
    refuses(MM, (None, b), {}, "TC0505", "A is not an array", place=A_SPAN)
    leaf = torch.zeros(3, 4, requires_grad=True)
    refuses(MM, (leaf, b), {}, "TC0509", "A requires gradients", place=A_SPAN)

    class OnDevice:
        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            return {"shape": (2,), "typestr": "<f4", "data": (4096, False), "version": 3}

    refuses(MM, (OnDevice(), b), {}, "TC0808", "A is on a CUDA device", place=A_SPAN, kind=BackendError)


def test_unusable_scalars() -> None:
    def call(alpha: Any, shift: Any) -> tuple[Any, ...]:
        return zeros(7, 4), zeros(3, dtype=np.int8), alpha, shift, zeros()

    refuses(MIXED, call("x", 1), {}, "TC0510", "alpha is a scalar of type float32, got str")
    refuses(MIXED, call(1, 1.0), {}, "TC0510", "shift is int32", help="int(shift)")
    refuses(
        MIXED,
        call(1, 2**40),
        {},
        "TC0510",
        "1099511627776 does not fit int32",
        help="-2147483648 to 2147483647",
    )
    refuses(MIXED, call(zeros(1), 1), {}, "TC0510", "array of shape (1,)", help="alpha.item()")


# ---- out=


def test_forms_of_out() -> None:
    x, first, second = zeros(3), zeros(3), zeros(3, dtype=np.float64)
    for out in ((first, second), {"second": second, "first": first}):
        bound = PAIR.bind((x,), {"out": out})
        assert list(bound.out) == ["first", "second"]
        assert bound.out["first"].owner is first
        assert bound.out["second"].owner is second
    assert list(PAIR.bind((x,), {"out": {"second": second}}).out) == ["second"]
    assert PAIR.bind((x,), {"out": {}}).out == {}
    assert PAIR.bind((x,), {"out": None}).out == {}
    for out in (first, (first,), {"C": first}):
        assert MM.bind((zeros(3, 4), zeros(4, 5)), {"out": _square(out)}).out["C"].shape == (2, 2)


def _square(out: Any) -> Any:
    buffer = zeros(2, 2)
    return (buffer,) if isinstance(out, tuple) else {"C": buffer} if isinstance(out, dict) else buffer


def test_bad_forms_of_out() -> None:
    x = zeros(3)
    refuses(
        PAIR,
        (x,),
        {"out": x},
        "TC0506",
        "out= is one ndarray, but two has 2 results (first, second)",
        help="out=(first, second)",
    )
    refuses(PAIR, (x,), {"out": (x,)}, "TC0506", "out= has 1 buffer, but two has 2 results")
    refuses(PAIR, (x,), {"out": [x, x]}, "TC0506", "out= is a list", help="out=(first, second)")
    refuses(INOUT, (x,), {"out": [x]}, "TC0506", "out= is a list", help="out=C")
    refuses(
        PAIR, (x,), {"out": {"frist": x}}, "TC0506", "two has no result 'frist'", help="did you mean 'first'?"
    )
    refuses(
        PAIR, (x,), {"out": {3: x}}, "TC0506", "two has no result 3", help="the results are first, second"
    )


def test_inout_needs_a_buffer() -> None:
    message = "C is read before it is defined, pass it as out=…"
    refuses(INOUT, (zeros(3),), {}, "TC0506", message, help="update(…, out=C)", place=C_SPAN)
    refuses(INOUT, (zeros(3),), {"out": {}}, "TC0506", message, place=C_SPAN)
    assert list(INOUT.bind((zeros(3),), {"out": zeros(3)}).out) == ["C"]


def test_buffers_that_cannot_be_written() -> None:
    a, b = zeros(3, 4), zeros(4, 5)
    frozen = zeros(3, 5)
    frozen.flags.writeable = False
    refuses(MM, (a, b), {"out": frozen}, "TC0507", "out= for C is read-only", place=C_SPAN)
    refuses(
        MM,
        (a, b),
        {"out": jnp.zeros((3, 5))},
        "TC0507",
        "JAX array, which is immutable",
        help="leave out= away",
        place=C_SPAN,
    )
    wide = np.lib.stride_tricks.as_strided(zeros(5), (3, 5), (0, 4))
    refuses(MM, (a, b), {"out": wide}, "TC0507", "share memory", place=C_SPAN)
    sliding = np.lib.stride_tricks.as_strided(zeros(20), (3, 5), (8, 4))
    refuses(MM, (a, b), {"out": sliding}, "TC0507", "share memory", place=C_SPAN)
    refuses(MM, (a, b), {"out": torch.zeros(1, 5).expand(3, 5)}, "TC0507", "share memory", place=C_SPAN)
    leaf = torch.zeros(3, 5, requires_grad=True)
    refuses(MM, (a, b), {"out": leaf}, "TC0509", "out= for C requires gradients", place=C_SPAN)
    interleaved = np.lib.stride_tricks.as_strided(zeros(40), (2, 2), (12, 8))
    assert MM.bind((a, b), {"out": interleaved}).out["C"].array is not None


def test_type_and_rank_of_buffers() -> None:
    a, b = zeros(3, 4), zeros(4, 5)
    wrong = zeros(3, 5, dtype=np.float64)
    refuses(
        MM,
        (a, b),
        {"out": wrong},
        "TC0411",
        "out= for C: expected float32, found float64",
        place=C_SPAN,
        kind=DTypeError,
    )
    refuses(
        MM,
        (a, b),
        {"out": zeros(15)},
        "TC0503",
        "out= for C: expected 2 dimensions, got 1 dimension",
        place=C_SPAN,
    )
    refuses(MM, (a, b), {"out": 3}, "TC0505", "out= for C is not an array but an int", place=C_SPAN)


def test_shapes_of_buffers() -> None:
    bound = MM.bind((zeros(3, 4), zeros(4, 5)), {"out": zeros(5, 3)})
    with pytest.raises(ArgumentError) as caught:
        bound.check_outputs({"C": (3, 5)})
    assert caught.value.code == "TC0504"
    assert caught.value.message == "out= for C has shape (5, 3), but the result has shape (3, 5)"
    assert caught.value.span == C_SPAN
    MM.bind((zeros(3, 4), zeros(4, 5)), {"out": zeros(3, 5)}).check_outputs({"C": (3, 5)})
    MM.bind((zeros(3, 4), zeros(4, 5)), {}).check_outputs({"C": (3, 5)})
    PAIR.bind((zeros(3),), {"out": {"first": zeros(3)}}).check_outputs({"first": (3,), "second": (3,)})


# ---- TC0508: overlap


def test_exact_aliases_are_reported() -> None:
    square, other = zeros(4, 4), zeros(4, 4)
    assert MM.bind((square, other), {"out": square}).aliases == {("C", "A")}
    assert MM.bind((square, square), {"out": square}).aliases == {("C", "A"), ("C", "B")}
    assert MM.bind((square, other), {"out": square[:]}).aliases == {("C", "A")}
    tensor = torch.zeros(4, 4)
    assert MM.bind((tensor, other), {"out": tensor.detach()}).aliases == {("C", "A")}
    assert MM.bind((tensor, other), {"out": tensor.numpy()}).aliases == {("C", "A")}
    x = zeros(3)
    assert INOUT.bind((x,), {"out": x}).aliases == {("C", "X")}
    empty = zeros(0, 4)
    assert MM.bind((empty, other), {"out": empty}).aliases == frozenset()


def test_partial_overlaps_are_refused() -> None:
    memory = zeros(100)
    a = memory[:16].reshape(4, 4)
    for out in (memory[15:31].reshape(4, 4), a.T, a[::-1], memory[:16:2].reshape(2, 4)):
        refuses(
            MM,
            (a, zeros(4, 4)),
            {"out": out},
            "TC0508",
            "out= for C overlaps the input A in part",
            help="A itself",
            place=C_SPAN,
        )
    even, odd = memory[0:32:2].reshape(4, 4), memory[1:33:2].reshape(4, 4)
    assert MM.bind((even, even), {"out": odd}).aliases == frozenset()
    x = zeros(3)
    reinterpreted = Signature("f", (Param("X", INT32, ("N",)),), (Output("C", 1, FLOAT32),))
    refuses(reinterpreted, (x.view(np.int32),), {"out": x}, "TC0508", "overlaps the input X")


def test_buffers_that_meet_are_refused() -> None:
    two = Signature("f", (Param("X", FLOAT32, ("N",)),), (Output("a", 1, FLOAT32), Output("b", 1, FLOAT32)))
    x, memory = zeros(3), zeros(8)
    refuses(two, (x,), {"out": (memory[:3], memory[:3])}, "TC0508", "out= for b and a share memory")
    refuses(two, (x,), {"out": (memory[:3], memory[2:5])}, "TC0508", "out= for b and a share memory")
    assert two.bind((x,), {"out": (memory[:3], memory[3:6])}).aliases == frozenset()


def test_a_parameter_called_out_goes_by_position() -> None:
    odd = Signature("f", (Param("out", FLOAT32, ("N",)),), (Output("C", 1, FLOAT32),))
    x, c = zeros(3), zeros(3)
    bound = odd.bind((x,), {"out": c})
    assert bound.arrays["out"].owner is x
    assert bound.out["C"].owner is c


def test_nothing_is_written_by_a_refused_call() -> None:
    out = np.full((3, 5), 7, np.float32)
    for args in ((zeros(3, 4), zeros(3, 5)), (zeros(3), zeros(4, 5)), (zeros(3, 4),)):
        with pytest.raises(ArgumentError):
            MM.bind(args, {"out": out})
    assert (out == 7).all()
