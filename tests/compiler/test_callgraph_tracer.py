"""Call graphs recorded in sandboxes: no task kills, holds up or forges the call graph of another one."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from bottega.compiler import callgraph_tracer as module
from bottega.compiler.callgraph import LONGEST
from bottega.compiler.callgraph_tracer import CallGraphTracer, Traced, shared_tracer
from bottega.core.task import Task

SOURCE = """\
{before}
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) @ x.T


def get_inputs():
    return [torch.randn({rows}, 16)]


def get_init_inputs():
    return []
"""
FORGED = """\
import json, os, struct
graph = {'inputs': [], 'weights': [], 'calls': [], 'returned': 'forged'}
body = json.dumps({'graph': graph, 'number': '0'}).encode()
frame = struct.pack('<I', len(body)) + body
"""
DEEPER = "\n        "
EVERYWHERE = "for fd in range(3, 300):\n    try:\n        os.write(fd, frame * 50)\n    except OSError:\n        pass\n"

rows_of_another = itertools.count(1000)


def task(rows: int = 8, before: str = "") -> Task:
    return Task(SOURCE.format(rows=rows, before=before))


def traced(tracer: CallGraphTracer, task: Task) -> str:
    """As text; empty where there is none."""
    graph = tracer.trace(task)
    return "" if graph is None else graph.text


def told(rows: int, dtype: str = "") -> str:
    calls = f"t1 = relu(x) {rows}x16{dtype}\nt2 = T(x) 16x{rows}{dtype}\nt3 = matmul(t1, t2) {rows}x{rows}{dtype}"
    return f"forward(x)\nx {rows}x16{dtype}\n{calls}\nreturn t3"


@pytest.fixture(scope="module")
def tracer() -> Iterator[CallGraphTracer]:
    with CallGraphTracer() as one:
        yield one


@pytest.mark.rotates
def test_one_sandbox_records_one_after_the_other_and_each_once(tracer: CallGraphTracer) -> None:
    assert [traced(tracer, task(rows)) for rows in (2, 3, 4)] == [told(2), told(3), told(4)]
    (recorder,) = tracer._idle
    drawn = recorder.asked
    assert traced(tracer, task(2, before="# the same task")) == told(2) and recorder.asked == drawn


@pytest.mark.rotates
@pytest.mark.parametrize(
    "before",
    [
        "import os; os.kill(os.getpid(), 9)",
        "import os; os.kill(os.getppid(), 9)",
        "import os; os._exit(0)",
        "import os; os.closerange(0, 1000)",
        "raise SystemExit(0)",
        "raise KeyboardInterrupt",
        "raise BaseException",
        "while True: pass",
        "memory = bytearray(40 << 30)",
        "import os; open(f'/proc/{os.getppid()}/mem', 'r+b')",
        "import os\nfor fd in range(3, 300):\n    try:\n        os.write(fd, b'\\xff' * 99)\n    except OSError:\n        pass\n",
        "1 / 0",
    ],
)
def test_a_task_that_breaks_its_sandbox_has_no_callgraph_and_the_next_one_has(
    tracer: CallGraphTracer, before: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as hasty:
        hasty.setattr(tracer, "seconds", 1.0)
        assert traced(tracer, task(8, before)) == ""
    rows = next(rows_of_another)
    assert traced(tracer, task(rows)) == told(rows)


@pytest.mark.parametrize(
    ("before", "dtype"),
    [
        ("import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(1000)", ""),
        pytest.param("for _ in range(20): print('x' * 1000000)", "", marks=pytest.mark.rotates),
        pytest.param("import torch\ntorch.set_default_dtype(torch.float64)", " float64", marks=pytest.mark.rotates),
        ("import torch\ntorch.relu = torch.sigmoid\nimport bottega.compiler.callgraph_recorder as s\ns.MOST_CALLS = 0\ns.record = None", None),
        (FORGED + "import threading, time\ndef late():\n    time.sleep(0.2)\n    while True:\n        "
         + EVERYWHERE.replace("\n", DEEPER) + "\nthreading.Thread(target=late, daemon=True).start()", None),
        pytest.param(FORGED + "import time\nif os.fork() == 0:\n    while True:\n        time.sleep(0.01)\n        "
                     + EVERYWHERE.replace("\n", DEEPER), None, marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_what_a_task_leaves_behind_is_not_found_by_the_next(tracer: CallGraphTracer, before: str, dtype: str | None) -> None:
    drawn = traced(tracer, task(8, before))
    assert dtype is None or drawn == told(8, dtype)  # about itself it may say what it likes
    for _ in range(3):
        rows = next(rows_of_another)
        assert traced(tracer, task(rows)) == told(rows)


def test_a_forged_answer_is_about_nobody_else(tracer: CallGraphTracer) -> None:
    assert traced(tracer, task(8, FORGED + EVERYWHERE + "import time\ntime.sleep(1000)")) == "forward()\nreturn forged"
    rows = [next(rows_of_another) for _ in range(3)]
    assert [traced(tracer, task(one)) for one in rows] == [told(one) for one in rows]


@pytest.mark.rotates
def test_an_answer_to_another_question_costs_the_sandbox(tracer: CallGraphTracer) -> None:
    """The sandbox's own process is out of the tasks' reach, so the test asks for it: a question is put by hand, and its answer is late."""
    traced(tracer, task(next(rows_of_another)))
    (recorder,) = tracer._idle
    recorder.channel.send({"number": "early", "source": task(5).source, "seconds": 2.0})
    rows = next(rows_of_another)
    assert traced(tracer, task(rows)) == told(rows)
    assert recorder not in tracer._idle


def test_a_text_without_end_is_no_callgraph(tracer: CallGraphTracer) -> None:
    long = FORGED.replace("'forged'", f"'x' * {LONGEST + 1}") + EVERYWHERE + "import time\ntime.sleep(1000)"
    assert traced(tracer, task(8, long)) == ""
    assert traced(tracer, task(8, f"x = {'1 + ' * module.LONGEST_SOURCE}1")) == ""
    assert traced(tracer, Task("def (")) == ""


@pytest.mark.rotates
def test_threads_that_ask_at_once(tracer: CallGraphTracer) -> None:
    tasks = [next(rows_of_another) for _ in range(6)] * 2
    with ThreadPoolExecutor(12) as threads:
        assert list(threads.map(lambda rows: traced(tracer, task(rows)), tasks)) == [told(rows) for rows in tasks]


@pytest.mark.rotates
def test_closing_ends_what_is_being_recorded_and_keeps_nothing_of_it() -> None:
    one = CallGraphTracer(seconds=60.0)
    assert traced(one, task(8)) == told(8)
    answers: list[Traced] = []
    asking = threading.Thread(target=lambda: answers.append(one.traced(task(8, "import time\ntime.sleep(1000)"))))
    asking.start()
    while one._idle:
        time.sleep(0.01)
    one.close()
    asking.join(30)
    unsettled = Traced(None, settled=False)
    assert answers == [unsettled] and one.traced(task(9)) == unsettled and traced(one, task(9)) == ""
    assert traced(one, task(8)) == told(8)  # known
    one.close()


def test_a_worn_sandbox_is_replaced(monkeypatch: pytest.MonkeyPatch, tracer: CallGraphTracer) -> None:
    monkeypatch.setattr(module, "TASKS_PER_SANDBOX", 1)
    rows = next(rows_of_another)
    assert traced(tracer, task(rows)) == told(rows)


def test_the_shared_one_is_one() -> None:
    assert shared_tracer() is shared_tracer()
