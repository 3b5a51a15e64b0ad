"""A broken candidate gets the outcome that fits and a diagnosis to go on with; nothing of it reaches the next one."""

from __future__ import annotations

import pytest

from bottega.core.task import Task
from bottega.core.verdict import Verdict
from bottega.judge.judge import SOURCE_LIMIT, Judge
from bottega.languages import candidate_from

pytestmark = pytest.mark.rotates

SOURCE = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        return x.sum(-1), x * 2

def get_inputs():
    return [torch.randn(8, 16)]

def get_init_inputs():
    return [16]
"""
TASK = Task(SOURCE, name="pair")
HONEST = SOURCE.replace("class Model(", "class ModelNew(")
FORWARD = "return x.sum(-1), x * 2"


def returning(text: str) -> str:
    return HONEST.replace(FORWARD, text)


BAD: dict[str, tuple[str, str, list[str]]] = {
    "empty": ("", "compile_error", ["empty", "ModelNew"]),
    "blank": (" \n\n\t", "compile_error", ["empty"]),
    "null bytes": (HONEST + "\0", "compile_error", ["null bytes"]),
    "no unicode": (HONEST + "# \ud800", "compile_error", ["Unicode"]),
    "too large": (HONEST + "#" * SOURCE_LIMIT, "compile_error", ["larger than 1024 KiB"]),
    "does not parse": (HONEST + "def (\n", "compile_error", ["importing the file", "SyntaxError"]),
    "no ModelNew": (SOURCE, "compile_error", ["the file defines no ModelNew"]),
    "missing module": ("import no_such_module_at_all", "compile_error", ["no_such_module_at_all"]),
    "raises at import": ("raise ValueError('early')", "compile_error", ["ValueError: early", "line 1"]),
    "is a function": ("def ModelNew(size):\n    return lambda x: x", "runtime_error", ["not a torch.nn.Module"]),
    "is no module": ("class ModelNew:\n    def __init__(self, size): pass", "runtime_error", ["not a torch.nn.Module"]),
    "is a value": ("ModelNew = 5", "runtime_error", ["building ModelNew", "TypeError"]),
    "other arguments": (HONEST.replace("self, size", "self"), "runtime_error", ["building ModelNew", "TypeError"]),
    "no super": (HONEST.replace("super().__init__()", "pass"), "runtime_error", ["AttributeError"]),
    "raises in forward": (returning("raise KeyError('late')"), "runtime_error", ["calling forward", "KeyError", "line 11"]),
    "other arguments of forward": (HONEST.replace("self, x", "self, x, y"), "runtime_error", ["TypeError"]),
    "returns nothing": (returning("pass"), "incorrect", ["structure", "tuple(tensor, tensor)", "None"]),
    "returns an object": (returning("return object()"), "runtime_error", ["object"]),
    "misses an output": (
        returning("return (x.sum(-1),)"),
        "incorrect",
        ["structure", "tuple(tensor, tensor)", "tuple(tensor)"],
    ),
    "one output bare": (returning("return x.sum(-1)"), "incorrect", ["structure"]),
    "one output too many": (returning("return x.sum(-1), x * 2, x + 1"), "incorrect", ["structure"]),
    "a dictionary": (returning("return {'a': x.sum(-1), 'b': x * 2}"), "incorrect", ["structure", "{a: tensor, b: tensor}"]),
    "swapped": (returning("return x * 2, x.sum(-1)"), "incorrect", ["shape [8, 16]", "[8]"]),
    "keeps the dimension": (returning("return x.sum(-1, True), x * 2"), "incorrect", ["output 0 has shape [8, 1]", "[8]"]),
    "expanded": (returning("return x.sum(-1), (x * 2)[:1]"), "incorrect", ["output 1 has shape [1, 16]"]),
    "wider": (returning("return x.sum(-1).double(), x * 2"), "incorrect", ["output 0 has data type float64", "float32"]),
    "narrower": (returning("return x.sum(-1), (x * 2).half()"), "incorrect", ["output 1 has data type float16"]),
    "integers": (returning("return x.sum(-1), (x * 2).int()"), "incorrect", ["output 1 has data type int32"]),
    "far too large": (returning("return x.sum(-1), x.repeat(4096, 64)"), "incorrect", ["output 1 has shape [32768, 1024]"]),
    "empty output": (returning("return x.sum(-1), x[:0]"), "incorrect", ["output 1 has shape [0, 16]"]),
    "wrong values": (returning("return x.sum(-1), x * 3"), "incorrect", ["output 1 is wrong", "the right answer times 1.5"]),
    "a tail": (returning("y = x * 2; y.view(-1)[120:] = 0; return x.sum(-1), y"), "incorrect", ["tail", "[7, 8]"]),
    "unwritten": (returning("return x.sum(-1), torch.full_like(x, float('nan'))"), "incorrect", ["never written"]),
}


def judged(judge: Judge, source: str) -> Verdict:
    return judge.judge(TASK, candidate_from(source), quick=True, timed=False)


@pytest.mark.parametrize("name", BAD)
def test_a_bad_candidate_gets_the_outcome_that_fits(judge: Judge, name: str) -> None:
    source, outcome, words = BAD[name]
    verdict = judged(judge, source)
    assert verdict.outcome == outcome, verdict.diagnosis
    assert not verdict.correct
    assert verdict.speedup == {}
    for word in words:
        assert word in verdict.diagnosis
    assert "Traceback" not in verdict.diagnosis
    assert verdict.task_id == TASK.id


@pytest.mark.rotates
def test_lists_and_tuples_are_the_same(judge: Judge) -> None:
    assert judged(judge, returning("return [x.sum(-1), x * 2]")).correct


def test_the_next_candidate_is_judged_as_if_nothing_had_happened(judge: Judge) -> None:
    for source in ("import os; os._exit(0)", "import os; os.abort()", "raise SystemExit", returning("import os; os._exit(7)")):
        verdict = judged(judge, source)
        assert not verdict.outcome.accepted
        assert not verdict.correct
    verdict = judged(judge, HONEST)
    assert verdict.correct, verdict.diagnosis


def test_a_candidate_sees_neither_the_task_nor_the_reference(judge: Judge) -> None:
    source = returning("import task; return x.sum(-1), x * 2")
    verdict = judged(judge, source)
    assert verdict.outcome == "runtime_error", verdict.diagnosis
    assert "ModuleNotFoundError" in verdict.diagnosis
