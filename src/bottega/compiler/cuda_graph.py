"""The whole module as one CUDA graph: many small launches become one, and the host no longer holds the device up.

Inputs are copied into the graph's own buffers in every call, and results are copied out, so nothing of one call reaches the next.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from bottega.compiler.compiler_pass import CompilerPass
from bottega.compiler.kernel import FunctionCall, Kernel, Recurrence
from bottega.compiler.module_frame import Frame
from bottega.compiler.network_rule import graph_methods, has_names_of_capture, result_of
from bottega.compiler.plan import KernelPlan

FEWEST_LAUNCHES = 6
RUN = "run"
REPLAY = CompilerPass(
    "graph_replay",
    "Many launches, each shorter than what it takes the host to enqueue it; shapes that never change; a GPU.",
    "Capture the whole module in a CUDA graph and replay it, so that the host enqueues one thing instead of many.",
)


@dataclass(frozen=True)
class ReplayedFrame(Frame):
    """A frame that runs what the writer wrote as `run`, captured once, and replays it."""

    inputs: tuple[str, ...] = ()
    copied: str = ""
    """The replay's results as an expression, where they are in tuples, lists or dictionaries."""

    def render(
        self, imports: Iterable[str], prelude: str, forward: Sequence[str], extra: Sequence[str] = (), after: str = ""
    ) -> str:
        body = f"def {RUN}(self, {', '.join(self.inputs)}):\n" + textwrap.indent("\n".join(forward), "    ")
        capture, lines = graph_methods(RUN, self.inputs, "tensor")
        if self.copied:
            lines[-1] = f"return {self.copied}"
        return super().render(imports, prelude, lines, [*extra, "self.graph = None"], f"{body}\n\n{capture}\n\n{after}")


def with_graph_replay(frame: Frame, plan: KernelPlan) -> Frame | None:
    """The frame with a graph around it, where that can pay and is understood."""
    count = sum(map(launches, plan.kernels))
    returned = ast.parse(plan.returns, mode="eval").body
    if count < FEWEST_LAUNCHES or set(plan.inputs) != set(frame.argument_names) or isinstance(returned, ast.Constant):
        return None
    if plan.changed:  # a replay changes its own copies of the inputs
        return None
    if has_names_of_capture("\n".join((frame.constructor, frame.methods, *plan.buffers))):
        return None
    copied = _copied(returned, result_of(plan.inputs)) if isinstance(returned, ast.Tuple | ast.List | ast.Dict) else ""
    given = {field.name: getattr(frame, field.name) for field in fields(Frame)}
    return ReplayedFrame(**given, inputs=plan.inputs, copied=copied)


def _copied(returned: ast.expr, place: str) -> str:
    """What is returned, each tensor a copy of the one at its place in the graph's results."""
    if isinstance(returned, ast.Dict):
        keys = [ast.unparse(key) for key in returned.keys if key is not None]
        return "{" + ", ".join(f"{key}: {_copied(each, f'{place}[{key}]')}" for key, each in zip(keys, returned.values)) + "}"
    if not isinstance(returned, ast.Tuple | ast.List):
        return f"{place}.clone()" if _is_tensor(returned) else ast.unparse(returned)
    inside = ", ".join(_copied(each, f"{place}[{number}]") for number, each in enumerate(returned.elts))
    if isinstance(returned, ast.List):
        return f"[{inside}]"
    return f"({inside},)" if len(returned.elts) == 1 else f"({inside})"


def _is_tensor(returned: ast.expr) -> bool:
    """Not so are -1, float('inf') and torch.float32, which name no variable."""
    return any(isinstance(node, ast.Name) and node.id not in ("float", "torch") for node in ast.walk(returned))


def launches(kernel: Kernel) -> int:
    """How many a kernel takes, or about how many where torch runs a layer."""
    if isinstance(kernel, Recurrence):
        return kernel.steps
    return 3 if isinstance(kernel, FunctionCall) and kernel.function.startswith("self.") else 1
