"""From a row to a task file in KernelBench's contract, in one of several hands: constants above or below, literals, with or without types.

Sizes are written `name=size` or `name=size/step`: the second kind may be shrunk, to a multiple of its step.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from textwrap import dedent, indent

HANDS = 4
_SIZE = re.compile(r"(\w+)=(\d+)(?:/(\d+))?")


@dataclass(frozen=True)
class TaskText:
    name: str
    level: int
    sizes: str
    """Integers that inputs and constructor speak of."""
    inputs: tuple[str, ...]
    """For each argument of `forward` a shape, or a whole expression that begins with `torch.`."""
    forward: str
    """Statements; a single expression is returned."""
    init: str = ""
    arguments: str = ""
    """Sizes that the constructor takes, by comma."""
    takes: str = "x"
    """Names of `forward`'s arguments, by comma."""
    before: str = ""
    """Classes and functions that the model uses."""

    def source(self, number: int, scale: float = 1.0) -> str:
        """The file's text. `number` is its place in its level, which also says in whose hand it is written."""
        return _written(self, number, self.shrunk(scale))

    def shrunk(self, scale: float) -> dict[str, int]:
        """Sizes with about `scale` times the elements."""
        found = _SIZE.findall(self.sizes)
        free = sum(bool(step) for _, _, step in found)
        factor = min(1.0, scale) ** (1 / max(1, free))
        return {
            name: int(size) if not step or scale >= 1 else max(int(step), round(int(size) * factor / int(step)) * int(step))
            for name, size, step in found
        }


def _written(text: TaskText, number: int, sizes: dict[str, int]) -> str:
    hand = zlib.crc32(f"{text.level} {number} {text.name}".encode()) % HANDS
    upper, literal = hand == 1, hand == 2
    spelled = {name: str(size) if literal else name.upper() if upper else name for name, size in sizes.items()}
    drawn = ", ".join(_input(each, "torch.randn" if hand % 2 else "torch.rand", spelled) for each in text.inputs)
    constants = "" if literal else "".join(f"{spelled[name]} = {size}\n" for name, size in sizes.items())
    told = text.name.replace("_", " ")
    inputs = f"def get_inputs():\n    return [{drawn}]\n"
    given = ", ".join(_spelled(each.strip(), spelled) for each in text.arguments.split(",") if each.strip())
    init_inputs = f"def get_init_inputs():\n    return [{given}]" + ("\n" if given else "  # nothing to configure\n")
    parts = [
        f'"""{told.capitalize()}."""\n' if hand == 3 else "",
        "import torch\nimport torch.nn as nn\n" + ("import torch.nn.functional as F\n" if _needs_functional(text) else ""),
        f"# sizes as a service sees them\n{constants}" if upper else "",
        dedent(text.before).strip() + "\n" if text.before else "",
        _model(text, hand, told),
        constants if hand in (0, 3) else "",
        inputs + "\n\n" + init_inputs,
    ]  # fmt: skip
    return re.sub(r"\n\n\n(?=import|# sizes)", "\n\n", "\n\n\n".join(part.rstrip("\n") for part in parts if part)) + "\n"


def _model(text: TaskText, hand: int, told: str) -> str:
    names = [each.strip() for each in text.arguments.split(",") if each.strip()]
    typed = hand in (1, 3)
    given = ", ".join(["self", *(f"{name}: int" if typed else name for name in names)])
    taken = ", ".join(["self", *(f"{name.strip()}: torch.Tensor" if typed else name.strip() for name in text.takes.split(","))])
    init = dedent(text.init).strip()
    body = dedent(text.forward).strip()
    body = body if re.search(r"^return\b", body, re.M) else f"return {body}"
    lines = ["class Model(nn.Module):"]
    if hand == 0:
        lines.append(f'    """{told.capitalize()}, as one module."""\n')
    elif hand == 3:
        about = "".join(f"\n        {name}: of the layers" for name in names)
        lines.append(f'    """{told.capitalize()}.' + (f"\n\n    Args:{about}\n    " if names else "") + '"""\n')
    if init or names or hand != 2:
        returns = " -> None" if typed else ""
        lines.append(f"    def __init__({given}){returns}:\n        super().__init__()")
        lines.append(indent(init, " " * 8) + "\n" if init else "")
    lines.append(f"    def forward({taken}):\n{indent(body, ' ' * 8)}")
    return "\n".join(lines) + "\n"


def _input(shape: str, draw: str, spelled: dict[str, str]) -> str:
    return _spelled(shape if shape.startswith("torch.") else f"{draw}({shape})", spelled)


def _spelled(expression: str, spelled: dict[str, str]) -> str:
    return re.sub(r"\b[a-z]\w*\b", lambda word: spelled.get(word[0], word[0]), expression)


def _needs_functional(text: TaskText) -> bool:
    return bool(re.search(r"\bF\.", text.init + text.forward + text.before))
