"""From a draft to the source of a task, in one author's style: which sizes have names, what variables are called, where constants stand."""

from __future__ import annotations

import ast
import inspect
import re
from random import Random
from typing import Any

from bottega.tasks.synth.compose import ModuleDraft
from bottega.tasks.synth.source_file import SourceFile, docstring
from bottega.tasks.synth.style import SYNONYMS, Style

DIMENSIONS: dict[str, tuple[str, ...]] = {
    "rows": ("features",), "labels": ("features",), "skinny": ("features",), "deep": ("features",), "tokens": ("seq_len",),
    "sequence": ("seq_len", "dim"), "steps": ("seq_len", "dim"), "embedded": ("seq_len", "dim"), "squares": ("rows", "cols"),
    "heads": ("num_heads", "seq_len", "head_dim"), "scores": ("seq_len", "head_dim"),
    "maps1": ("channels", "length"), "maps2": ("channels", "height", "width"), "maps3": ("channels", "depth", "height", "width"),
}  # fmt: skip
"""What the lengths of the first input are called, by its shape."""
LENGTHS = frozenset(
    "in_features out_features in_channels out_channels num_features num_channels embed_dim num_embeddings embedding_dim".split()  # noqa: SIM905
)
SHARED = ("channels", "features", "dim")
"""Lengths that a layer has too: they share its argument's name."""
_SHAPE = re.compile(r"batch_size(?:, \d+)*")
VARIABLES = ("out", "y", "h", "z", "a", "features", "activated", "result")


