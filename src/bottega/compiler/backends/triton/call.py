"""What is left to torch is written as a line of Python."""

from __future__ import annotations

from typing import Any

from bottega.compiler.backends.triton.kernel_text import Page
from bottega.compiler.kernel import Call, Written
from bottega.compiler.steps import Refusal
from bottega.compiler.view import View

DENSE = ("conv", "linear", "matmul", "torch.mm", "bmm", "addmm", "embedding", "torch.cat", "torch.stack")
"""Functions whose results lie dense and in order, which kernels after them rely on; others are asked for it."""


def write_call(page: Page, kernel: Call) -> None:
    arguments = [python(page, argument) for argument in kernel.arguments]
    arguments += [f"{key}={python(page, value)}" for key, value in kernel.keywords]
    if kernel.function.startswith("F."):
        page.imports.add("import torch.nn.functional as F")
    for name, look in kernel.looks:
        if name not in page.known:
            page.forward.append(f"{name} = {look}")
            page.known.append(name)
    called = kernel.text or f"{kernel.function}({', '.join(arguments)})"
    text = f"{kernel.targets} = {called}"
    used = [name for name in kernel.results if name]
    if kernel.part or any(word in kernel.function for word in DENSE):
        page.forward.append(text)
    elif len(kernel.results) == 1:
        page.forward.append(f"{text}.contiguous()")
    else:
        page.forward += [text, *(f"{name} = {name}.contiguous()" for name in used)]
    page.known += used


def python(page: Page, value: Any) -> str:
    if isinstance(value, Written):
        return value.text
    if isinstance(value, View):
        if value.text:
            return value.text
        buffer = page.plan.buffers[value.buffer]
        if value == buffer.whole():
            return buffer.name
        raise Refusal(f"no text for a look at {value.buffer}")
    if isinstance(value, tuple | list):
        inside = ", ".join(python(page, item) for item in value)
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    return repr(value)
