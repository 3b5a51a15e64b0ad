"""Writes one Triton kernel: its parameters as they are needed, its lines, and its launch in `forward`."""

from __future__ import annotations

import keyword
import re
import textwrap
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from bottega.compiler.activated_products import ACTIVATED, LINEAR_ACTIVATED
from bottega.compiler.allocate import allocation
from bottega.compiler.backends.triton.narrow_functions import ONE_PLUS_ERF
from bottega.compiler.backends.triton.width import in_64_bits, is_large
from bottega.compiler.merged_linears import JOINED
from bottega.compiler.plan import KernelPlan
from bottega.compiler.summed_products import LINEAR_ONTO, ONTO
from bottega.compiler.view import View

RESERVED = frozenset(("tl", "triton", "torch", "nn", "libdevice", "range", "float", "int", "max", "min", "F", "math", "self"))
SKETCHED = re.compile(r"t(\d+)(?:_\d+)?$")
"""The name of a result in the call graph."""
ROLES = ("pointer", "result", "size", "scalar", "constant", "constexpr")
CONSTANT = ("constant", "constexpr")
TILE = ("BLOCK_M", "BLOCK_N", "BLOCK_K")
"""Names of a product's tile sizes."""

HELPERS = {
    "nan_max": "@triton.jit\ndef nan_max(a, b):\n    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)",
    "nan_min": "@triton.jit\ndef nan_min(a, b):\n    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)",
    "joined": JOINED,
    ONTO: LINEAR_ONTO,
    ACTIVATED: LINEAR_ACTIVATED,
    "one_plus_erf": ONE_PLUS_ERF,
    "logaddexp": "@triton.jit\ndef logaddexp(a, b):\n    near = tl.exp(-tl.abs(a - b))\n"
    "    return tl.where(a == b, a + 0.6931471805599453, tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL) + tl.log(1.0 + near))",
    "times": "@triton.jit\ndef times(a, b):\n    return a * b",
}


@dataclass
class FileWriter:
    """What the kernels of one file share: the plan, the helpers above them, and the lines of `forward`."""

    plan: KernelPlan
    passes: frozenset[str]
    helpers: set[str] = field(default_factory=set)
    imports: set[str] = field(default_factory=set)
    functions: list[str] = field(default_factory=list)
    forward: list[str] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    """Variables of `forward` so far."""
    used: set[str] = field(default_factory=set)
    """Names of kernels so far."""
    making: str = ""
    """The last result of the kernel that is being written, whose name it gets."""
    held: list[HeldLaunch] | None = None
    """Kernels that are complete and not yet launched, while some are written that may share a launch."""
    locals_of_held: set[str] = field(default_factory=set)

    def on(self, pass_: str) -> bool:
        return pass_ in self.passes

    def kernel_writer(self, origin: tuple[str, ...], suffix: str = "") -> KernelWriter:
        words = [re.sub(r"\W+", "_", word).strip("_") for word in origin if word]
        short = list(dict.fromkeys(words))
        short = short if len(short) <= 4 else [*short[:3], short[-1]]
        base = self.making or "_".join(short) or "fused"
        name = f"{base}{suffix}_kernel"
        number = 1
        while name in self.used or name in RESERVED or keyword.iskeyword(name) or name in self.plan.buffers:
            number += 1
            name = f"{base}{suffix}{number}_kernel"
        self.used.add(name)
        return KernelWriter(self, name)

    def allocate(self, name: str) -> None:
        """Adds a line to `forward` that allocates a buffer."""
        self.forward.append(f"{name} = {allocation(self.plan.buffers[name], self.plan, self.known)}")
        self.known.append(name)

    def variable(self, base: str) -> str:
        """A name for a local of `forward` that hides nothing."""
        name, number = base, 1
        hidden = self.used | self.locals_of_held
        while name in self.plan.buffers or name in RESERVED or name in hidden or keyword.iskeyword(name):
            number += 1
            name = f"{base}{number}"
        if self.held is not None:
            self.locals_of_held.add(name)
        return name


@dataclass
class KernelParameter:
    name: str
    text: str
    """What the launch passes."""
    role: str
    """One of `ROLES`, in the order in which a signature has them."""


