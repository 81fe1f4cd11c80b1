"""Calls of the interface with what it does not expect: only `tc.Error`s come out, or right results.

A call that would be right has one or two of its arguments spoilt: other types, ranks, strides, byte orders,
things that are no arrays, buffers that overlap or cannot be written, objects that lie about what they are.
"""

from __future__ import annotations

import array
import random
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import tc

Array = np.ndarray[Any, Any]
SOURCES: Mapping[str, str] = {
    "mm": "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }",
    "lut": "def lut(float(R,D) T, int(L) I, double s) -> (O) { O(d) +=! T(I(l),d) * s }",
    "inout": "def scale(float b, float(N,M) A) -> (C) { C(i,j) = b * C(i,j) + A(i,j) }",
    "shift": "def shift(int8(N) A, int k) -> (B) { B(i) = A(i+k) }",
}
_OUTS = {"mm": {"C": (3, 5)}, "lut": {"O": (4,)}, "inout": {"C": (3, 4)}, "shift": {"B": (7,)}}


class Liar:
    """Says that it is an array."""

    def __init__(self, interface: Any) -> None:
        self.__array_interface__ = interface


class Broken:
    """Fails where it is asked."""

    def __dlpack__(self, **how: Any) -> Any:
        raise RuntimeError("no memory")

    def __dlpack_device__(self) -> Any:
        raise ValueError("no device")


def arguments(name: str, rng: random.Random) -> dict[str, Any]:
    """Arguments that are right."""
    numbers = np.random.default_rng(rng.randrange(1 << 30))

    def floats(*shape: int) -> Array:
        return numbers.integers(-2, 3, shape).astype(np.float32)

    match name:
        case "mm":
            return {"A": floats(3, 4), "B": floats(4, 5)}
        case "lut":
            return {"T": floats(6, 4), "I": numbers.integers(0, 6, 5).astype(np.int32), "s": 2.0}
        case "inout":
            return {"b": 2.0, "A": floats(3, 4)}
        case _:
            return {"A": numbers.integers(-9, 9, 9).astype(np.int8), "k": 2}


def _strange(rng: random.Random) -> Any:
    """Something that is no array, or hardly one."""
    choices: tuple[Callable[[], Any], ...] = (
        lambda: None,
        lambda: "text",
        lambda: [1.0, [2.0]],
        dict,
        object,
        lambda: 3.5,
        lambda: True,
        lambda: 2**70,
        lambda: float("nan"),
        lambda: 1 + 2j,
        lambda: np.float32(1.5),
        lambda: np.array("text"),
        lambda: np.array([object(), None]),
        lambda: np.zeros(3, np.complex64),
        lambda: np.zeros(3, "datetime64[s]"),
        lambda: np.zeros((2, 2), [("a", "f4"), ("b", "i4")]),
        lambda: np.zeros((), np.float32),
        lambda: np.zeros((0, 4), np.float32),
        lambda: np.ma.masked_array([1.0, 2.0], [0, 1]),
        lambda: memoryview(b"12345678"),
        lambda: array.array("f", [1.0, 2.0, 3.0]),
        lambda: np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (1 << 40, 4), (0, 0)),
        lambda: Liar({"shape": (2, 2), "typestr": "<f4", "data": None, "version": 3}),
        lambda: Liar({"shape": (-1, 2), "typestr": "<f4", "data": (0, True), "version": 3}),
        lambda: Liar("nonsense"),
        Broken,
        lambda: (x for x in range(3)),
        lambda: np.zeros,
    )
    return rng.choice(choices)()


def _changed(v: Any, rng: random.Random) -> Any:
    """An argument that is nearly what it was."""
    if not isinstance(v, np.ndarray):
        return rng.choice((str(v), [v], np.asarray(v), np.array([v]), -v, v * 10**30, complex(v)))
    others = ("f2", "f4", "f8", ">f4", ">i4", "i1", "u1", "i2", "i4", "i8", "u8", "?", "c8")
    choices: tuple[Callable[[], Any], ...] = (
        lambda: v.astype(rng.choice(others)) if _small(v) else None,
        lambda: v[None],
        lambda: v[..., 0],
        lambda: v[1:],
        lambda: v[:0],
        lambda: v[::-1],
        lambda: v.T,
        lambda: np.asfortranarray(v) if _small(v) else v,
        lambda: np.broadcast_to(v[:1], v.shape),
        lambda: np.repeat(v, 2, -1)[..., ::2] if _small(v) else None,
        lambda: np.frombuffer(b"\0" + v.tobytes(), v.dtype, v.size, 1).reshape(v.shape) if _small(v) else 0,
        lambda: v.tolist() if _small(v) else [],
        lambda: memoryview(np.ascontiguousarray(v)) if _small(v) else b"",
        lambda: np.matrix(v) if v.ndim == 2 and _small(v) else v.reshape(-1, 1),
    )
    return rng.choice(choices)()


