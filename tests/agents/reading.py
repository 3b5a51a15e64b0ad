"""Lint rules and repairs applied to a Triton answer of a model that was trained on call graphs."""

from __future__ import annotations

from graph_text import graph

from bottega.agents.answers.context import AnswerContext
from bottega.agents.answers.lint import Lint
from bottega.agents.answers.repairs import Repair


def context(callgraph: str = "", task_source: str = "") -> AnswerContext:
    """`callgraph` as text."""
    return AnswerContext(task_source, "triton", "terse", graph(callgraph))


def messages(check: Lint, source: str, callgraph: str) -> tuple[str, ...]:
    return tuple(finding.message for finding in check(source, context(callgraph)))


def repaired(repair: Repair, source: str, callgraph: str = "", task_source: str = "") -> str:
    return repair(source, context(callgraph, task_source))
