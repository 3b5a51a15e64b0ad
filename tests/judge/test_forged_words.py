"""Everything that a candidate's process says may be made up. It gets a verdict all the same, and never a good one."""

from __future__ import annotations

import pytest
from module_task import module_task

from bottega.core.task import Task
from bottega.core.verdict import Verdict
from bottega.judge.judge import Judge
from bottega.languages import candidate_from

pytestmark = pytest.mark.rotates

SOURCE = module_task("x * 2, 'label'", "torch.randn(8, 16)")
TASK = Task(SOURCE, name="labelled")
HONEST = SOURCE.replace("class Model(", "class ModelNew(")


def judged(judge: Judge, source: str, timed: bool = False) -> Verdict:
    return judge.judge(TASK, candidate_from(source), quick=True, timed=timed)


FAILURES = {
    "no kind": {"kind": ""},
    "another kind": {"kind": "fine", "stage": "import"},
    "a timeout": {"kind": "timeout"},
    "no list of places": {"where": 5},
    "no text": {"text": None, "where": None, "type": None, "stage": None},
    "nothing": {},
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_made_up_failure_is_a_failure(judge: Judge, name: str) -> None:
    forged = f"import bottega.judge.worker as worker\nworker.describe = lambda *a: {FAILURES[name]!r}\nraise ValueError\n"
    verdict = judged(judge, forged)
    assert not verdict.outcome.accepted, verdict
    assert not verdict.correct


SKELETONS = {
    "a number for a tuple": "{'tuple': 5}",
    "nothing for a tuple": "{'tuple': None}",
    "numbers in a tuple": "{'tuple': [1, 2]}",
    "an unknown kind": "{'tensors': [0]}",
    "a nest": "nest()",
    "a list of everything": "[]",
}


@pytest.mark.parametrize("name", SKELETONS)
def test_a_made_up_structure_is_wrong(judge: Judge, name: str) -> None:
    forged = f"""
import bottega.judge.worker as worker

def nest():
    deep = {{'tensor': 0}}
    for _ in range(400):
        deep = {{'tuple': [deep]}}
    return deep

honest = worker.flatten
worker.flatten = lambda *given: ({SKELETONS[name]}, honest(*given)[1])
{HONEST}"""
    verdict = judged(judge, forged)
    assert verdict.outcome in ("incorrect", "rejected"), verdict.diagnosis
    assert not verdict.correct
    assert len(verdict.diagnosis) < 20_000


SPECS = {
    "a stride beyond numbers": "['float32', [8, 16], [16, 10**30], 0]",
    "an offset beyond numbers": "['float32', [8, 16], [16, 1], 10**30]",
    "an offset before the start": "['float32', [8, 16], [16, 1], -512]",
    "an offset beyond the end": "['float32', [8, 16], [16, 1], 1 << 40]",
    "a shape of text": "['float32', 'ab', [16, 1], 0]",
    "no list": "None",
}


@pytest.mark.parametrize("name", SPECS)
def test_a_made_up_place_is_wrong(judge: Judge, name: str) -> None:
    forged = f"""
from bottega.judge.tensor_transport import TensorSpec
TensorSpec.to_json = lambda self: {SPECS[name]}
{HONEST}"""
    verdict = judged(judge, forged)
    assert verdict.outcome in ("incorrect", "rejected"), verdict.diagnosis
    assert not verdict.correct


@pytest.mark.parametrize("claim", ["10**400", "-10**400", "float('inf')", "'soon'", "None", "[]", "1"])
def test_a_made_up_time_gains_nothing(judge: Judge, claim: str) -> None:
    forged = f"""
from bottega.judge.call_timer import HostTimer
HostTimer.elapsed = lambda self: {claim}
{HONEST}"""
    verdict = judged(judge, forged, timed=True)
    assert verdict.outcome != "faster", verdict.diagnosis


PLACES = {
    "text": "[[str(where[0][0]), where[0][1]]]",
    "strides of text": "[[where[0][0], [str(stride) for stride in where[0][1]]]]",
    "no whole numbers": "[[where[0][0] + 0.5, where[0][1]]]",
    "beyond numbers": "[[10**400, where[0][1]]]",
    "a stride beyond numbers": "[[where[0][0], [10**30, 1]]]",
    "before the start": "[[-1, where[0][1]]]",
    "a nest": "[[[[]]]]",
}


@pytest.mark.parametrize("name", PLACES)
def test_a_made_up_address_is_a_place_where_nothing_is(judge: Judge, name: str) -> None:
    forged = f"""
import bottega.judge.worker as worker
honest = worker.Channel.send

def send(self, message, *rest):
    where = message.get("where")
    return honest(self, {{**message, "where": {PLACES[name]}}} if where else message, *rest)

worker.Channel.send = send
{HONEST}"""
    verdict = judged(judge, forged)
    assert verdict.outcome == "rejected", verdict.diagnosis


def test_a_long_answer_is_the_candidate_s_fault_and_is_told_shortly(judge: Judge) -> None:
    verdict = judged(judge, HONEST.replace("'label'", "'x' * 2_500_000"))
    assert verdict.outcome in ("incorrect", "rejected"), verdict.diagnosis[:500]
    assert len(verdict.diagnosis) < 20_000


ARGMAX = module_task("x.argmax()", "torch.randn(1 << 20)")


def test_a_single_integer_is_looked_at_in_timed_calls_too(judge: Judge) -> None:
    """Right while it is tested, and no work at all once the clock runs."""
    lazy = ARGMAX.replace("class Model(", "class ModelNew(").replace(
        "return x.argmax()",
        "self.calls = getattr(self, 'calls', 0) + 1\n        return x.argmax() if self.calls <= 4 else torch.tensor(7)",
    )
    verdict = judge.judge(Task(ARGMAX, name="argmax"), candidate_from(lazy), quick=True)
    assert not verdict.outcome.accepted, verdict.diagnosis
    assert not verdict.correct


def test_after_all_of_it_an_honest_candidate_is_judged(judge: Judge) -> None:
    verdict = judged(judge, HONEST)
    assert verdict.correct, verdict.diagnosis
