"""Networks: a task with several layers keeps its forward, gets its layers exchanged for ours, and is captured in one CUDA graph.

A chain of calls is read from its call graph. A network is read from its text, since its answer needs nothing of the calls: it is always the
same but for the kinds of its layers and the names of its inputs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from bottega.compiler.callgraph import CallGraph

LONGEST_CHAINS = {3: 9, 2: 12}
"""So many layers, at least, in more calls than that are a network. Of nine such blocks that rounds 11 and 12 wrote out as chains one was surely
faster on an H200, the others misread or held up by the host; of 24 networks whose layers were exchanged, 19."""
HOLD_LAYERS = ("multi_head_attention_forward(",)
"""Calls that are several layers in one. Of a transformer's layer with one, ten calls long, two of two were misread as chains."""
FEWEST_LAYERS = 2
"""With weights of their own: others cannot be exchanged."""
HEAVY = ("conv", "linear(", "matmul(", "mm(", "bmm(", "einsum(")
_CAPTURES = re.compile(
    r"\bself\.(?:run|capture|graph|static_\w+)\b|\bdef (?:run|capture)\(|['\"](?:run|capture|graph|static_\w+)['\"]"
)
_OWN_WEIGHTS = re.compile(r"(?:conv|linear\().*\bself\.[\w.\[\]]{1,200}\.weight\b")


def is_network(calls: Collection[str]) -> bool:
    """By the calls of its graph; no calls means that there were too many to record."""
    layers = sum(call.startswith(HEAVY) for call in calls)
    if not calls or any(call.startswith(HOLD_LAYERS) for call in calls):
        return True
    return any(layers >= fewest and len(calls) > longest for fewest, longest in LONGEST_CHAINS.items())


def has_replaceable_layers(graph: CallGraph | None) -> bool:
    """Whether this is the graph of a network whose layers can be exchanged."""
    calls = [call.text for call in graph.calls] if graph else []
    return bool(calls) and is_network(calls) and sum(bool(_OWN_WEIGHTS.match(call)) for call in calls) >= FEWEST_LAYERS


def has_names_of_capture(text: str) -> bool:
    """Whether a module has parts or methods of its own under names that a captured one gives its graph and its methods."""
    return _CAPTURES.search(text) is not None


def result_of(inputs: Sequence[str]) -> str:
    """The attribute that keeps a captured graph's results, also where an input has the usual name."""
    return "self.static_out" if "out" not in inputs else "self.captured_results"


def graph_methods(name: str, inputs: Sequence[str], returns: str) -> tuple[str, list[str]]:
    """The method that captures the method `name`, and the lines of a `forward` that replays it; `returns` is tensor, tuple or list. Where a graph of
    all that the caller does is being captured it is a part of that one."""
    names = ", ".join(inputs)
    held = ", ".join(f"self.static_{each}" for each in inputs)
    clones = ", ".join(f"{each}.clone()" for each in inputs)
    kept = result_of(inputs)
    capture = f"""def capture(self, {names}):
    {held} = {clones}
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        self.{name}({held})
    torch.cuda.current_stream().wait_stream(side)
    self.graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(self.graph):
        {kept} = self.{name}({held})"""
    lines = ["if torch.cuda.is_current_stream_capturing():", f"    return self.{name}({names})"]
    lines += ["if self.graph is None:", f"    self.capture({names})"]
    lines += [f"self.static_{each}.copy_({each})" for each in inputs]
    lines += ["self.graph.replay()"]
    copies = {"tensor": f"{kept}.clone()", "list": f"[out.clone() for out in {kept}]"}
    return capture, [*lines, f"return {copies.get(returns, f'tuple(out.clone() for out in {kept})')}"]
