"""Workloads: sizes and axes of a task's calls as cards ask for them."""

from __future__ import annotations

from typing import Any

import pytest
from module_task import module_task

from bottega.compiler import callgraph_recorder
from bottega.compiler.callgraph_recorder import NoCallGraph, record
from bottega.compiler.callgraph_tracer import shared_tracer
from bottega.compiler.workload import operations_from, operations_in, workload_of
from bottega.core.device import DeviceFacts
from bottega.core.task import Task
from bottega.core.workload import (
    ATTENTION,
    CONVOLUTION,
    ELEMENTWISE,
    LAST_AXIS,
    OTHER,
    OTHER_AXIS,
    POOLING,
    PRODUCT,
    ROW,
    SCAN,
    Operation,
)

DEVICE = DeviceFacts("cpu", "Toy-1", "aarch64", 1, 1.0)
SENT = {"operator": "linear", "kind": PRODUCT, "dtype": "float32", "sizes": {"rows": 4}, "layout": ""}


def operations(body: str, inputs: str, layers: str = "") -> list[Operation]:
    return list(workload_of(record(module_task(body, inputs, "x, y=None", init=layers))).operations)


ROWS: tuple[tuple[str, str, str, dict[str, int], str], ...] = (
    ("torch.softmax(x, dim=-1)", "torch.randn(8, 16, 32)", ROW, {"rows": 128, "columns": 32, "elements": 4096}, LAST_AXIS),
    ("torch.softmax(x, 1)", "torch.randn(8, 16, 32)", ROW, {"rows": 256, "columns": 16}, OTHER_AXIS),
    ("x.sum((2, 3))", "torch.randn(8, 16, 4, 6)", ROW, {"rows": 128, "columns": 24}, LAST_AXIS),
    ("x.mean()", "torch.randn(8, 16)", ROW, {"rows": 1, "columns": 128}, LAST_AXIS),
    ("F.layer_norm(x, (16, 32))", "torch.randn(8, 16, 32)", ROW, {"rows": 8, "columns": 512}, LAST_AXIS),
    ("F.group_norm(x, 4)", "torch.randn(8, 16, 32)", ROW, {"rows": 32, "columns": 128}, LAST_AXIS),
    ("F.batch_norm(x, None, None, training=True)", "torch.randn(8, 16, 32)", ROW, {"rows": 16, "columns": 256}, OTHER_AXIS),
    ("x.max(dim=1)[0]", "torch.randn(8, 16)", ROW, {"rows": 8, "columns": 16}, LAST_AXIS),
    ("torch.cumsum(x, 0)", "torch.randn(8, 16)", SCAN, {"rows": 16, "columns": 8}, OTHER_AXIS),
    ("torch.maximum(x, y)", "torch.randn(8, 16), torch.randn(16)", ELEMENTWISE, {"elements": 128, "columns": 16}, ""),
    ("x - y", "torch.randn(8, 1, 4), torch.randn(16, 1)", ELEMENTWISE, {"elements": 512}, ""),
    ("torch.cat([x, y])", "torch.randn(8, 4), torch.randn(2, 4)", OTHER, {"elements": 32}, ""),
    ("F.max_pool2d(x, 2)", "torch.randn(2, 3, 8, 10)", POOLING, {"elements": 480, "columns": 10}, ""),
    ("x @ y", "torch.randn(3, 8, 16), torch.randn(3, 16, 4)", PRODUCT, {"rows": 8, "columns": 4, "depth": 16, "batch": 3}, ""),
    ("F.conv2d(x, y)", "torch.randn(2, 3, 8, 8), torch.randn(5, 3, 3, 3)", CONVOLUTION, {"channels": 5, "depth": 27, "elements": 384}, ""),
    ("F.scaled_dot_product_attention(x, x, x)", "torch.randn(2, 4, 8, 16)", ATTENTION, {"columns": 16, "elements": 1024}, ""),
)  # fmt: skip


@pytest.mark.parametrize(("body", "inputs", "kind", "sizes", "layout"), ROWS, ids=[row[0] for row in ROWS])
def test_an_operation_has_its_kind_its_sizes_and_its_layout(
    body: str, inputs: str, kind: str, sizes: dict[str, Any], layout: str
) -> None:
    one = operations(body, inputs)[0]
    assert (one.kind, one.layout) == (kind, layout) and sizes.items() <= one.sizes.items()


def test_bytes_are_those_of_operands_and_results_in_their_data_types() -> None:
    (one,) = operations("self.fc(x)", "torch.randn(8, 32, dtype=torch.bfloat16)", "self.fc = nn.Linear(32, 4).bfloat16()")
    assert one.dtype == "bfloat16" and one.sizes["bytes"] == 2 * (8 * 32 + 4 * 32 + 4 + 8 * 4)


def test_calls_that_only_rearrange_are_left_out() -> None:
    found = operations("torch.relu(x.reshape(4, -1).transpose(0, 1).contiguous())", "torch.randn(8, 16)")
    assert [one.operator for one in found] == ["relu"]


def test_masks_and_indices_do_not_say_what_is_computed_in() -> None:
    one = operations("torch.where(x > 0, x, 0.5)", "torch.randn(4, 8)")[-1]
    assert one.operator == "where" and one.dtype == "float32"
    assert operations("x.argmax(-1) + 1", "torch.randn(4, 8)")[-1].dtype == "int64"


def test_a_task_without_a_call_graph_has_no_operations() -> None:
    assert workload_of(None).operations == ()


LOOP = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        state = torch.zeros_like(x[:, 0])
        for step in range(x.shape[1]):
            state = torch.tanh(state @ x[:, step].T) @ x[:, step]
        return state
def get_inputs():
    return [torch.randn(4, 40, 8)]
def get_init_inputs():
    return []
"""


def test_a_task_with_too_many_calls_for_a_graph_is_known_by_those_it_begins_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callgraph_recorder, "BEGINNING", 100)  # here and not in the tracer's process: the rest adds nothing
    with pytest.raises(NoCallGraph):
        record(LOOP)
    sent = operations_in(record(LOOP, beginning=True))
    assert {(one["operator"], one["kind"]) for one in sent} >= {("matmul", PRODUCT), ("tanh", ELEMENTWISE)}
    assert len(sent) < 10, "each kind of operation once, however often the loop comes to it"
    found = shared_tracer()
    workload = found.workload(Task(LOOP, "loop"), DEVICE)
    assert found.trace(Task(LOOP, "loop")) is None
    assert workload.operations == operations_from(sent) and workload.device is DEVICE


@pytest.mark.parametrize(
    "wrong",
    [
        None, 3, {}, [3], [{}], [{**SENT, "operator": "a b"}], [{**SENT, "kind": "magic"}], [{**SENT, "sizes": {"rows": -1}}],
        [{**SENT, "dtype": "x"}], [{**SENT, "sizes": {"rows": True}}], [{**SENT, "layout": "round"}], [{**SENT, "sizes": 3}],
    ],
)  # fmt: skip
def test_what_a_sandbox_sends_is_operations_or_nothing(wrong: Any) -> None:
    assert operations_from([SENT]) and operations_from(wrong) == ()
