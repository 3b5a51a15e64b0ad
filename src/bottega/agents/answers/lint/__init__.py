"""Lint rules: static checks of an answer. Several rules may be found by one function, which then runs once; each finding names its rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bottega.agents.answers.context import AnswerContext
from bottega.agents.answers.lint.bounds import check_bounds
from bottega.agents.answers.lint.call_order import check_call_order
from bottega.agents.answers.lint.callgraph import check_operands
from bottega.agents.answers.lint.shapes import check_shapes
from bottega.compiler.source.check import check
from bottega.compiler.source.finding import Finding

Lint = Callable[[str, AnswerContext], Sequence[Finding]]


def check_file(source: str, context: AnswerContext) -> Sequence[Finding]:
    """What is certain to fail, in answers of any model and language."""
    return check(source, context.task_source, context.language)


LINT: dict[str, Lint] = {
    "syntax": check_file,
    "undefined_name": check_file,
    "read_before_assignment": check_file,
    "call_signature": check_file,
    "method_signature": check_file,
    "unknown_attribute": check_file,
    "other_operand": check_operands,
    "missing_operand": check_operands,
    "call_not_in_graph": check_call_order,
    "call_without_kernel": check_call_order,
    "call_not_in_forward": check_call_order,
    "product_without_sum": check_call_order,
    "call_left_out": check_call_order,
    "no_such_dimension": check_shapes,
    "size_for_result": check_shapes,
    "wrong_allocation": check_shapes,
    "first_read_for_all": check_shapes,
    "scalar_read_as_many": check_shapes,
    "lookup_shape": check_shapes,
    "too_few_elements": check_shapes,
    "kernel_of_another_call": check_shapes,
    "other_results": check_shapes,
    "no_reduction": check_shapes,
    "out_of_bounds": check_bounds,
    "incomplete_write": check_bounds,
    "incomplete_read": check_bounds,
    "block_shapes": check_bounds,
}
"""Every rule by name, with the function that finds it."""
