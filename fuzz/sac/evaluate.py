"""The evaluator of random SaC programs: NumPy, one index after another, integers without bound.

Programs with numbers that are not small, or an access out of bounds, are no good for a comparison: `Unfit`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fuzz.sac import tree as s

Array = np.ndarray[Any, Any]
STORED = {"int": np.int64, "long": np.int64, "double": np.float64, "bool": np.bool_}
MOST = 2**31 - 1
_STEPS = 40_000


class Unfit(Exception):
    """The program is not one to compare results of."""


class Evaluator:
    def __init__(self) -> None:
        self.steps = 0

    def program(self, p: s.Program) -> list[Array]:
        env = {n: np.asarray(a, STORED[p.types[n]]) for n, a in p.arguments.items()}
        if p.body is not None:
            return [self.exp(p.body, env)]
        return self.function(p.functions[-1], env)

    def function(self, f: s.Function, env: Mapping[str, Array]) -> list[Array]:
        inner = dict(env)
        for n, e in f.lets:
            inner[n] = self.exp(e, inner)
        return [self.exp(e, inner) for e in f.results]

    def exp(self, e: s.Node, env: Mapping[str, Array]) -> Array:
        self.steps += 1
        if self.steps > _STEPS:
            raise Unfit("it takes long")
        out = np.asarray(self._exp(e, env)).astype(STORED[e.type])
        if out.size and out.dtype != np.bool_ and not bool((np.abs(out) <= MOST).all()):
            raise Unfit("its numbers are not small")
        if e.shape != (-1,) and out.shape != e.shape:
            raise AssertionError(f"{e} has shape {out.shape}")
        return out

    def _exp(self, e: s.Node, env: Mapping[str, Array]) -> Any:
        match e:
            case s.Literal():
                return e.value
            case s.Name():
                return env[e.id]
            case s.Vector():
                found = [self.exp(x, env) for x in e.items]
                return np.stack(found) if found else np.zeros(0)
            case s.Unary():
                v = self.exp(e.operand, env)
                return ~v if e.op == "!" else -v
            case s.Binary():
                return binary(e.op, self.exp(e.left, env), self.exp(e.right, env))
            case s.Ternary():
                return self.exp(e.then if bool(self.exp(e.condition, env)) else e.otherwise, env)
            case s.Select():
                array = self.exp(e.array, env)
                found = [self.exp(x, env) for x in e.index]
                index = found[0].tolist() if found and found[0].ndim else [int(v) for v in found]
                if any(not 0 <= i < n for i, n in zip(index, array.shape, strict=False)):
                    raise Unfit("an index is out of bounds")
                return array[tuple(index)]
            case s.Call():
                args = [self.exp(a, env) for a in e.args]
                if e.function is not None:
                    names = [n for n, _ in e.function.params]
                    return self.function(e.function, dict(zip(names, args, strict=True)))[0]
                return prelude(e.name, args, e.type)
            case s.Comprehension():
                return self._comprehension(e, env)
            case s.WithLoop():
                return self._fold(e, env) if e.operator == "fold" else self._filled(e, env)
            case _:
                raise AssertionError(e)

    # ---- comprehensions and with-loops

    def box(self, p: s.Part, env: Mapping[str, Array]) -> list[tuple[int, int]]:
        low, high = (
            np.atleast_1d(self.exp(b.node, env)).tolist() if isinstance(b.node, s.Node) else None
            for b in (p.low, p.high)
        )
        lows = [x + p.low.strict for x in low] if low is not None else [a for a, _ in p.implied]
        ends = [x + (not p.high.strict) for x in high] if high is not None else [b for _, b in p.implied]
        return list(zip(lows, ends, strict=True))

    def at(self, p: s.Part, values: Sequence[int], body: s.Node, env: Mapping[str, Array]) -> Array:
        inner = dict(env)
        if p.vector:
            inner[p.vector] = np.array(values, np.int64)
        else:
            inner |= {n: np.asarray(v, np.int64) for n, v in zip(p.names, values, strict=True)}
        return self.exp(body, inner)

    def _comprehension(self, e: s.Comprehension, env: Mapping[str, Array]) -> Array:
        last, shape = e.parts[-1], list(e.shape)
        boxes = [self.box(p, env) for p in e.parts]
        if e.shape == (-1,):
            shape = [max(0, hi) for _, hi in boxes[-1]]
        assert last.body is not None
        for axis, (_, hi) in zip(_axes(last, e.axes), boxes[-1], strict=True):
            if max(0, hi) != shape[axis]:
                raise AssertionError(f"a frame of {hi} at axis {axis} of {shape}")
        out = np.zeros(shape, STORED[e.type])
        for index in indices(shape[: e.axes]):
            for p, box in zip(e.parts, boxes, strict=True):
                axes = _axes(p, e.axes)
                values = [index[a] for a in axes]
                if _holds(p, box, values) and p.body is not None:
                    made = self.at(p, values, p.body, env)
                    inner = tuple(i for a, i in enumerate(index) if a not in axes)
                    out[index] = made[inner]
                    break
        return out

    def _filled(self, e: s.WithLoop, env: Mapping[str, Array]) -> Array:
        boxes = [self.box(p, env) for p in e.parts]
        out = np.zeros(e.shape, STORED[e.type])
        first, *default = (self.exp(a, env) for a in e.args)
        if e.operator == "modarray":
            out[...] = first
        else:
            assert np.atleast_1d(first).tolist() == list(e.shape[: e.axes]), e
            if default:
                out[...] = default[0]
        for index in indices(e.shape[: e.axes]):
            for p, box in zip(e.parts, boxes, strict=True):
                if _holds(p, box, index):
                    if p.body is not None:
                        out[index] = self.at(p, index, p.body, env)
                    break
        return out

    def _fold(self, e: s.WithLoop, env: Mapping[str, Array]) -> Array:
        total = self.exp(e.args[0], env).astype(STORED[e.type])
        seen: set[tuple[int, ...]] = set()
        for p in e.parts:
            box = self.box(p, env)
            for index in itertools.product(*(range(lo, hi) for lo, hi in box)):
                if index not in seen and _holds(p, box, index):
                    seen.add(index)
                    body = p.body if p.body is not None else e.args[0]
                    total = combined(e.fold, total, self.at(p, index, body, env))
        return total


def indices(shape: Sequence[int]) -> Iterator[tuple[int, ...]]:
    return itertools.product(*map(range, shape))


def _axes(p: s.Part, axes: int) -> list[int]:
    """The axes of the frame that the variables of a part are."""
    if p.vector:
        return list(range(len(p.implied)))
    out: list[int] = []
    at = 0
    for x in p.slots:
        if x == "...":
            at += axes - (len(p.slots) - 1)
            continue
        if x != ".":
            out.append(at)
        at += 1
    return out


def _holds(p: s.Part, box: Sequence[tuple[int, int]], values: Sequence[int]) -> bool:
    for k, (x, (lo, hi)) in enumerate(zip(values, box, strict=True)):
        if not lo <= x < hi:
            return False
        if p.step and (x - lo) % p.step[k] >= (p.width[k] if p.width else 1):
            return False
    return True


def combined(op: str, a: Array, b: Array) -> Array:
    match op:
        case "&&":
            return np.asarray(a & b)
        case "||":
            return np.asarray(a | b)
        case "+" | "add":
            return np.asarray(a + b)
        case "*":
            return np.asarray(a * b)
        case _:
            return np.asarray((np.minimum if op == "min" else np.maximum)(a, b))


def binary(op: str, a: Array, b: Array) -> Any:
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "/" if a.dtype.kind == "f" or b.dtype.kind == "f":
            return a / b
        case "/":
            return np.sign(a) * np.sign(b) * (np.abs(a) // np.where(b == 0, 1, np.abs(b)))
        case "%":
            return np.where(b == 0, 0, np.sign(a) * (np.abs(a) % np.where(b == 0, 1, np.abs(b))))
        case "&&":
            return a & b
        case "||":
            return a | b
        case "++":
            return np.concatenate([a, b])
        case "==":
            return a == b
        case "!=":
            return a != b
        case "<":
            return a < b
        case ">":
            return a > b
        case "<=":
            return a <= b
        case _:
            return a >= b


def _neutral(name: str, type: str) -> Any:
    if type == "double":
        raise Unfit("it has an infinity")
    ends = {"int": (-(2**31), 2**31 - 1)}.get(type)
    if ends is None:
        raise Unfit("its numbers are not small")
    return ends[name == "minval"]


def prelude(name: str, args: Sequence[Array], type: str) -> Any:
    a = args[0]
    match name:
        case "shape":
            return np.array(a.shape, np.int64)
        case "dim":
            return a.ndim
        case "sum":
            return a.astype(STORED[type]).sum()
        case "prod":
            return a.astype(STORED[type]).prod()
        case "minval" | "maxval":
            return (a.min() if name == "minval" else a.max()) if a.size else _neutral(name, type)
        case "all" | "any":
            return a.all() if name == "all" else a.any()
        case "abs":
            return np.abs(a)
        case "min" | "max":
            return (np.minimum if name == "min" else np.maximum)(a, args[1])
        case "mod":
            return np.where(args[1] == 0, 0, a % np.where(args[1] == 0, 1, args[1]))
        case "where":
            return np.where(a, args[1], args[2])
        case "toi" | "tol" | "tod":
            return np.trunc(a) if a.dtype.kind == "f" else a
        case "iota":
            return np.arange(int(a))
        case "genarray":
            return np.broadcast_to(args[1], (*a.tolist(), *args[1].shape))
        case "reshape":
            return args[1].reshape(a.tolist())
        case "reverse":
            return a[::-1]
        case "rotate":
            return np.roll(args[1], int(a), 0)
        case "shift":
            return _shifted(int(a), args[1])
        case "transpose":
            return a.transpose()
        case "tile":
            return args[2][tuple(slice(o, o + n) for n, o in zip(a.tolist(), args[1].tolist(), strict=True))]
        case "take" | "drop":
            return _parts(name == "take", np.atleast_1d(a).tolist(), args[1])
        case "sel":
            index = tuple(np.atleast_1d(a).tolist())
            if any(not 0 <= i < n for i, n in zip(index, args[1].shape, strict=False)):
                raise Unfit("an index is out of bounds")
            return args[1][index]
        case _:
            raise AssertionError(name)


def _shifted(n: int, a: Array) -> Array:
    out = np.zeros_like(a)
    for i in range(a.shape[0]):
        if 0 <= i - n < a.shape[0]:
            out[i] = a[i - n]
    return out


def _parts(takes: bool, counts: Sequence[int], a: Array) -> Array:
    at: list[slice] = []
    for n, extent in zip(counts, a.shape, strict=False):
        if takes:
            at.append(slice(0, n) if n >= 0 else slice(extent + n, extent))
        else:
            at.append(slice(min(n, extent), extent) if n >= 0 else slice(0, max(0, extent + n)))
    return a[tuple(at)]
