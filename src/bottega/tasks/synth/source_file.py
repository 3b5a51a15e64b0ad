"""The source file of a task around its module: imports, class, docstring, constants, and the two functions of the contract."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random
from typing import Any

from bottega.tasks.synth.style import Style

_LINE = 110


class SourceFile:
    def __init__(self, style: Style):
        self.style = style

    def assemble(
        self,
        *,
        doc: dict[str, str],
        init: list[str],
        arguments: dict[str, Any],
        forward: Sequence[str],
        body: list[str],
        constants: dict[str, Any],
        inputs: list[tuple[str, str]],
        before: str = "",
    ) -> str:
        style = self.style
        given = dict(arguments)
        defaulted = style.defaults and bool(given)
        drawn = self._inputs(inputs, constants)
        initial = (
            "[]"
            if defaulted or not given
            else f"[{', '.join(self._constant(name, constants) if name in constants else literal(value) for name, value in given.items())}]"
        )
        lines = [*self._class(doc.get("class", ""), init, given, defaulted, forward, body)]
        block = [
            f"{self._constant(name, constants)} = {literal(value)}"
            for name, value in constants.items()
            if self._used(self._constant(name, constants), [*drawn, initial])
        ]
        parts = [f'"""{doc["module"]}"""'] if doc.get("module") else []
        text = "\n".join([before, *lines, *drawn])
        parts.append("\n".join(self._imports(text)))
        if before:
            parts.append("\n" + before.strip("\n"))
        if style.constants == "before" and block:
            parts.append(("\n" if before else "") + "\n".join(block))
        parts.append("\n" + "\n".join(lines))
        if style.constants == "after" and block:
            parts.append("\n" + "\n".join(block))
        gap = "\n" if style.constants != "after" or not block else ""
        parts.append(f"{gap}def get_inputs():\n" + "\n".join(f"    {line}" for line in drawn))
        parts.append(f"\ndef get_init_inputs():\n    return {initial}")
        return "\n\n".join(parts).replace("\n\n\n\n", "\n\n\n") + "\n"

    def _imports(self, text: str) -> list[str]:
        lines = []
        if "math." in text:
            lines.append("import math")
        if lines:
            lines.append("")
        lines += ["import torch", "import torch.nn as nn"]
        if re.search(r"(?<![\w.])F\.", text) or self.style.always_f:
            lines.append("import torch.nn.functional as F")
        return lines

    def _class(
        self, doc: str, init: list[str], arguments: dict[str, Any], defaulted: bool, forward: Sequence[str], body: list[str]
    ) -> list[str]:
        lines = ["class Model(nn.Module):"]
        if doc:
            lines += [f"    {line}".rstrip() for line in doc.splitlines()]
            if "\n" in doc or self.style.inline < 0.5:
                lines.append("")
        if init or arguments or self.style.bare_init:
            words = [self._declared(name, value, defaulted) for name, value in arguments.items()]
            signature = ", ".join(["self", *words])
            lines.append(
                f"    def __init__({signature}):"
                if len(signature) < _LINE
                else "    def __init__(\n        self,\n" + "".join(f"        {word},\n" for word in words) + "    ):"
            )
            lines.append("        super(Model, self).__init__()" if self.style.old_super else "        super().__init__()")
            lines += [f"        {line}" for statement in init for line in statement.splitlines()]
            lines.append("")
        hint = ": torch.Tensor" if self.style.hints else ""
        returned = " -> torch.Tensor" if self.style.hints else ""
        lines.append(f"    def forward(self, {', '.join(name + hint for name in forward)}){returned}:")
        return lines + [f"        {line}" for statement in body for line in statement.splitlines()]

    def _declared(self, name: str, value: Any, defaulted: bool) -> str:
        hint = f": {annotation(value)}" if self.style.hints else ""
        equals = " = " if self.style.hints else "="
        return f"{name}{hint}{equals}{literal(value)}" if defaulted else f"{name}{hint}"

    def _inputs(self, inputs: list[tuple[str, str]], constants: dict[str, Any]) -> list[str]:
        texts = [self._capitalised(text, constants) for _, text in inputs]
        if self.style.keyword_inputs and not {name for name, _ in inputs} & set(constants):
            return [
                *(f"{name} = {text}" for (name, _), text in zip(inputs, texts)),
                f"return [{', '.join(name for name, _ in inputs)}]",
            ]
        whole = f"return [{', '.join(texts)}]"
        if len(whole) <= _LINE:
            return [whole]
        return ["return [", *(f"    {text}," for text in texts), "]"]

    def _capitalised(self, text: str, constants: dict[str, Any]) -> str:
        if not self.style.capitals:
            return text
        return re.sub(
            r"(?<![\w.])([a-z_A-Z]\w*)(?!\w|\s*[=(.])",
            lambda m: m.group(1).upper() if m.group(1) in constants else m.group(1),
            text,
        )

    def _constant(self, name: str, constants: dict[str, Any]) -> str:
        return name.upper() if self.style.capitals else name

    @staticmethod
    def _used(name: str, texts: Sequence[str]) -> bool:
        return any(re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", text) for text in texts)


def annotation(value: Any) -> str:
    return "tuple" if isinstance(value, tuple) else type(value).__name__


def literal(value: Any) -> str:
    """As people write it: `1e-5`, not `1e-05`."""
    return repr(value).replace("e-0", "e-")


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def docstring(style: Style, rng: Random, words: Sequence[str], arguments: dict[str, Any]) -> dict[str, str]:
    """What the author says about the module, by where it stands."""
    words = list(dict.fromkeys(words))
    if style.docstring == "none":
        return {}
    listed = ", ".join(words[:-1]) + (f" and {words[-1]}" if len(words) > 1 else words[-1])
    opening = rng.choice(
        (
            f"{capital(listed)}.",
            f"Model that performs {listed}.",
            f"A module with {listed}.",
            f"Computes {listed}.",
            f"{capital(' -> '.join(words))}",
        )
    )
    if style.docstring == "module":
        return {"module": opening}
    if style.docstring == "short" or not arguments:
        return {"class": f'"""{opening}"""'}
    lines = "\n".join(f"    {name} ({annotation(value)}): {_explained(name)}" for name, value in arguments.items())
    return {"class": f'"""\n{opening}\n\nArgs:\n{lines}\n"""'}


def _explained(name: str) -> str:
    words = name.replace("_", " ").lower()
    return f"{'Size of the ' if words.endswith(('dim', 'length', 'len')) else ''}{words}.".capitalize()
