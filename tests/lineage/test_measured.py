"""Where a lineage card applies: the operation that most of a task's work is in, and a stated range around its size."""

from __future__ import annotations

from bottega.core.device import DeviceFacts
from bottega.core.skill import AppliesTo
from bottega.core.workload import ELEMENTWISE, PRODUCT, ROW, Operation, Workload
from bottega.lineage.measured import main_operation, measured_conditions

H200 = DeviceFacts("cuda", "NVIDIA H200", "sm_90", 132, 141.0)
SMALL = Operation("linear", PRODUCT, "float32", {"rows": 4, "bytes": 1_000})
LARGE = Operation("matmul", PRODUCT, "bfloat16", {"rows": 8, "bytes": 8_000})
SOFTMAX = Operation("softmax", ROW, "float32", {"bytes": 90_000})
RELU = Operation("relu", ELEMENTWISE, "float32", {"bytes": 100_000})


def test_the_work_is_in_the_heaviest_kind_and_there_in_what_moves_most() -> None:
    assert main_operation(Workload((RELU, SOFTMAX, SMALL, LARGE))) is LARGE
    assert main_operation(Workload((RELU, SOFTMAX))) is SOFTMAX
    assert main_operation(Workload(())) is None


def test_a_range_is_an_eighth_of_the_least_to_eight_times_the_most() -> None:
    found = measured_conditions([Workload((SMALL,), H200), Workload((RELU, LARGE), H200)])
    assert found == AppliesTo(("sm_90",), ("float32", "bfloat16"), kinds=("product",), sizes={"bytes": (125, 64_000)})


def test_what_is_not_known_is_not_asked_for() -> None:
    assert measured_conditions([Workload((), H200)]) == AppliesTo(("sm_90",))
    assert not measured_conditions([Workload((), None)])


def test_what_was_not_timed_says_nothing_of_devices_and_sizes() -> None:
    """Triton in its interpreter: `aarch64` on a card for GPUs would hold nowhere, and the library refuses such a card."""
    cpu = DeviceFacts("cpu", "Neoverse", "aarch64 asimd", 2, 16.0)
    found = measured_conditions([Workload((RELU, SOFTMAX), cpu)], timed=False)
    assert found == AppliesTo(dtypes=("float32",), kinds=("row",))
