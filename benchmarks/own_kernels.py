"""The choice that decides most: whether an answer calls the kernel library for heavy operators or has kernels of its own for all of them.

An answer of the experiments says so in one line of its class, `own = True`. The compiler then writes the kernels, each with what follows it fused in,
in place of the answer's own calls. Where it cannot, the answer stays as it is: the line alone changes nothing that it computes. The compiler runs the
task's code in this process, so this is for tasks of our own and no part of the answer pipeline.
"""

from __future__ import annotations

import ast
import functools

from bottega.compiler.answer_choices import AnswerChange
from bottega.compiler.choices import Choices, Heavy
from bottega.compiler.draft_compiler import KINDS, draft
from bottega.compiler.link import linked
from bottega.compiler.model_class import with_model_class
from bottega.compiler.planner_passes import PASSES
from bottega.compiler.source.text import parsed
from bottega.compiler.step_compiler import lower_task
from bottega.core.errors import BottegaError
from bottega.core.task import Task

PLACE = "structure"
LINE = "own = True"


def with_own_kernels(source: str, task_source: str) -> str:
    """A linked answer as the compiler writes it, if it asks for kernels of its own; else unchanged."""
    if LINE not in source or not _asks(source):
        return source
    own = own_kernels(task_source)
    return linked(own, task_source) if own else source


@functools.lru_cache(256)
def own_kernels(task_source: str) -> str:
    """The module with every heavy operator as a kernel of its own; empty where there is none, or the compiler refuses."""
    try:
        lowered = lower_task(with_model_class(Task(task_source)))
        plan = lowered.plan(frozenset(pass_.name for pass_ in PASSES))
        kinds: tuple[Heavy, ...] = tuple(
            kind for kind, one in KINDS.items() if any(isinstance(kernel, one) for kernel in plan.kernels)
        )
        step = draft(lowered, "triton", Choices(own=kinds)) if kinds else None
        return step.candidate.source if step else ""
    except BottegaError:
        return ""


def own_kernels_change(answer: str) -> AnswerChange | None:
    """The line, as a change of an answer that does not have it."""
    model = _model(answer)
    if model is None or _asks(answer):
        return None
    lines = answer.split("\n")
    at = sum(len(line) + 1 for line in lines[: model.body[0].lineno - 1])
    return AnswerChange(PLACE, LINE, ((at, at, f"    {LINE}\n\n"),))


def _model(source: str) -> ast.ClassDef | None:
    tree = parsed(source)
    found = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "ModelNew"] if tree else []
    return found[-1] if found else None


def _asks(source: str) -> bool:
    model = _model(source)
    return model is not None and any(ast.unparse(statement) == LINE for statement in model.body)