class ModuleWriter:
    def __init__(self, draft: ModuleDraft, style: Style, label: str):
        self.draft, self.style, self.label = draft, style, label

    def source(self, batch: int, dtype: str = "float32") -> str:
        """The same but for the batch and the data type, however often it is asked for."""
        self.chance = Random(self.label)
        self.arguments: dict[str, Any] = {}
        lines, made = list(self.draft.state.lines), dict(self.draft.state.made)
        if self.style.sequential:
            lines, made = _joined(lines, made)
        init = [self._made(name, text) for name, text in made.items()]
        if dtype != "float32" and init:
            init.append(f"self.to(torch.{dtype})")
        names = {name: self.style.main if name == "x" else name for name in self.draft.state.inputs}
        body = self._body(lines)
        if self.style.functional != "F":
            init, body = ([re.sub(r"\bF\.", f"{self.style.functional}.", line) for line in part] for part in (init, body))
        constants, inputs = self._inputs(batch, dtype)
        words = [name.replace("_", " ") for name in self.draft.operators]
        return SourceFile(self.style).assemble(
            doc=docstring(self.style, self.chance, words, self.arguments),
            init=init,
            arguments=self.arguments,
            forward=list(names.values()),
            body=body,
            constants=constants,
            inputs=[(names[name], text) for name, text in inputs.items()],
        )

    def _made(self, name: str, text: str) -> str:
        buffer, text = text.startswith("buffer:"), text.removeprefix("buffer:")
        if self.style.arguments != "none":
            text = self._named(name, text)
        return f'self.register_buffer("{name}", {text})' if buffer else f"self.{name} = {text}"

    def _named(self, attribute: str, text: str) -> str:
        """With arguments of the constructor for numbers, under the names that torch has for them."""
        from torch import nn

        tree = ast.parse(text, mode="eval")
        shaped = self.style.arguments == "all" and self.chance.random() < 0.5
        for call in [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]:
            owner, function = ast.unparse(call.func).rpartition(".")[::2]
            if owner == "nn" and function != "Parameter":
                taken = list(inspect.signature(getattr(nn, function)).parameters)
                call.args = [self._number(name, value) for name, value in zip(taken, call.args)] + call.args[len(taken) :]
                for keyword in call.keywords:
                    keyword.value = self._number(str(keyword.arg), keyword.value)
            elif owner == "torch" and shaped and len(call.args) > 1 and all(isinstance(one, ast.Constant) for one in call.args):
                call.args = [self._argument(f"{attribute}_shape", ast.literal_eval(ast.Tuple(call.args, ast.Load())))]
        return ast.unparse(tree).replace("e-0", "e-")

    def _number(self, name: str, value: ast.expr) -> ast.expr:
        try:
            number = ast.literal_eval(value)
        except ValueError:
            return value
        if isinstance(number, bool | str) or name in ("args", "kwargs"):
            return value
        if name not in LENGTHS:
            return self._argument(name, number) if self.style.arguments == "all" else value
        known = [argument for argument, other in self.arguments.items() if other == number and type(other) is int]
        return ast.Name(known[0]) if known and self.chance.random() < 0.8 else self._argument(name, number)

    def _argument(self, key: str, value: Any) -> ast.Name:
        name = self._free(self.chance.choice(SYNONYMS.get(key, (key,))), value, self.arguments)
        self.arguments.setdefault(name, value)
        return ast.Name(name)

    @staticmethod
    def _free(wanted: str, value: Any, taken: dict[str, Any]) -> str:
        name, number = wanted, 2
        while taken.get(name, value) != value:
            name, number = f"{wanted}{'_' if wanted[-1].isdigit() else ''}{number}", number + 1
        return name

    def _body(self, lines: list[str]) -> list[str]:
        """`x` under the names that the author gives to it."""
        words = set(re.findall(r"\w+", "\n".join(lines))) | set(self.draft.state.inputs)
        free = [name for name in VARIABLES if name not in words and name != self.style.main]
        current, body = self.style.main, []
        for line in lines:
            assigned = re.fullmatch(r"x = (.*)", line)
            text = re.sub(r"\bx\b", current, assigned[1] if assigned else line)
            if assigned and free and self.chance.random() >= self.style.reuse:
                current = free.pop(self.chance.randrange(len(free)))
            body.append(f"{current} = {text}" if assigned else text)
        last = body[-1].removeprefix(f"{current} = ")
        return [*body[:-1], f"return {last}"] if self.chance.random() < 0.7 else [*body, f"return {current}"]

    def _inputs(self, batch: int, dtype: str) -> tuple[dict[str, Any], dict[str, str]]:
        """Constants of the file, and how each input is drawn."""
        drawn = dict(self.draft.state.inputs)
        if dtype != "float32":
            drawn = {name: _in_type(text, dtype) for name, text in drawn.items()}
        if self.style.constants == "inline":
            return {}, {name: text.replace("batch_size", str(batch)) for name, text in drawn.items()}
        constants = dict(self.arguments)
        lead = self._free(self.chance.choice(SYNONYMS["batch_size"]), batch, constants)
        constants[lead] = batch
        by_value = {value: name for name, value in reversed(self.arguments.items()) if type(value) is int}
        lengths = [lead]
        for key, length in zip(DIMENSIONS.get(self.draft.start, ()), _lengths(drawn["x"])):
            if key not in SHARED or length not in by_value:
                name = self._free(self.chance.choice(SYNONYMS.get(key, (key,))), length, constants)
                constants[name] = length
                by_value.setdefault(length, name)
                lengths.append(name)
            else:
                lengths.append(by_value[length])

        def named(match: re.Match[str]) -> str:
            return by_value.get(int(match[0]), match[0]) if int(match[0]) > 3 else match[0]

        drawn["x"] = _SHAPE.sub(", ".join(lengths), drawn["x"], count=1)
        return constants, {
            name: re.sub(r"\bbatch_size\b", lead, re.sub(r"(?<=[ (])\d+(?=[,)])", named, text)) for name, text in drawn.items()
        }


def _lengths(text: str) -> list[int]:
    shape = _SHAPE.search(text)
    return [int(number) for number in re.findall(r"\d+", shape[0])] if shape else []


def _in_type(text: str, dtype: str) -> str:
    """Not what is compared: that becomes a mask."""
    return re.sub(r"(torch\.randn?\([^()]*)\)(?! [<>])", rf"\1, dtype=torch.{dtype})", text)


def _joined(lines: list[str], made: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """A run of modules, each called on the one before, becomes one `nn.Sequential`."""
    called = [re.fullmatch(r"x = self\.(\w+)\(x\)", line) for line in lines]
    run: list[int] = []
    for place, match in enumerate([*called, None]):
        if match and made[match[1]].startswith("nn."):
            run.append(place)
        elif len(run) > 1:
            break
        else:
            run = []
    names = [match[1] for place in run if (match := called[place])]
    if len(names) < 2:
        return lines, made
    layers = f"nn.Sequential({', '.join(made[name] for name in names)})"
    rest = {name: text for name, text in made.items() if name not in names}
    name = next(name for name in ("layers", "net", "block") if name not in rest)
    return [*lines[: run[0]], f"x = self.{name}(x)", *lines[run[-1] + 1 :]], rest | {name: layers}
