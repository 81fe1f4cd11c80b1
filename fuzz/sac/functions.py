"""Functions of random SaC programs: calls, overloads that a call must not take, and whole programs."""

from __future__ import annotations

from fuzz.sac import tree as s
from fuzz.sac.scope import Context, Names, Scope


class Functions(Names):
    functions: list[s.Function]

    def called(self, shape: s.Shape, type: str, c: Context, depth: int) -> s.Node:
        """A call of a new function, whose parameters are what its body asked for."""
        if len(self.scopes) > 3 or self.bare:
            return self.leaf(shape, type, c)  # type: ignore[attr-defined]
        self.scopes.append(Scope(self.fresh("p") + "_", True))
        lets, inner = self.lets(depth - 1)
        body = self.array(shape, type, inner, depth - 1)  # type: ignore[attr-defined]
        scope = self.scopes.pop()
        params = list(scope.params.values())
        name = self.fresh("f")
        if not params:
            params = [s.Name((), "int", name + "_0")]
        written = tuple((p.id, self.declared(p.shape, p.type)) for p in params)
        f = s.Function(
            name, written, lets, (body,), (self.declared(shape, type),), self._decoys(name, params, written)
        )
        self.functions.append(f)
        args = tuple(self.array(p.shape, p.type, c, depth - 2) for p in params)  # type: ignore[attr-defined]
        return s.Call(shape, type, name, args, f)

    def lets(self, depth: int) -> tuple[tuple[tuple[str, s.Node], ...], Context]:
        context = Context()
        out: list[tuple[str, s.Node]] = []
        for _ in range(self.rng.choice((0, 0, 1, 2))):
            type = self.rng.choice(("int", "double", "bool"))
            shape = self.shape(most=3)  # type: ignore[attr-defined]
            e = self.array(shape, type, context, depth)  # type: ignore[attr-defined]
            name = out[-1][0] if out and self.chance(0.2) else self.fresh("x")
            out.append((name, e))
            context = context.naming(s.Name(shape, type, name))
        return tuple(out), context

    def declared(self, shape: s.Shape, type: str) -> str:
        """A type that a value of this shape has."""
        if not shape:
            return type if self.chance(0.8) else f"{type}[*]"
        dims = [self.rng.choice((".", ".", str(n))) for n in shape]
        return f"{type}[{self.rng.choice(('*', '+', ','.join(dims), ','.join(dims)))}]"

    def _decoys(
        self, name: str, params: list[s.Name], written: tuple[tuple[str, str], ...]
    ) -> tuple[str, ...]:
        """Overloads that are more general, or that do not fit."""
        out: list[str] = []
        if self.chance(0.4) and not any("*" in t or "+" in t for _, t in written):
            general = ", ".join(f"{p.type}[*] {p.id}" for p in params)
            out.append(f"int {name}({general}) {{ return -77; }}")
        if self.chance(0.4):
            longer = ", ".join(f"{p.type}[{','.join('.' * (len(p.shape) + 1))}] {p.id}" for p in params)
            out.append(f"int {name}({longer}) {{ return -78; }}")
        return tuple(out)

    def whole(self, shape: s.Shape, type: str, depth: int) -> s.Program:
        self.functions = []
        self.bare = self.chance(0.4)
        if self.bare:
            body = self.array(shape, type, Context(), depth)  # type: ignore[attr-defined]
            return self._finished((), body)
        lets, context = self.lets(depth)
        body = self.array(shape, type, context, depth)  # type: ignore[attr-defined]
        results = [body]
        if self.chance(0.15):
            results.append(self.array(self.shape(), "int", context, depth - 1))  # type: ignore[attr-defined]
        data = [p for p, _ in self.scope.data.values()]
        written = tuple((p.id, self.declared(p.shape, p.type)) for p in data)
        types = tuple(self.declared(e.shape, e.type) for e in results)
        main = s.Function("main", written, lets, tuple(results), types)
        return self._finished((*self.functions, main), None)

    def _finished(self, functions: tuple[s.Function, ...], body: s.Node | None) -> s.Program:
        used = self.scope.data.keys()
        if body is not None:
            used = {e.id for e in s.walk(body) if isinstance(e, s.Name)}
        values = {n: value for n, (_, value) in self.scope.data.items() if n in used}
        types = {n: p.type for n, (p, _) in self.scope.data.items() if n in used}
        return s.Program(functions, body, values, types)

    bare: bool = False
