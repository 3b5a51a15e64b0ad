"""Expressions as C text: operators where C has them, functions of the prelude otherwise, locals for what is used twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from bottega.compiler.backends.cpp.function_writer import FunctionWriter
from bottega.compiler.backends.cpp.prelude import VECTORS
from bottega.compiler.backends.cpp.scalar import E4M3, compute_type, floating, literal, memory_type, promoted
from bottega.compiler.build_step import Refusal
from bottega.compiler.expression import (
    BITS,
    TRUTHS,
    Apply,
    Cast,
    Constant,
    Expression,
    Gather,
    Index,
    Load,
    Name,
    children,
    walk,
)
from bottega.compiler.view import View

SIMD_FUNCTIONS = "simd_functions"
_OPERATORS = {
    "or": ("||", 1), "and": ("&&", 2), "eq": ("==", 3), "ne": ("!=", 3), "lt": ("<", 4), "le": ("<=", 4), "gt": (">", 4),
    "ge": (">=", 4), "add": ("+", 6), "sub": ("-", 6), "mul": ("*", 7), "div": ("/", 7),
}  # fmt: skip
_KEEP_TYPE = frozenset(
    [
        "neg",
        "abs",
        "add",
        "sub",
        "mul",
        "maximum",
        "minimum",
        "fmod",
        "remainder",
        "floor_divide",
        "relu",
        "sign",
        "square",
        *BITS,
    ]
)
_BITS = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^", "bitwise_left_shift": "<<", "bitwise_right_shift": ">>"}
_ROUNDING = frozenset(["floor", "ceil", "round", "trunc"])
_LIBRARY = {"round": "nearbyint", "abs": "fabs"}
LOCALS = ("v", "w", "u", "t", "s", "q")
_LONG = 84
TERNARY, UNARY, PRIMARY = 0, 8, 9
Place = Callable[[View, tuple[tuple[int, str, int], ...]], str]
"""The element's index text of a view; the triples are (stride, index text, size) of computed dimensions."""


def _always_there(body: Expression) -> Iterator[Load]:
    """Elements that a mask chooses among, or that what it chooses is computed of. Loaded before the choice they are a vector; loaded after it they
    are a branch for each. Where the choice is by place, the element need not exist."""
    for node in walk(body):
        if isinstance(node, Apply) and node.function == "where" and not _by_place(node):
            yield from (load for arm in node.arguments[1:] for load in _loaded(arm, set()))


def _by_place(choice: Apply) -> bool:
    return any(isinstance(node, Index) for node in walk(choice.arguments[0]))


def _loaded(node: Expression, seen: set[Expression]) -> Iterator[Load]:
    if node in seen:
        return
    seen.add(node)
    if isinstance(node, Load):
        yield node
    elif not isinstance(node, Gather) and not (isinstance(node, Apply) and node.function == "where" and _by_place(node)):
        yield from (load for child in children(node) for load in _loaded(child, seen))


