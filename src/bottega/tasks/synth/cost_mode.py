"""Notes what torch does on the meta device: bytes, operations and a launch for each operator that is no view.

Recurrent layers would be carried out step by step there, in Python; their costs follow from their weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from bottega.tasks.synth.costs import OperatorCost

FREE = frozenset(
    ("empty", "empty_like", "empty_strided", "detach", "lift_fresh", "arange", "zeros", "zeros_like", "_unsafe_view")
)
SLOW = {
    "exp": 5, "log": 5, "tanh": 6, "sigmoid": 6, "gelu": 8, "silu": 6, "mish": 9, "softplus": 7, "elu": 5, "erf": 6, "sin": 5, "cos": 5, "pow": 3,
    "atan": 6, "softmax": 9, "cum": 8, "sort": 40, "topk": 30, "median": 40, "scatter": 10, "index": 4, "norm": 6, "arg": 10, "upsample": 8,
    "pool": 9, "mean": 3, "sum": 3, "max": 3, "min": 3, "var": 6, "std": 6,
}  # fmt: skip
"""Operations for each element, by a part of the operator's name; 1 for all others."""
RECURRENT = ("gru", "lstm", "rnn_tanh", "rnn_relu")


@contextmanager
def counting() -> Iterator[list[OperatorCost]]:
    """The costs of all that is run within."""
    costs: list[OperatorCost] = []
    with _CostMode(costs), _RecurrentMode(costs):
        yield costs


class _CostMode(TorchDispatchMode):
    def __init__(self, costs: list[OperatorCost]) -> None:
        super().__init__()
        self.costs = costs

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        packet, returns = func._overloadpacket, func._schema.returns
        name = packet.__name__
        is_view = bool(returns) and returns[0].alias_info is not None and not returns[0].alias_info.is_write
        if not is_view and name not in FREE:
            tensors = [one for one in tree_leaves((args, kwargs or {}, out)) if isinstance(one, torch.Tensor)]
            moved = sum(one.numel() * one.element_size() for one in tensors)
            if packet in flop_registry:
                kind = "conv" if "conv" in name else "matmul"
                self.costs.append(OperatorCost(moved, flop_registry[packet](*args, **(kwargs or {}), out_val=out), kind))
            else:
                slow = max((times for part, times in SLOW.items() if part in name), default=1)
                self.costs.append(OperatorCost(moved, slow * max((one.numel() for one in tensors), default=0)))
        return out


class _RecurrentMode(TorchFunctionMode):
    def __init__(self, costs: list[OperatorCost]) -> None:
        super().__init__()
        self.costs = costs

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") not in RECURRENT:
            return func(*args, **(kwargs or {}))
        x, state, weights, _, layers, _, _, both, _ = args
        states = state if isinstance(state, tuple) else (state,)
        batch, steps, _ = x.shape
        matrices = sum(weight.numel() for weight in weights if weight.dim() > 1)
        times = layers * (2 if both else 1)
        self.costs += [OperatorCost(4.0 * matrices / times, 2.0 * batch * matrices / times, "matmul")] * (steps * times)
        return x.new_empty(batch, steps, states[0].shape[-1] * (2 if both else 1)), *states


def source_costs(source: str) -> list[OperatorCost]:
    """What one call of a whole task costs."""
    space: dict[str, Any] = {}
    with torch.device("meta"), torch.no_grad():
        exec(compile(source, "task", "exec"), space)
        model, given = space["Model"](*space["get_init_inputs"]()), space["get_inputs"]()
        with counting() as costs:
            model(*given)
    return costs