def _out(name: str, given: Mapping[str, Any], rng: random.Random) -> Any:
    """Something for `out=`."""
    ((result, shape),) = _OUTS[name].items()
    dtype = np.int8 if name == "shift" else np.float64 if name == "lut" and rng.random() < 0.5 else np.float32
    right = np.ones(shape, dtype)
    frozen = right.copy()
    frozen.flags.writeable = False
    some = [v for v in given.values() if isinstance(v, np.ndarray)]
    choices: tuple[Callable[[], Any], ...] = (
        lambda: right,
        lambda: {result: right},
        lambda: (right,),
        lambda: frozen,
        lambda: {"other": right},
        lambda: (right, right),
        lambda: right[..., :-1],
        lambda: np.broadcast_to(right[..., :1], shape),
        lambda: rng.choice(some) if some else None,
        lambda: np.lib.stride_tricks.as_strided(right, shape, (0,) * right.ndim),
        lambda: right.astype("f2"),
        lambda: _strange(rng),
        lambda: {result: _strange(rng)},
    )
    return rng.choice(choices)()


def spoilt(rng: random.Random) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    """The name of a program, and positional and named arguments."""
    name = rng.choice(tuple(SOURCES))
    given = arguments(name, rng)
    if name == "inout":
        given["out"] = {"C": np.ones((3, 4), np.float32)}
    for _ in range(rng.randint(1, 2)):
        at = rng.choice(tuple(given)) if given else ""
        match rng.choice(("strange", "changed", "changed", "missing", "unknown", "out", "positional")):
            case "strange" if at:
                given[at] = _strange(rng)
            case "changed" if at and at != "out":
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        given[at] = _changed(given[at], rng)
                    except (TypeError, ValueError, IndexError, OverflowError):
                        given[at] = _strange(rng)
            case "missing" if at:
                del given[at]
            case "unknown":
                given[rng.choice(("Z", "a", "out_", "sizes"))] = _strange(rng)
            case "positional":
                return name, (*(v for k, v in given.items() if k != "out"), _strange(rng)), {}
            case _:
                given["out"] = _out(name, given, rng)
    return name, (), given


def _small(v: Any) -> bool:
    return isinstance(v, np.ndarray) and v.nbytes < 1 << 20


def attempt(rng: random.Random, backend: str) -> str | None:
    """The code of the error of a spoilt call, or None where it was right, too.  Raises whatever else comes
    out, and AssertionError where results are wrong."""
    name, args, named = spoilt(rng)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        kernel = tc.compile(SOURCES[name], backend)
        # An out= that is an input, too, changes it.
        copies = {k: v.copy() if _small(v) else v for k, v in named.items() if k != "out"}
        try:
            got = kernel(*args, **named)
        except tc.InternalError:
            raise
        except MemoryError:  # sixteen terabytes of one row
            return "memory"
        except tc.Error as error:
            str(error)
            return error.code
        if name != "inout" and not args:
            try:
                wanted = tc.interpret(SOURCES[name], **copies)
            except tc.Error as error:
                raise AssertionError(f"{backend} took {name} {named}, interpret says {error}") from error
            _same(np.asarray(got), np.asarray(wanted), f"{name} {named}")
    return None


def _same(got: Any, wanted: Any, what: str) -> None:
    """Equal, or within rounding of sums in another order: arguments may be huge."""
    if wanted.dtype.kind != "f" or not wanted.size:
        np.testing.assert_array_equal(got, wanted, what)
        return
    largest = np.max(np.abs(wanted), initial=0, where=np.isfinite(wanted))
    within = 64 * float(np.finfo(wanted.dtype).eps) * float(largest)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=within, err_msg=what)


def compile_attempt(rng: random.Random) -> str | None:
    """The code of the error of a call of `tc.compile` with an argument spoilt."""
    values = (
        None,
        "",
        "cpu",
        "nonsense",
        3,
        -1,
        2.5,
        [],
        {},
        {"M": 3},
        {"M": -3},
        {"Q": 1},
        ("M",),
        "M",
        b"x",
        object(),
    )
    fields = ("backend", "entry", "sizes", "options", "checks", "lang", "dynamic")
    given: dict[str, Any] = {}
    for _ in range(rng.randint(1, 2)):
        value = rng.choice(values)
        if rng.random() < 0.3:
            value = {
                rng.choice(("tile", "isa", "fusion", "unroll", "pack", "machine", "vector", "tiles")): value
            }
        given[rng.choice(fields)] = value
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tc.compile(rng.choice(tuple(SOURCES.values())), **given)
        except tc.InternalError:
            raise
        except tc.Error as error:
            str(error)
            return error.code
    return None
