"""What is costly and needed by several sweeps of a row is computed once and kept: in the result, or in a row of scratch."""

from __future__ import annotations

from bottega.compiler.backends.cpp.emit import CppEmitter
from bottega.compiler.backends.cpp.map import fixed
from bottega.compiler.backends.cpp.row_space import (
    COSTLY,
    COUNT,
    COUNT_LESS_ONE,
    SCRATCH_LIMIT,
    RowSpace,
)
from bottega.compiler.backends.cpp.space import LoopSpace
from bottega.compiler.expression import (
    Apply,
    Expression,
    Gather,
    Load,
    Name,
    walk,
)
from bottega.compiler.view import View

SLOW, COMMON = 8, 1
"""Steps of a polynomial or a division, and of anything else."""
FEW_LOADS = 2
"""Of a row that lies in the first cache; to store their sum and to load it again takes longer."""
DIVIDING = frozenset(("div", "sqrt", "rsqrt", "reciprocal"))


class RowCache:
    """What is costly and needed by several sweeps is computed in the first of them and kept: in the result, or in a row of scratch."""

    def __init__(self, space: RowSpace, emitter: CppEmitter, scratch: bool = True) -> None:
        self.space = space
        self.node = self._choice(emitter)
        self.kept = False
        self.pointer = ""
        store = space.element_stores[0] if len(space.element_stores) == 1 else None
        self.view: View | None = None
        self.scratch = False
        if self.node is None:
            return
        read = {
            node.view.buffer
            for reduction in space.reductions
            for node in walk(reduction.body)
            if isinstance(node, Load | Gather)
        }
        if store is not None and store.dtype == "float32" and store.view.buffer not in read:
            self.view, self.pointer = store.view, space.function.pointer(store.view.buffer, written=True)
        elif space.length <= SCRATCH_LIMIT and space.kept:
            self.view, self.pointer, self.scratch = space.position, space.function.fresh("kept", "row_values"), True
        else:
            self.node = None
        if self.scratch and not scratch:
            self.node = None

    def _choice(self, emitter: CppEmitter) -> Expression | None:
        """What saves most: its cost as often as a later sweep needs it. What is kept late is the longest, and was computed in all sweeps before."""
        bodies = [reduction.body for reduction in self.space.reductions]
        last = [store.body for store in self.space.element_stores]
        passes = [set(walk(body)) for body in bodies] + ([{n for b in last for n in walk(b)}] if last else [])
        found: list[tuple[bool, int, int, Expression]] = []
        for at, nodes in enumerate(passes):
            for node in nodes:
                again = sum(node in other for other in passes[at + 1 :])
                if not isinstance(node, Apply) or fixed(node, self.space.reduced) or not again:
                    continue
                parts = list(walk(node))
                if not any(isinstance(part, Load | Gather) for part in parts) or not self._knowable(node, at):
                    continue
                own = [part for part in parts if not fixed(part, self.space.reduced)]
                costly, slow = (
                    any(isinstance(part, Apply) and part.function in names for part in own) for names in (COSTLY, DIVIDING)
                )
                moving = [part for part in own if isinstance(part, Load | Gather)]
                if (costly or slow or len(moving) > FEW_LOADS) and self._kind(node, emitter) == "float":
                    found.append((costly, again * sum(map(_cost, own)), len(parts), node))
        return max(found, key=lambda item: item[:3])[3] if found else None

    def _kind(self, node: Expression, emitter: CppEmitter) -> str:
        names = {reduction.name: ("", "float") for reduction in self.space.reductions}
        return CppEmitter(self.space.function, emitter.place, {**self.space.names, **names}).kind(node)

    def _knowable(self, node: Expression, at: int) -> bool:
        earlier = {reduction.name for reduction in self.space.reductions[:at]} | {COUNT, COUNT_LESS_ONE}
        return all(part.name in earlier for part in walk(node) if isinstance(part, Name))

    def views_in(self, body: Expression) -> list[View]:
        return [self.view] if self.node is not None and self.view is not None and self.node in set(walk(body)) else []

    def enter(self, emitter: CppEmitter, inside: LoopSpace, body: Expression) -> None:
        if self.kept and self.node is not None and self.view is not None:
            emitter.known[self.node] = (f"{self.pointer}[{inside.place(self.view)}]", "float")

    def leave(
        self, emitter: CppEmitter, inside: LoopSpace, body: Expression, text: str, statements: list[str]
    ) -> tuple[str, list[str]]:
        """In the first sweep that computes it, it is also stored."""
        if self.kept or self.node is None or self.view is None or self.node not in set(walk(body)):
            return text, statements
        self.kept = True
        target = f"{self.pointer}[{inside.place(self.view)}]"
        if self.node in emitter.known:
            return text, [*statements, f"{target} = {emitter.known[self.node][0]};"]
        if body == self.node:
            return f"{target} = {text}", statements
        name = self.space.function.fresh("element", "each")
        statement = f"const float {name} = {target} = {emitter.text(self.node)};"
        emitter.known[self.node] = (name, "float")
        self.space.function.taken.discard(name)
        more, (again,) = emitter.statements([body], [emitter.kind(body)])
        return again, [*statements, statement, *more]

    def declaration(self) -> list[str]:
        if not self.scratch or not self.kept:
            return []
        size = self.space.names[COUNT][0].strip("()")
        memory = self.space.function.fresh("scratch", "memory")
        return [f"std::vector<float> {memory}({size});", f"float* {self.pointer} = {memory}.data();"]


def _cost(node: Expression) -> int:
    return (SLOW if node.function in COSTLY | DIVIDING else COMMON) if isinstance(node, Apply) else COMMON
