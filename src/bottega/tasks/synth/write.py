"""From a graph to the source of a task, in one author's style."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from random import Random
from typing import Any

from bottega.tasks.synth.contents import CONTENTS
from bottega.tasks.synth.graph import OperatorGraph, OperatorNode
from bottega.tasks.synth.names import NamePool
from bottega.tasks.synth.operator import FIELD, OPERANDS, Form
from bottega.tasks.synth.source_file import SourceFile, docstring, literal
from bottega.tasks.synth.style import Style
from bottega.tasks.synth.value import Size

_ATOM = re.compile(r"[\w.]+(\[[^\[\]]*\])?|[\w.]+\([^()]*\)|self\.\w+\(.*\)")
_LONGEST_INLINE = 72
_DEFAULTS = {"True": True, "False": False}
_HINTS = {
    "convolutions": ("out", "y", "features", "h"),
    "matmul": ("out", "y", "h", "z"),
    "norms": ("normed", "h", "out"),
    "reductions": ("pooled", "s", "out"),
    "activations": ("activated", "h", "a", "out"),
}


@dataclass
class _Writing:
    """What is known while a body is being written."""

    texts: dict[int, str] = field(default_factory=dict)
    """By node: the variable that holds it, or the expression it was inlined as."""
    holders: dict[str, int] = field(default_factory=dict)
    """By variable: the node that it holds."""
    done: set[int] = field(default_factory=set)
    lines: list[str] = field(default_factory=list)


class ModuleWriter:
    def __init__(self, graph: OperatorGraph, style: Style, rng: Random):
        self.graph, self.style, self.rng = graph, style, rng
        self.names = NamePool(rng)
        self.forms: dict[int, Form] = {}
        self.attributes: dict[tuple[int, str], str] = {}
        self.arguments: dict[str, Any] = {}
        """Constructor's arguments in order, with their values."""
        self.stored: dict[str, str] = {}
        """Attributes that only keep an argument for `forward`."""
        self.init: list[str] = []
        self.file = SourceFile(style)
        self.users: dict[int, list[int]] = {}
        for place, node in enumerate(graph.nodes):
            for operand in node.operands:
                self.users.setdefault(operand, []).append(place)

    def source(self) -> str:
        nodes = self.graph.nodes
        for place, node in enumerate(nodes):
            if node.operator is not None:
                self.forms[place] = self._form(node)
        inputs = [place for place, node in enumerate(nodes) if node.operator is None]
        arguments = self._input_names(inputs)
        self._constructor()
        body = self._body(dict(zip(inputs, arguments)))
        if self.graph.draw.dtype != "float32" and any("self." in line for line in self.init):
            half = self.graph.draw.dtype == "float16" and self.rng.random() < 0.5
            self.init.append("self.half()" if half else f"self.to(torch.{self.graph.draw.dtype})")
        constants = dict(self.arguments) if self.style.constants != "inline" else {}
        drawn = [self._drawn(nodes[place], constants) for place in inputs]
        return self.file.assemble(
            doc=docstring(
                self.style, self.rng, [node.operator.label for node in nodes if node.operator is not None], self.arguments
            ),
            init=self.init,
            arguments=self.arguments,
            forward=arguments,
            body=body,
            constants=constants,
            inputs=list(zip(arguments, drawn)),
        )

    def _form(self, node: OperatorNode) -> Form:
        assert node.operator is not None
        options = node.operator.forms
        return self.rng.choices(options, [self.style.forms[form.kind] for form in options])[0]

    def _input_names(self, inputs: list[int]) -> list[str]:
        first = (
            self.style.main
            if self.graph.nodes[inputs[0]].value.dtype != "int64"
            else self.rng.choice(("x", "tokens", "indices", "ids"))
        )
        if (
            self.graph.nodes[inputs[0]].value.layout == "matrix"
            and len(inputs) > 1
            and self.graph.nodes[inputs[1]].name in ("B",)
        ):
            first = "A"
        elif len(inputs) > 2 and self.graph.nodes[inputs[1]].name == "key":
            first = "query"
        elif len(inputs) > 1 and self.graph.nodes[inputs[1]].name == "targets":
            first = self.rng.choice(("predictions", "logits", "pred", "x"))
        names = [self.names.variable(first)]
        for place in inputs[1:]:
            names.append(self.names.variable(self.graph.nodes[place].name))
        return names

    # Constructor

    def _constructor(self) -> None:
        for place, form in self.forms.items():
            for hint, template in form.attributes:
                name = self.names.attribute(hint)
                self.attributes[place, hint] = name
                expression = self._fill(template.removeprefix("buffer:"), place, {}, in_forward=False)
                if template.startswith("buffer:"):
                    self.init.append(f'self.register_buffer("{name}", {expression})')
                else:
                    self.init.append(f"self.{name} = {expression}")
        if self.style.sequential:
            self._join_modules()

    def _join_modules(self) -> None:
        """A run of modules, each called on the one before, becomes one `nn.Sequential`."""
        run: list[int] = []
        for place in [*self.forms, -1]:
            follows = (
                place >= 0
                and self.forms[place].is_module
                and (not run or (self.graph.nodes[place].operands == (run[-1],) and self.users.get(run[-1]) == [place]))
            )
            if follows:
                run.append(place)
                continue
            if len(run) > 1:
                break
            run = [place] if place >= 0 and self.forms[place].is_module else []
        if len(run) < 2:
            return
        names = [self.attributes[place, self.forms[place].attributes[0][0]] for place in run]
        made = [line for line in self.init if any(line.startswith(f"self.{name} = ") for name in names)]
        joined = self.names.attribute("layers")
        self.init = [line for line in self.init if line not in made]
        self.init.append(
            f"self.{joined} = nn.Sequential(\n" + "".join(f"    {line.split(' = ', 1)[1]},\n" for line in made) + ")"
        )
        for place, name in zip(run, names):
            self.attributes[place, self.forms[place].attributes[0][0]] = ""
            del name
        self.attributes[run[-1], self.forms[run[-1]].attributes[0][0]] = joined

    # Templates

    def _fill(self, template: str, place: int, temps: dict[str, str], in_forward: bool) -> str:
        node = self.graph.nodes[place]

        def replace(match: re.Match[str]) -> str:
            text = match.group(1)
            if text.startswith("@"):
                return f"self.{self.attributes[place, text[1:]]}"
            if text.startswith("="):
                if text not in temps:
                    temps[text] = self.names.variable(text[1:])
                return temps[text]
            if text.startswith(", "):
                key, _, default = text[2:].partition("=")
                value = node.p.get(key, _value(default))
                if value == _value(default) and not (self.style.verbose and key in node.p):
                    return ""
                return f", {key}={self._parameter(node, key, value, in_forward)}"
            return self._parameter(node, text, node.p[text], in_forward)

        return FIELD.sub(replace, template)

    def _parameter(self, node: OperatorNode, key: str, value: Any, in_forward: bool) -> str:
        assert node.operator is not None
        if isinstance(value, str):
            return value
        if isinstance(value, tuple) and any(isinstance(item, Size) for item in value):
            if self.style.arguments == "all" and key.endswith("_shape") and self.rng.random() < 0.5:
                return self._argument(key, tuple(int(item) for item in value), in_forward)
            items = [self._parameter(node, getattr(item, "name", ""), item, in_forward) for item in value]
            return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
        if isinstance(value, Size):
            if self.style.arguments == "none" or key in node.operator.literal:
                return str(int(value))
            return self._argument(value.name, int(value), in_forward)
        if not key or key in node.operator.literal or self.style.arguments != "all" or isinstance(value, bool):
            return literal(value)
        return self._argument("axis" if key == "dim" else key, value, in_forward)

    def _argument(self, key: str, value: Any, in_forward: bool) -> str:
        name = self.names.of(key)
        number = 2
        while self.arguments.get(name, value) != value:
            name = self.names.of(f"{key}{number}")
            number += 1
        self.arguments.setdefault(name, value)
        if not in_forward:
            return name
        if name not in self.stored:
            self.stored[name] = self.names.kept(name)
            self.init.append(f"self.{self.stored[name]} = {name}")
        return f"self.{self.stored[name]}"

    # Forward

    def _body(self, inputs: dict[int, str]) -> list[str]:
        w = _Writing(texts=dict(inputs), holders={name: place for place, name in inputs.items()}, done=set(inputs))
        last = max(self.forms)
        for place, form in self.forms.items():
            if form.is_module and not self.attributes[place, form.attributes[0][0]]:
                w.texts[place] = w.texts[self.graph.nodes[place].operands[0]]  # inside a Sequential that a later node calls
                w.done.add(place)
                continue
            self._statement(w, place, form, last)
        return w.lines

    def _statement(self, w: _Writing, place: int, form: Form, last: int) -> None:
        node = self.graph.nodes[place]
        temps: dict[str, str] = {}
        operands = {f"{{{letter}}}": w.texts[operand] for letter, operand in zip(OPERANDS, node.operands)}
        lines = []
        for line in form.lines:
            text = _substitute(line, operands)
            lines.append(self._fill(text, place, temps, in_forward=True))
        *before, expression = lines
        expression = self._spelled(expression)
        comment = self.file.comment(node, self.rng)
        w.lines += [self._spelled(line) for line in before]
        w.done.add(place)
        if place == last:
            if comment:
                w.lines.insert(len(w.lines) - len(before), comment)
            if self.rng.random() < 0.25 and not expression.isidentifier():
                name = self._target(w, place)
                w.lines += [f"{name} = {expression}", f"return {name}"]
            else:
                w.lines.append(f"return {expression}")
        elif not before and self._may_inline(place, expression):
            w.texts[place] = expression
        else:
            if comment:
                w.lines.insert(len(w.lines) - len(before), comment)
            name = self._target(w, place)
            if name != expression:
                w.lines.append(f"{name} = {expression}{self.file.shape_note(node)}")
            w.texts[place], w.holders[name] = name, place

    def _may_inline(self, place: int, expression: str) -> bool:
        users = self.users.get(place, [])
        if len(users) != 1 or len(expression) > _LONGEST_INLINE or self.rng.random() > self.style.inline:
            return False
        form = self.forms[users[0]]
        letter = OPERANDS[self.graph.nodes[users[0]].operands.index(place)]
        return form.uses(letter) == 1 and len(form.lines) == 1 and users[0] == place + 1

    def _target(self, w: _Writing, place: int) -> str:
        """The variable for a new value: the old one's name where nobody needs the old one any more."""
        source = self.graph.nodes[place].operands[0]
        while self.graph.nodes[source].operator is not None and w.texts[source] not in w.holders:
            source = self.graph.nodes[source].operands[0]
        name = w.texts[source]
        if name in w.holders and self.rng.random() < self.style.reuse:
            needed = any(user not in w.done for user in self.users.get(w.holders[name], []))
            if not needed:
                return name
            if self.style.alias and self.graph.structure == "residual":
                kept = self.names.variable(self.rng.choice(("residual", "identity", "shortcut", "skip")))
                w.lines.append(f"{kept} = {name}")
                w.texts[w.holders[name]] = kept
                w.holders[kept] = w.holders[name]
                return name
        operator = self.graph.nodes[place].operator
        assert operator is not None
        return self.names.variable(self.rng.choice(_HINTS.get(operator.family, ("out", "y", "h", "z"))))

    def _spelled(self, line: str) -> str:
        if self.style.functional != "F":
            line = re.sub(r"\bF\.", f"{self.style.functional}.", line)
        return line

    # Inputs

    def _drawn(self, node: OperatorNode, constants: dict[str, Any]) -> str:
        template = self.rng.choice(CONTENTS[node.contents].writes)
        sizes = [self._length(length, constants) for length in node.value.shape]
        shape = ", ".join(sizes) or "()"
        dtype = "" if node.value.dtype in ("float32", "int64", "bool") else f", dtype=torch.{node.value.dtype}"
        text = (
            template.replace("{dtype}", dtype)
            .replace("({shape},)", f"({shape}{',' if len(sizes) == 1 else ''})")
            .replace("{shape}", shape)
        )
        if node.limit is not None:
            text = text.replace("{limit}", self._limit(node.limit, constants))
        return text

    def _length(self, length: int, constants: dict[str, Any]) -> str:
        if self.style.constants == "inline" or not isinstance(length, Size):
            return str(int(length))
        name = self.names.of(length.name)
        constants.setdefault(name, int(length))
        return name if constants[name] == int(length) else str(int(length))

    def _limit(self, limit: int, constants: dict[str, Any]) -> str:
        if self.style.constants != "inline":
            for name, value in constants.items():
                if (
                    value == limit
                    and name in self.names.chosen.values()
                    and any(word in name for word in ("num", "classes", "bins", "features", "cols", "vocab", "dim"))
                ):
                    return name
        return str(limit)


def _value(text: str) -> Any:
    return _DEFAULTS.get(text, int(text) if text.lstrip("-").isdigit() else text)


def _substitute(line: str, operands: dict[str, str]) -> str:
    """Operands in their places, in brackets where the surroundings would tear them apart."""
    for mark, text in operands.items():
        pieces = line.split(mark)
        joined = pieces[0]
        for following in pieces[1:]:
            before, after = joined[-1:], following[:1]
            enclosed = before in ("", "(", "[") or joined.endswith(", ")
            safe = enclosed and after in ("", ")", "]", ",")
            joined += (text if safe or _ATOM.fullmatch(text) else f"({text})") + following
        line = joined
    return line
