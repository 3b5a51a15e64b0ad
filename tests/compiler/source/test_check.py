"""Lint: mistakes as a small model makes them are seen, and nothing that works is called a fault."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.small_bench import cpp_text
from corpus import ACCEPTED, Specimen, specimens
from episodes.decay import KERNEL

from bottega.compiler.link import linked
from bottega.compiler.source.check import check
from bottega.compiler.source.finding import Finding
from bottega.compiler.step_compiler import StepCompiler
from bottega.core.task import Task
from bottega.tasks.load import load_tasks

GATED = """import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.proj = nn.Linear(width, width)
        self.register_buffer("shift", torch.zeros(width))

    def forward(self, x, gate):
        return torch.sigmoid(self.proj(x)) * gate + self.shift


def get_inputs():
    return [torch.randn(8, 16), torch.randn(8, 16)]


def get_init_inputs():
    return [16]
"""
RIGHT = """import torch
import triton
import triton.language as tl


@triton.jit
def t3_kernel(t1_ptr, gate_ptr, t3_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    t1 = tl.load(t1_ptr + offsets, mask=mask)
    gate = tl.load(gate_ptr + offsets, mask=mask)
    t2 = tl.sigmoid(t1)
    t3 = t2 * gate
    tl.store(t3_ptr + offsets, t3, mask=mask)


class ModelNew(Model):
    def forward(self, x, gate):
        t1 = self.proj(x)
        t3 = torch.empty((8, 16), device=x.device, dtype=x.dtype)
        n = t1.numel()
        t3_kernel[(triton.cdiv(n, 1024),)](t1, gate, t3, n, BLOCK=1024, num_warps=4)
        return t3 + self.shift
"""


def found(answer: str) -> tuple[str, ...]:
    return tuple(finding.message for finding in check(linked(answer, GATED)))


def test_the_right_answer_has_no_fault() -> None:
    assert found(RIGHT) == ()


@pytest.mark.parametrize(
    ("then", "now", "told"),
    [
        ("    t1 = tl.load(t1_ptr + offsets, mask=mask)\n", "", "t3_kernel reads t1, which nothing defines"),
        ("t1_ptr, gate_ptr, t3_ptr, n,", "t1_ptr, t3_ptr, n,", "t3_kernel reads gate_ptr, which nothing defines"),
        ("t2 = tl.sigmoid(t1)", "t2 = libdevice.tanh(t1)", "t3_kernel reads libdevice, which nothing defines"),
        ("        t1 = self.proj(x)\n", "", "forward reads t1, which nothing defines"),
        ("        n = t1.numel()\n", "", "forward reads n, which nothing defines"),
        ("return t3 + self.shift", "return polish(t3)", "forward reads polish, which nothing defines"),
        ("        return t3", "    return t3", "the file is no Python: 'return' outside function in line"),
        ("return t3 + self.shift", "return t3 + (", "the file is no Python: '(' was never closed in line"),
    ],
)  # fmt: skip
def test_mistakes_are_seen(then: str, now: str, told: str) -> None:
    assert then in RIGHT
    assert any(fault.startswith(told) for fault in found(RIGHT.replace(then, now)))


VALID = {
    "comprehensions and lambdas": """
def f(rows):
    g = lambda row, k=len(rows): [one * k for one in row]
    kept = [last := row for row in rows]
    return {i: g(row) for i, row in enumerate(rows)}, last, kept
""",
    "globals that come later": """
def f():
    return LATER + counted()

def counted():
    global COUNT
    COUNT = 1
    return COUNT

def g():
    return COUNT

LATER = 1
""",
    "a name that may be missing": """
def f():
    try:
        return nowhere
    except NameError:
        return 0
""",
    "an import of everything": """
from torch import *

def f(x):
    return relu(x)
""",
    "names that are made": """
for name in ('a', 'b'):
    globals()[name] = 1

def f():
    return a + b
""",
    "one branch": """
def forward(x):
    if x:
        y = 1
    return y
""",
    "match and with": """
def f(x):
    with open(x) as file:
        match file:
            case [first, *rest]:
                return first, rest
            case {'a': one, **others}:
                return one, others
            case other:
                return other
""",
    "exceptions": """
def f():
    try:
        pass
    except ValueError as error:
        return error
    finally:
        del f.cache
""",
    "class scopes": """
class A:
    size = 2
    rows = [i for i in range(size)]

    def f(self):
        def inner():
            return __class__, self
        return inner
""",
    "nonlocal": """
def f():
    n = 0
    def g():
        nonlocal n
        n += 1
        return n
    return g
""",
    "annotations": """
from __future__ import annotations

def f(x: Unseen) -> Unseen:
    y: Unseen = x
    return y
""",
    "functions with a name twice": """
def f(a):
    return a

def f(a, b):
    return f(a, b)
""",
    "stars": """
def f(a, b):
    return a

def g(*rows, **named):
    return f(*rows), f(**named), g(1, 2, c=3)
""",
}


@pytest.mark.parametrize("source", VALID.values(), ids=VALID)
def test_valid_python_is_left_alone(source: str) -> None:
    assert check(source) == ()


@pytest.mark.parametrize("folder", ["honest/cpu", "honest/cuda", "attacks/cpu", "attacks/cuda", "attacks/hostile"])
def test_no_kernel_of_the_corpus_has_a_fault(folder: str) -> None:
    every = [one for one in specimens(folder) if not one.placeholders and one.expect & (ACCEPTED | {"rejected", "incorrect"})]
    assert every
    assert {one.id: found_in for one in every if (found_in := _of(one))} == {}


def _of(specimen: Specimen) -> tuple[Finding, ...]:
    source, task = specimen.path.read_text(), specimen.task.source
    return check(linked(source, task))


def test_examples_and_hand_written_kernels_have_no_fault() -> None:
    examples = Path(__file__).parents[3] / "examples"
    sources = [path.read_text() for path in examples.glob("*.py")]
    assert sources
    assert [check(source) for source in sources if "ModelNew" not in source] == [()] * (len(sources) - 1)
    assert check((examples / "star_relu.py").read_text()) == check(KERNEL) == check(cpp_text("x[i]")) == ()


@pytest.mark.parametrize("language", ["cpp", "triton"])
def test_no_kernel_of_the_compiler_has_a_fault(language: str) -> None:
    tasks = [Task(GATED, "gated"), *load_tasks(["builtin:rms_norm_rows", "builtin:dilated_max_pool"], size="cpu").tasks]
    steps = [(task, step) for task in tasks for step in StepCompiler().build(task, language).steps]
    assert len(steps) > len(tasks)
    seen = [check(linked(step.candidate.source, task.source)) for task, step in steps]
    assert set(seen) == {()}


def test_a_library_function_that_an_answer_changed_is_looked_at() -> None:
    answer = "import torch\n\n\nclass ModelNew(Model):\n    def forward(self, x, gate):\n        return cumsum(x, 1)\n"
    whole = linked(answer, GATED)
    assert "def cumsum(" in whole and check(whole) == ()
    head, _, rest = whole.partition("def cumsum(")
    line, _, body = rest.partition(":\n")
    assert check(f"{head}def cumsum({line}:\n    missing_part(1)\n{body}") == (
        Finding("undefined_name", "cumsum reads missing_part, which nothing defines"),
    )


def test_a_file_that_is_nested_too_deeply_is_not_looked_at() -> None:
    deep = (
        "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x" + " + x" * 700 + "\n"
    )
    assert check(deep) == ()
