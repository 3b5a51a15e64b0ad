"""A module whose kernels are functions of one native source: what the C++ and the CUDA backend share."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from bottega.compiler.allocate import allocation
from bottega.compiler.backends.cpp.function_writer import RESERVED_NAMES, FunctionWriter, folded
from bottega.compiler.backends.cpp.library_call import call_imports, call_line
from bottega.compiler.backends.cpp.loop_text import indent, whole_vectors
from bottega.compiler.backends.cpp.prelude import Prelude
from bottega.compiler.backends.cpp.wide_products import WIDE_PRODUCTS, wide
from bottega.compiler.bodies import stores
from bottega.compiler.kernel import FunctionCall, Kernel
from bottega.compiler.library.cpp.vectors import PACKED, PACKED_CALL
from bottega.compiler.module_frame import Frame
from bottega.compiler.plan import KernelPlan

FREED_EARLY = "freed_early"
LARGE = 16_384
"""Elements of a result whose memory is worth giving back at once."""


@dataclass(frozen=True)
class WrittenFunction:
    lines: list[str]
    """The body."""
    before: tuple[str, ...] = ()
    """Arguments of the call in `forward` in front of the function's own: a grid and a block."""
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class NativeLanguage:
    runtime: str
    """The function of `bottega.runtime` that compiles the source."""
    library: str
    """The variable that holds the compiled source."""
    write: Callable[[FunctionWriter, Kernel], WrittenFunction]
    """Raises `Refusal` for a kernel that this language has no writer for."""
    includes: Callable[[str], str]
    """The lines above a source that has this body."""
    on_gpu: bool = False


def write_module(language: NativeLanguage, plan: KernelPlan, frame: Frame, passes: frozenset[str]) -> str:
    """Returns the candidate's whole source."""
    prelude = Prelude(on_gpu=language.on_gpu)
    known = list(plan.inputs)
    forward = [f"{name} = {text}" for name, text in plan.prepared]
    imports: set[str] = set()
    functions: list[str] = []
    names: set[str] = set()
    opened = 0
    for place, kernel in enumerate(plan.kernels):
        if (chunk := plan.chunk_from(place)) is not None:
            forward += [f"{name} = {allocation(plan.buffers[name], plan, known)}" for name in chunk.filled]
            known += [*chunk.filled, *(name for name, _ in chunk.parts)]
            opened = len(forward)
        if isinstance(kernel, FunctionCall):
            forward.append(call_line(wide(kernel, plan.buffers) if WIDE_PRODUCTS in passes else kernel))
            imports |= call_imports(kernel)
            known += [name for name in kernel.results if name]
            continue
        function = FunctionWriter(_name_of(kernel, names, language.on_gpu), plan, prelude, passes, on_gpu=language.on_gpu)
        written = language.write(function, kernel)
        lines = written.lines if language.on_gpu else whole_vectors(written.lines)
        functions.append("\n".join([function.head(), *(indent(line, 1) for line in _braced(lines)), "}"]))
        for store in stores(kernel):
            if store.view.buffer not in known:
                forward.append(f"{store.view.buffer} = {allocation(plan.buffers[store.view.buffer], plan, known)}")
                known.append(store.view.buffer)
        arguments = [*written.before, *function.arguments(), *written.after]
        forward.append(folded(f"{language.library}.{function.name}(", arguments, ")"))
        if (chunk := plan.chunk_until(place)) is not None:
            forward[opened:] = [chunk.loop(forward[opened:])]
    forward += [f"{name}.copy_({text})" for name, text in plan.changed]
    forward += [
        f"torch.autograd.graph.increment_version({name})" for name in plan.written
    ]  # whoever keeps a copy sees it is old
    forward.append(f"return {plan.returns}")
    if FREED_EARLY in passes:
        forward = _freed(forward, [buffer.name for buffer in plan.results() if buffer.size >= LARGE])
    text = ""
    if functions:
        imports.add(f"from bottega.runtime import {language.runtime}")
        body = "\n\n".join(part for part in [prelude.text(functions), *functions] if part)
        text = f'{language.library} = {language.runtime}(r"""\n{language.includes(body)}{body}\n""")'
        text += f"\n\n\n{PACKED}" if any(PACKED_CALL in line for line in forward) else ""
    return frame.render(imports, text, forward)


def _freed(forward: list[str], names: list[str]) -> list[str]:
    """The lines, with each of these variables deleted after the line that mentions it last, unless it is returned."""
    ends: dict[int, list[str]] = {}
    for name in names:
        mention = re.compile(rf"(?<![\w.]){re.escape(name)}(?!\w)")
        ends.setdefault(max((place for place, line in enumerate(forward) if mention.search(line)), default=-1), []).append(name)
    kept = (-1, len(forward) - 1)
    return [
        text
        for place, line in enumerate(forward)
        for text in (line, *([f"del {', '.join(ends[place])}"] if place in ends and place not in kept else []))
    ]


def _name_of(kernel: Kernel, taken: set[str], on_gpu: bool) -> str:
    words: list[str] = []
    for operator in kernel.origin:
        word = re.sub(r"\W+", "_", operator).strip("_")
        if word and word not in words:
            words.append(word)
    name = "_".join(words[:3]) or type(kernel).__name__.lower()
    if name in RESERVED_NAMES or (on_gpu and "_" not in name):  # CUDA has functions of many such names
        name = f"{name}_kernel"
    base, number = name, 2
    while name in taken:
        name, number = f"{base}_{number}", number + 1
    taken.add(name)
    return name


def _braced(lines: list[str]) -> list[str]:
    """An opening brace goes to the end of the line before, except after a pragma."""
    result: list[str] = []
    for line in lines:
        if line.strip() == "{" and result and not result[-1].lstrip().startswith("#"):
            result[-1] += " {"
        else:
            result.append(line)
    return result