@dataclass
class KernelWriter:
    file: FileWriter
    name: str
    lines: list[str] = field(default_factory=list)
    depth: int = 1
    parameters: dict[str, KernelParameter] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    given: dict[Hashable, str] = field(default_factory=dict)
    """Names of what keeps its name all over the kernel."""
    piece: int = 0
    """Of a row, that lines are written for: each has names of its own."""
    large: bool = False
    """Whether indices have 64 bits."""

    # Names

    def fresh(self, base: str) -> str:
        name, number = base, 1
        between = "_" if SKETCHED.match(base) else ""  # a second look at t2 is not t22
        while name in self.taken or name in RESERVED or keyword.iskeyword(name) or name in HELPERS or name == self.name:
            number += 1
            name = f"{base}{between}{number}"
        self.taken.add(name)
        return name

    def again(self, what: Hashable, base: str) -> str:
        """One name for one thing, also where every loop computes it anew."""
        key = (what, self.piece)
        if key not in self.given:
            self.given[key] = self.fresh(base)
        return self.given[key]

    def numbered(self) -> str:
        number = 0
        while f"v{number}" in self.taken:
            number += 1
        return self.fresh(f"v{number}")

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + (in_64_bits(text) if self.large else text))

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head)
        self.depth += 1
        yield
        self.depth -= 1

    # Parameters

    def parameter(self, key: str, base: str, text: str, role: str) -> str:
        if key not in self.parameters:
            self.parameters[key] = KernelParameter(self.fresh(base), text, role)
        return self.parameters[key].name

    def reserve(self, buffers: list[str]) -> None:
        """Gives each tensor its short name: the last part of its path, or more where that is not enough."""
        wanted = {name: short_name(name, 1) for name in dict.fromkeys(buffers)}
        for name, short in wanted.items():
            if sum(other == short for other in wanted.values()) > 1 and "." in name:
                wanted[name] = short_name(name, 2)
        self.short = wanted

    short: dict[str, str] = field(default_factory=dict)

    def pointer(self, buffer: str, written: bool = False) -> str:
        base = self.short.get(buffer) or short_name(buffer, 1)
        return self.parameter(f"pointer {buffer}", f"{base}_ptr", buffer, "result" if written else "pointer")

    def scalar(self, text: str) -> str:
        base = short_name(text, 1) if re.fullmatch(r"[\w.\[\]]+", text) and ".shape[" not in text else "count"
        return self.parameter(f"scalar {text}", base, text, "scalar")

    def constexpr(self, base: str, text: str) -> str:
        return self.parameter(f"constexpr {base}", base, text, "constexpr")

    def indexes(self, operands: Iterable[View]) -> None:
        """Settles how wide indices are, by all that the kernel reads and writes; before its first line."""
        self.large = is_large(self.file.plan.buffers[view.buffer] for view in operands)

    # The result

    def render(self, program: str = "") -> str:
        """As a kernel, or as a function of a kernel that is told which program it is."""
        ordered = sorted(self.parameters.values(), key=lambda p: ROLES.index(p.role))
        names = (f"{p.name}: tl.constexpr" if p.role in CONSTANT else p.name for p in ordered)
        arguments = ", ".join((program, *names) if program else names)
        head = f"def {self.name}({arguments}):"
        if len(head) > 126:
            head = f"def {self.name}(\n{filled(arguments)}\n):"
        return f"@triton.jit\n{head}\n" + "\n".join(self.lines)

    def finish(self, grid: str, options: str = "") -> None:
        """Adds the kernel to the file and its launch to `forward`."""
        if self.file.held is not None:
            self.file.held.append(HeldLaunch(self, grid, options))
            return
        self.file.functions.append(self.render())
        ordered = sorted(self.parameters.values(), key=lambda p: ROLES.index(p.role))
        arguments = [f"{p.name}={p.text}" if p.role in CONSTANT else p.text for p in ordered]
        self.launch(grid, [*arguments, *([options] if options else [])])

    def launch(self, grid: str, arguments: list[str]) -> None:
        inside = ", ".join(arguments)
        if len(self.name) + len(grid) + len(inside) < 112:
            self.file.forward.append(f"{self.name}[{grid}]({inside})")
            return
        if len(grid) > 60:
            variable = self.file.variable("grid")
            self.file.forward.append(f"{variable} = {grid}")
            grid = variable
        self.file.forward.append(f"{self.name}[{grid}](\n{filled(inside)}\n)")

    def size_text(self, name: str) -> str:
        """The text of a size for the launch, as a variable of `forward` unless it is a word already."""
        parameter = next(p for p in self.parameters.values() if p.name == name)
        text = parameter.text
        if text.isidentifier() or text.isdigit():
            return text
        variable = self.file.variable(name.lower() if name.isupper() and len(name) > 1 else name)
        self.file.forward.append(f"{variable} = {text}")
        for other in self.parameters.values():
            if other.text == text:
                other.text = variable
        return variable


@dataclass
class HeldLaunch:
    writer: KernelWriter
    grid: str
    options: str


def filled(arguments: str) -> str:
    """Arguments over as many lines as they need."""
    kept = re.sub(r"(?<!,) ", "\0", arguments)  # lines break after commas alone
    lines = textwrap.fill(kept, 116, initial_indent="    ", subsequent_indent="    ", break_long_words=False)
    return lines.replace("\0", " ")


def short_name(buffer: str, parts: int) -> str:
    words = [word for word in re.split(r"\W+", buffer.removeprefix("self.")) if word]
    while parts < len(words) and words[-parts].isdigit():  # body[4].weight is body_4_weight
        parts += 1
    name = "_".join(words[-parts:])
    return name if name.isidentifier() else f"t{name}"
