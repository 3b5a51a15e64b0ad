"""`optimized.py`: the kernel with what it needs of the runtime, the module around it, and `load(original)`. It needs torch, not Bottega.

The kernel stands at the top of the file as its writer wrote it, since Triton and inspect read it there. What is added below binds few names,
none of which the kernel uses.
"""

from __future__ import annotations

import ast
import pprint
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bottega.core.candidate import Candidate
from bottega.core.errors import TaskError
from bottega.core.foreign_text import one_line
from bottega.core.task import top_level_names
from bottega.languages import language_named
from bottega.runtime.export import export_source

HEADER = """\
# A faster {label}, made and measured by Bottega: verdict.json holds the measurement, report.md how it came about,
# and `bottega check` on this folder judges it again. This file needs torch{needs}, and no Bottega.
#
#     import {module}
#     module = {module}.{load}(original)    # an instance of the original class; its parameters are used, not copied
#
# The kernel runs on calls like those that it was judged on. On others the original runs, and module.fallbacks says why.
"""

TAIL = '''

# ---- The module around the kernel (Bottega, Apache-2.0). ----
def {drop_in}():
{text}
    return DropIn


class {wrapper}({drop_in}()):
    KERNEL = ModelNew
    FACTS = {facts}


def {load}(original, *, init=None, ignore=(), warn=False):
    """A module in place of `original`: the same parameters and names, and the kernel where it was proved.

    `init`: constructor arguments, where they differ in more than the parameters show. `ignore`: attributes that may differ from those of the
    module that the kernel was made for. `warn`: say once that the original runs in place of the kernel, and why.
    """
    return {wrapper}(original, init=init, ignore=ignore, warn=warn)
'''
PARTS = ("code", "attributes", "state", "calls", "modes", "unchanged", "module")
"""Files of `drop_in/`, each before those that use it."""
RECORDED_PARTS = ("code", "attributes", "state", "modes", "snapshot", "recorded")
OWN_IMPORT = re.compile(r"^from bottega\.\S+ import (?:\([^)]*\)|.*)\n", re.MULTILINE)


@dataclass(frozen=True)
class Delivered:
    text: str
    load: str
    """The name of the function that makes the module: `load`, unless the kernel has one of that name."""


LAUNCHES_ITSELF = ("cpp_extension", "load_inline", "cuda.core", "RawKernel", "ctypes")
"""What can launch a kernel elsewhere than on torch's current stream, as Triton and our runtime do."""


def delivered(candidate: Candidate, facts: dict[str, Any], label: str) -> Delivered:
    """The whole file. `facts` are what `probe.describe` found, with the device and autocast. `ValueError` when it cannot be written."""
    kernel = export_source(candidate.source)
    taken = top_level_names(ast.parse(kernel))
    if "ModelNew" not in taken:
        raise ValueError("the kernel's file binds no ModelNew at its top level")
    load, wrapper, drop_in = (_free(name, taken) for name in ("load", "Optimized", "_bottega_drop_in"))
    needs = language_named(candidate.language).needs
    header = HEADER.format(label=one_line(label, 80), needs=f" and {needs}" if needs else "", module="optimized", load=load)
    tail = TAIL.format(
        drop_in=drop_in, text=drop_in_text(), wrapper=wrapper, load=load, facts=_literal(_with_stream(facts, candidate))
    )
    text = header + kernel.removeprefix("\ufeff").rstrip("\n") + "\n" + tail
    ast.parse(text)
    return Delivered(text, load)


def _with_stream(facts: dict[str, Any], candidate: Candidate) -> dict[str, Any]:
    return {**facts, "own_stream": any(name in candidate.source for name in LAUNCHES_ITSELF)}


def drop_in_text(parts: Sequence[str] = PARTS) -> str:
    """The texts of the module around the kernel, as the body of one function."""
    texts = [(Path(__file__).parent / "drop_in" / f"{part}.py").read_text(encoding="utf-8") for part in parts]
    return textwrap.indent("\n\n\n".join(OWN_IMPORT.sub("", text).strip() for text in texts), "    ")


def facts_of(found: dict[str, Any], device: str, precision: str) -> dict[str, Any]:
    """What a process said of the module, as plain values of the kinds that belong there."""
    try:
        return {
            "class": str(found["class"]),
            "device": "cpu" if device == "cpu" else "cuda",
            "init": _init(found["init"]),
            "calls": [_form(form) for form in found["calls"]],
            "keywords": tuple(str(name) for name in found["keywords"]),
            "returns": [None if form is None else _form(form) for form in found["returns"]],
            "training": _mode(found["training"]),
            "kernel_training": _mode(found["kernel_training"]),
            "autocast": {"bf16": "torch.bfloat16", "fp16": "torch.float16"}.get(precision),
            "modes": {str(path): bool(mode) for path, mode in found["modes"].items()},
            "mutates": bool(found["mutates"]),
            "changes": tuple(str(name) for name in found["changes"]),
            "gaps": bool(found["gaps"]),
            "ties": tuple(tuple(str(name) for name in names) for names in found["ties"]),
            "built": {
                str(path): (str(kind), {str(name): str(text) for name, text in plain.items()})
                for path, (kind, plain) in found["built"].items()
            },
        }
    except (KeyError, ValueError, TypeError, AttributeError, SyntaxError) as error:
        raise TaskError(f"the module could not be described: {type(error).__name__}: {error}") from None


def _form(form: Any) -> Any:
    ((kind, content),) = form.items()
    if kind == "tensor":
        dtype, shape, stride = content
        return {"tensor": (str(dtype), tuple(int(n) for n in shape), tuple(int(n) for n in stride))}
    if kind in ("tuple", "list"):
        return {kind: tuple(_form(item) for item in content)}
    if kind == "dict":
        return {"dict": tuple((key, _form(item)) for key, item in content if isinstance(key, str | int))}
    if kind in ("fields", "named"):
        where, name, entries = content
        return {kind: (str(where), str(name), tuple((str(key), _form(item)) for key, item in entries))}
    if kind == "type":
        return {"type": str(content)}
    if content is None or isinstance(content, bool | int | float | str):
        return {"value": content}
    raise ValueError(f"a value of type {type(content).__name__}")


def _init(found: Any) -> Any:
    """A pair as a literal, or the text of its pickle; None where there is neither."""
    if found is None:
        return None
    return str(found["pickle"]) if "pickle" in found else ast.literal_eval(found["text"])


def _mode(value: Any) -> bool | None:
    return None if value is None else bool(value)


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_module"
    return name


def _literal(facts: dict[str, Any]) -> str:
    return textwrap.indent(pprint.pformat(facts, width=116, sort_dicts=False), "    ").lstrip()