class CppEmitter:
    """Writes the bodies of one scope. `names` are what the kernel has computed: text and type."""

    def __init__(
        self,
        function: FunctionWriter,
        place: Place,
        names: dict[str, tuple[str, str]],
        indices: dict[int, str] | None = None,
        known: dict[Expression, tuple[str, str]] | None = None,
    ) -> None:
        self.function = function
        self.place = place
        self.names = names
        self.indices = indices or {}
        self.known = dict(known or {})
        """Nodes that have a variable already: its name and type."""

    # ---------------------------------------------------------------- types

    def kind(self, node: Expression, told: dict[Expression, str] | None = None) -> str:
        """What the value of a node is computed in. `told`: of the parts that were looked at on the way."""
        if node in self.known:
            return self.known[node][1]
        if isinstance(node, Load | Gather):
            return compute_type(node.dtype)
        if isinstance(node, Constant):
            return "bool" if isinstance(node.value, bool) else "int64_t" if isinstance(node.value, int) else "float"
        if isinstance(node, Index):
            return "int64_t"
        if isinstance(node, Name):
            if node.name not in self.names:
                raise Refusal(f"{self.function.name}: {node.name} is not computed here")
            return self.names[node.name][1]
        if isinstance(node, Cast):
            return compute_type(node.dtype)
        if node.function in TRUTHS:
            return "bool"
        told = {} if told is None else told
        if node not in told:
            told[node] = self._of_arguments(node, told)
        return told[node]

    def _of_arguments(self, node: Apply, told: dict[Expression, str]) -> str:
        if node.function == "where":
            return self._joint(node.arguments[1:], told)
        joint = self._joint(node.arguments, told)
        if node.function in _KEEP_TYPE or (node.function == "pow" and joint == "int64_t") or node.function in _ROUNDING:
            return promoted(joint, "int64_t")
        return floating(joint)

    def _joint(self, nodes: Sequence[Expression], told: dict[Expression, str]) -> str:
        kinds = [self.kind(node, told) for node in nodes if not isinstance(node, Constant)]
        loose = [self.kind(node, told) for node in nodes if isinstance(node, Constant)]
        if not kinds:
            return promoted(*loose)
        joint = promoted(*kinds)
        # A plain number never widens a float: torch keeps the tensor's type.
        return joint if joint in ("float", "double") or not loose else promoted(joint, *loose)

    # ---------------------------------------------------------------- text

    def statements(self, bodies: list[Expression], wanted: list[str]) -> tuple[list[str], list[str]]:
        """Locals for what the bodies share or what is long, and the text of each body at its wanted compute type."""
        lines: list[str] = []
        uses = Counter[Expression]()
        for body in bodies:
            uses[body] += 1
        for node in {node for body in bodies for node in walk(body)}:
            uses.update(children(node))
        chosen = set() if self.function.on_gpu else {load for body in bodies for load in _always_there(body)}
        for body in bodies:
            for node in walk(body):
                if node in self.known or isinstance(node, Constant | Name | Index):
                    continue
                long = isinstance(node, Apply) and node is not body and len(self.text(node)) > _LONG
                if not (uses[node] > 1 or node in chosen or long) or not self._reachable(node, bodies):
                    continue
                kind = self.kind(node)
                text = self.text(node)
                name = self.function.fresh(*LOCALS, "local")
                lines.append(f"const {kind} {name} = {text};")
                self.known[node] = (name, kind)
        return lines, [self.text(body, kind) for body, kind in zip(bodies, wanted)]

    def _reachable(self, node: Expression, bodies: list[Expression]) -> bool:
        """Whether a node still shows once what is known has become a name."""

        seen: set[Expression] = set()

        def shows(at: Expression) -> bool:
            if at == node:
                return True
            if at in seen:
                return False
            seen.add(at)
            return at not in self.known and any(shows(child) for child in children(at))

        return any(shows(body) for body in bodies)

    def text(self, node: Expression, wanted: str = "") -> str:
        return self._at(node, wanted or self.kind(node))[0]

    def _at(self, node: Expression, wanted: str) -> tuple[str, int]:
        """Text and precedence, converted to the wanted type where C would not do so by itself."""
        if isinstance(node, Constant) and node not in self.known:
            if node.text:
                return self.function.scalar(
                    node, "float" if wanted == "float" else "double" if wanted == "double" else "int64_t"
                ), PRIMARY
            text = literal(node.value, wanted)
            return text, UNARY if text.startswith("-") else PRIMARY
        text, level = self._plain(node)
        kind = self.kind(node)
        if kind in ("float", "double") and wanted == "int64_t":
            return f"int64_t({text})", PRIMARY
        if kind in ("float", "double", "int64_t") and wanted == "bool":
            return f"{_wrapped(text, level, 4)} != 0", 3
        return text, level

    def _plain(self, node: Expression) -> tuple[str, int]:
        if node in self.known:
            return self.known[node][0], PRIMARY
        if isinstance(node, Load):
            return self._element(node.view, node.dtype, ()), PRIMARY
        if isinstance(node, Gather):
            at, level = self._at(node.index, "int64_t")
            if level < PRIMARY:
                at = f"({at})"
            return self._element(node.view, node.dtype, ((node.axis_stride, at, node.size),)), PRIMARY
        if isinstance(node, Name):
            return self.names[node.name][0], PRIMARY
        if isinstance(node, Index):
            return self.indices[node.axis], PRIMARY
        if isinstance(node, Cast):
            return self._cast(node)
        if isinstance(node, Constant):
            return literal(node.value, self.kind(node)), PRIMARY
        return self._apply(node)

    def _element(self, view: View, dtype: str, computed: tuple[tuple[int, str, int], ...]) -> str:
        text = f"{self.function.pointer(view.buffer)}[{self.place(view, computed)}]"
        return self.converted(text, dtype)

    def converted(self, text: str, dtype: str) -> str:
        if dtype == "bfloat16":
            self.function.prelude.use("widen")
            return f"widen({text})"
        if dtype == "bool" and not self.function.on_gpu:
            return f"({text} != 0)"
        if dtype == "float16":
            return f"__half2float({text})" if self.function.on_gpu else f"float({text})"
        return self._eight_bits("from_e4m3", text) if dtype == E4M3 else text

    def _eight_bits(self, function: str, text: str) -> str:
        if self.function.on_gpu:
            raise Refusal("floats of eight bits are not written in CUDA")
        self.function.prelude.use(function)
        return f"{function}({text})"

    def stored(self, text: str, dtype: str) -> str:
        """What is assigned to an element in memory."""
        if dtype == "bfloat16":
            self.function.prelude.use("narrow")
            return f"narrow({text})"
        if dtype == "float16" and self.function.on_gpu:
            return f"__float2half({text})"
        if dtype == E4M3:
            return self._eight_bits("to_e4m3", text)
        memory = memory_type(dtype)
        return f"{memory}({text})" if memory in ("_Float16", "int32_t", "int16_t", "int8_t", "uint8_t") else text

    def _cast(self, node: Cast) -> tuple[str, int]:
        source, target = self.kind(node.argument), compute_type(node.dtype)
        if target == "bool":
            return self._at(node.argument, "bool")
        text, level = self._at(node.argument, source if not isinstance(node.argument, Constant) else target)
        if node.dtype == "bfloat16" and source in ("float", "double"):
            self.function.prelude.use("widen")
            self.function.prelude.use("narrow")
            return f"widen(narrow({text}))", PRIMARY
        if node.dtype == "float16" and source in ("float", "double"):
            if self.function.on_gpu:
                return f"__half2float(__float2half({text}))", PRIMARY
            return f"float(_Float16({text}))", PRIMARY
        if node.dtype == E4M3 and source in ("float", "double"):
            return self._eight_bits("from_e4m3", self._eight_bits("to_e4m3", text)), PRIMARY
        memory = memory_type(node.dtype)
        if memory in ("int32_t", "int16_t", "int8_t", "uint8_t") or source != target:
            return f"{memory if target == 'int64_t' else target}({text})", PRIMARY
        return text, level

    # ---------------------------------------------------------------- functions

    def _apply(self, node: Apply) -> tuple[str, int]:
        name, arguments = node.function, node.arguments
        if name in _OPERATORS:
            return self._operator(node)
        if name == "where":
            kind = self.kind(node)
            condition = _wrapped(*self._at(arguments[0], "bool"), 1)
            yes, no = (_wrapped(*self._at(argument, kind), 1) for argument in arguments[1:])
            return f"({condition} ? {yes} : {no})", PRIMARY
        if name in _BITS:
            first, second = (_wrapped(*self._at(argument, "int64_t"), UNARY) for argument in arguments)
            first = f"int64_t({first})" if isinstance(arguments[0], Constant) else first
            return f"({first} {_BITS[name]} {second})", PRIMARY
        if name == "not":
            return f"!{_wrapped(*self._at(arguments[0], 'bool'), UNARY)}", UNARY
        kind = self.kind(node)
        if name == "isnan":
            return (
                f"{'' if self.function.on_gpu else 'std::'}isnan({self._at(arguments[0], floating(self.kind(arguments[0])))[0]})",
                PRIMARY,
            )
        if name in _ROUNDING and kind == "int64_t":
            return self._at(arguments[0], kind)
        texts = [self._at(argument, kind) for argument in arguments]
        first, level = texts[0]
        if name == "neg":
            return f"-{_wrapped(first, level, PRIMARY if first.startswith('-') else UNARY)}", UNARY
        if name == "square" and _simple(first):
            return f"{first} * {first}", 7
        if name == "pow":
            return self._power(node, kind, texts)
        if name in ("rsqrt", "reciprocal"):
            one = literal(1, kind)
            if name == "rsqrt" and self.function.on_gpu:
                return f"{self.function.called('rsqrt', kind)}({first})", PRIMARY
            root = f"{one} / {self.function.called('sqrt', kind)}({first})"
            return (root if name == "rsqrt" else f"{one} / {_wrapped(first, level, UNARY)}"), 7
        if name in ("maximum", "minimum") and isinstance(arguments[0], Constant):
            texts.reverse()
        if name in ("relu", "maximum", "minimum", "square", "sign"):
            self.function.prelude.use(name, kind)
            return f"{name}({', '.join(text for text, _ in texts)})", PRIMARY
        if name in ("remainder", "floor_divide"):
            return self._modular(name, kind, texts)
        if kind == "float" and SIMD_FUNCTIONS in self.function.passes and name in VECTORS:
            name = "log1p_below_one" if name == "log1p" and _is_below_one(arguments[0]) else name
            self.function.prelude.use(VECTORS[name])
            return f"{VECTORS[name]}({first})", PRIMARY
        if name == "sigmoid":
            self.function.prelude.use(name, kind)
            return f"sigmoid({first})", PRIMARY
        if name == "fmod" and kind == "int64_t":
            return f"{_wrapped(*texts[0], 7)} % {_wrapped(*texts[1], UNARY)}", 7
        library = "abs" if name == "abs" and kind == "int64_t" else _LIBRARY.get(name, name)
        return f"{self.function.called(library, kind)}({', '.join(text for text, _ in texts)})", PRIMARY

    def _operator(self, node: Apply) -> tuple[str, int]:
        sign, level = _OPERATORS[node.function]
        left, right = node.arguments
        if node.function in ("and", "or"):
            kind = "bool"
        elif node.function in TRUTHS:
            kind = self._joint(node.arguments, {})
        else:
            kind = self.kind(node)
        first, second = self._at(left, kind), self._at(right, kind)
        if node.function == "div" and kind in ("float", "double") and promoted(self.kind(left), self.kind(right)) == "int64_t":
            first = (f"{kind}({first[0]})", PRIMARY)
        if node.function == "add" and second[0].startswith("-") and isinstance(right, Constant) and not right.text:
            return f"{_wrapped(*first, 6)} - {second[0][1:]}", 6
        text = f"{_wrapped(*first, level)} {sign} {_wrapped(*second, level + 1)}"
        return text, level

    def _power(self, node: Apply, kind: str, texts: list[tuple[str, int]]) -> tuple[str, int]:
        exponent = node.arguments[1]
        base, level = texts[0]
        if isinstance(exponent, Constant) and not exponent.text:
            value = exponent.value
            if value == 0.5:
                return f"{self.function.called('sqrt', kind)}({base})", PRIMARY
            if value == -0.5:
                return f"{literal(1, kind)} / {self.function.called('sqrt', kind)}({base})", 7
            if value == -1:
                return f"{literal(1, kind)} / {_wrapped(base, level, UNARY)}", 7
            if value in (2, 3, 4) and _simple(base):
                return " * ".join([base] * int(value)), 7
            if value == 2:
                self.function.prelude.use("square", kind)
                return f"square({base})", PRIMARY
        if kind == "int64_t":
            return f"int64_t({self.function.called('pow', 'double')}({texts[0][0]}, {texts[1][0]}))", PRIMARY
        return f"{self.function.called('pow', kind)}({texts[0][0]}, {texts[1][0]})", PRIMARY

    def _modular(self, name: str, kind: str, texts: list[tuple[str, int]]) -> tuple[str, int]:
        a, b = texts[0][0], texts[1][0]
        if kind == "int64_t":
            divide = "static inline int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }"
            self.function.prelude.add("floor_divide int64_t", divide)
            if name == "floor_divide":
                return f"floor_divide({a}, {b})", PRIMARY
            rest = "static inline int64_t remainder_of(int64_t a, int64_t b) { return a - floor_divide(a, b) * b; }"
            self.function.prelude.add("remainder int64_t", rest)
            return f"remainder_of({a}, {b})", PRIMARY
        self.function.prelude.use(name, kind)
        return f"{'remainder_of' if name == 'remainder' else name}({a}, {b})", PRIMARY


def _wrapped(text: str, level: int, least: int) -> str:
    return text if level >= least else f"({text})"


def _simple(text: str) -> bool:
    return text.replace("_", "").isalnum()


def _is_below_one(node: Expression) -> bool:
    """Whether it is exp(-|x|), as in a softplus."""
    for name in ("exp", "neg", "abs"):
        if not isinstance(node, Apply) or node.function != name:
            return False
        node = node.arguments[0]
    return True
