"""What is left to torch is written as a line of Python."""

from __future__ import annotations

from typing import Any

from bottega.compiler.backends.triton.kernel_writer import HELPERS, FileWriter
from bottega.compiler.build_step import Refusal
from bottega.compiler.kernel import FunctionCall, PythonText
from bottega.compiler.layouts import is_dense
from bottega.compiler.view import View


def write_call(file: FileWriter, kernel: FunctionCall) -> None:
    arguments = [python(file, argument) for argument in kernel.arguments]
    arguments += [f"{key}={python(file, value)}" for key, value in kernel.keywords]
    if (kernel.text or kernel.function).startswith("F."):
        file.imports.add("import torch.nn.functional as F")
    if any(argument.startswith("joined(") for argument in arguments):
        file.helpers.add("joined")
    if kernel.function in HELPERS:
        file.helpers.add(kernel.function)
    for name, look in kernel.looks:
        if name not in file.known:
            file.forward.append(f"{name} = {look}")
            file.known.append(name)
    called = (kernel.text or f"{kernel.function}({', '.join(arguments)})") + kernel.then
    text = f"{kernel.targets} = {called}"
    used = [name for name in kernel.results if name]
    if kernel.library_call or is_dense(kernel):
        file.forward.append(text)
    elif len(kernel.results) == 1:
        file.forward.append(f"{text}.contiguous()")
    else:
        file.forward += [text, *(f"{name} = {name}.contiguous()" for name in used)]
    file.known += used


def python(file: FileWriter, value: Any) -> str:
    if isinstance(value, PythonText):
        return value.text
    if isinstance(value, View):
        if value.text:
            return value.text
        buffer = file.plan.buffers[value.buffer]
        if value == buffer.whole():
            return buffer.name
        raise Refusal(f"no text for a look at {value.buffer}")
    if isinstance(value, tuple | list):
        inside = ", ".join(python(file, item) for item in value)
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    return repr(value)
