"""A running program's modules as tasks: results do not change, shapes, types and strides are the real ones, and a kill loses nothing reported."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import bottega
from bottega.core.arguments import read_arguments
from bottega.core.errors import TaskError, UsageError
from bottega.judge.loading import import_source
from bottega.tasks import capture_calls
from bottega.tasks.capture import task_of_call
from bottega.tasks.capture_calls import read_capture

PROGRAM = """
import sys, time, torch
from torch import nn
from near import SLOPE

BIAS = 0.25

class Gate(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x, shift=BIAS):
        return torch.tanh(x * SLOPE + shift) * self.weight

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), Gate(16)).eval()
with torch.no_grad():
    while True:
        answer = model(torch.randn(4, 8))
        if sys.argv[1:] != ["forever"]:
            break
        time.sleep(0.02)
print(repr(float(answer.sum())))
"""


class Masked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8).bfloat16()
        self.tied = self.linear
        self.register_buffer("table", torch.linspace(0, 1, 8).bfloat16(), persistent=False)

    def forward(self, x: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor, *, gain: float) -> torch.Tensor:
        return (self.linear(x) + self.table[positions]).masked_fill(mask, 0) * gain


def program(folder: Path) -> Path:
    (folder / "near.py").write_text("SLOPE = 1.5\n")
    (folder / "serve.py").write_text(PROGRAM)
    return folder / "serve.py"


class Needing(nn.Module):
    def forward(
        self,
        x: torch.Tensor,
        mask: torch.Tensor | None,
        more: torch.Tensor | None = None,
        twice: bool | None = False,
        **rest: Any,
    ) -> torch.Tensor:
        return x if mask is None else x + mask


def test_none_is_written_down_where_it_is_not_the_default() -> None:
    given = {"mask": None, "more": None, "twice": None, "other": None}
    made = import_source(task_of_call(Needing(), (torch.ones(3),), given).task.source, "task")
    assert made.get_inputs()[1] == {"mask": None, "twice": None, "other": None}


@torch.no_grad()
def test_a_call_is_written_down_with_its_shapes_types_strides_and_masks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    module = Masked().eval()
    module.register_forward_hook(lambda *_: None)
    x = torch.randn(6, 8, 2, dtype=torch.bfloat16).transpose(1, 2)[:, 0].contiguous().t().contiguous().t()
    mask, positions = torch.ones(6, 8, dtype=torch.bool).tril(), torch.arange(8)
    written = task_of_call(module, (x, mask), {"positions": positions, "gain": 2.0})
    task = import_source(written.task.source, "task")
    made, other = task.Model(), task.Model()
    assert type(made) is Masked and not made.training and not made._forward_hooks and made.tied is made.linear
    assert made.linear.weight.dtype is torch.bfloat16 and not torch.equal(made.linear.weight, other.linear.weight)
    assert torch.equal(made.table, module.table)
    given, again = (read_arguments(task.get_inputs(), made.forward) for _ in range(2))
    drawn = given.positional[0]
    assert (drawn.shape, drawn.dtype, drawn.stride()) == (x.shape, x.dtype, x.stride())
    assert not torch.equal(drawn, again.positional[0])
    assert torch.equal(given.positional[1], mask) and torch.equal(given.positional[2], positions)
    assert given.keywords == {"gain": 2.0}
    assert made(*given.positional, **given.keywords).shape == (6, 8)


def test_slices_and_expanded_tensors_lie_as_they_lay() -> None:
    given = [
        torch.randn(4, 8, 6)[:, :3],
        torch.randn(1, 5).expand(4, 5),
        torch.tensor([[True], [False]]).expand(2, 9),
        torch.ones(0, 2),
    ]
    made = import_source(task_of_call(nn.Identity(), tuple(given), {}).task.source, "task").get_inputs()[0]
    assert [(each.shape, each.stride()) for each in made] == [(each.shape, each.stride()) for each in given]
    assert torch.equal(made[2], given[2])
    (windows,) = import_source(
        task_of_call(nn.Identity(), (torch.randn(9).unfold(0, 4, 1),), {}).task.source, "task"
    ).get_inputs()[0]
    assert windows.is_contiguous() and windows.shape == (6, 4)


def test_what_cannot_be_written_down_says_why() -> None:
    with pytest.raises(TaskError, match="an argument of type PosixPath"):
        task_of_call(nn.Identity(), (Path(),), {})
    module = nn.Identity()
    module.function = lambda: None  # type: ignore[assignment]
    with pytest.raises(TaskError, match="cannot be written down"):
        task_of_call(module, (torch.ones(1),), {})

    class Hidden(nn.GELU):
        pass

    with pytest.raises(TaskError, match=r"Hidden is defined inside of a function.*top of its file"):
        task_of_call(nn.Sequential(Hidden()), (torch.ones(1),), {})


class Keeping(nn.Module):
    def forward(self, x: torch.Tensor, path: Path) -> torch.Tensor:
        return x + 1


class Cache: ...


class Caching(nn.Module):
    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        return {"y": x + 1, "past": [Cache()]}


@torch.no_grad()
def test_the_table_says_why_a_call_is_no_task(tmp_path: Path) -> None:
    with bottega.capture(tmp_path) as calls:
        Keeping()(torch.ones(3), Path())
        Caching()(torch.ones(4))
    assert "  [not searched: an argument of type PosixPath" in calls.report
    assert "  [not searched: a result with a Cache in it]" in calls.report
    assert not any(call.searchable for call in calls), "a search would only find out again"


@torch.no_grad()
def test_products_of_a_type_that_this_cpu_has_none_of_are_worth_a_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, x = nn.Sequential(nn.Linear(8, 8), nn.Embedding(9, 8)).bfloat16(), torch.randn(4, 8).bfloat16()
    for slow, gain in ((frozenset(), False), (frozenset({"bfloat16"}), True)):
        monkeypatch.setattr(capture_calls, "slow_types", lambda slow=slow: slow)
        with bottega.capture(tmp_path / str(gain)) as calls:
            model[0](x)
            model[1](torch.arange(4))
        assert {call.name: call.light_seconds > 0 for call in calls} == {"Linear": gain, "Embedding": False}


def test_calls_are_counted_by_class_and_shape_and_answers_do_not_change(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8), nn.GELU()).eval()
    x = torch.randn(4, 8)
    expected = model(x)
    with bottega.capture(tmp_path / "capture") as calls:
        model(x)
        answer = model(x)
        model(x[:2])
        with pytest.raises(RuntimeError):
            model(torch.randn(4, 9))
    model(x)
    assert torch.equal(answer, expected)
    assert not nn.modules.module._has_any_global_hook()  # torch.compile would warn of them from then on
    counted = {(call.name, call.shapes): call.count for call in calls}
    assert counted == {
        ("Sequential", "float32[4, 8]"): 2, ("Sequential", "float32[2, 8]"): 1,
        ("Linear", "float32[4, 8]"): 4, ("Linear", "float32[2, 8]"): 2,
        ("GELU", "float32[4, 8]"): 2, ("GELU", "float32[2, 8]"): 1,
    }  # fmt: skip
    linear = next(call for call in calls if call.name == "Linear")
    assert linear.light_seconds == 0 and "Linear" in calls.report and "light: outside of products" in calls.report
    read = read_capture(tmp_path / "capture")
    assert {(call.name, call.shapes): call.count for call in read} == counted
    assert all((tmp_path / "capture" / call.task).is_file() for call in read)
    with pytest.raises(UsageError, match="no capture"):
        read_capture(tmp_path)


def test_modules_that_differ_in_a_flag_are_of_two_kinds(tmp_path: Path) -> None:
    gates = [nn.ReLU(), nn.ReLU(), nn.ReLU()]
    for number, (gate, decodes) in enumerate(zip(gates, (True, True, False))):
        gate.number, gate.decodes = number, decodes  # type: ignore[assignment]
    with bottega.capture(tmp_path / "capture") as calls:
        nn.Sequential(*gates)(torch.ones(4))
    assert sorted(call.count for call in calls if call.name == "ReLU") == [1, 2]


@torch.no_grad()
def test_captures_into_one_folder_add_up_also_those_of_one_process_and_of_its_forks(tmp_path: Path) -> None:
    gate = nn.ReLU()  # of oneDNN's operators, as GELU is one, a fork cannot run any once its parent has used threads
    for _ in range(2):
        with bottega.capture(tmp_path) as calls:
            gate(torch.ones(4))
            if (child := os.fork()) == 0:
                try:
                    gate(torch.ones(4))
                    calls.flush()
                finally:
                    os._exit(0)
            os.waitpid(child, 0)
        assert [call.count for call in calls] == [1]
    assert [call.count for call in read_capture(tmp_path)] == [4]


@torch.no_grad()
def test_what_goes_wrong_in_a_capture_ends_it_and_not_the_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = nn.Sequential(nn.GELU(), nn.Tanh())
    expected = model(torch.ones(4))
    with bottega.capture(tmp_path) as calls:
        model[0](torch.ones(2))
        calls.flush()
        calls._file = open("/dev/full", "w")  # noqa: SIM115
        assert torch.equal(model(torch.ones(4)), expected)
    assert capsys.readouterr().err.count("the capture ends here, the program goes on: No space left on device") == 1
    assert [call.count for call in read_capture(tmp_path)] == [1]


def command(tmp_path: Path, *arguments: str) -> list[str]:
    own = [sys.executable, "-m", "bottega.app.cli", "capture", "--out", str(tmp_path / "capture"), "--"]
    return [*own, "python", str(program(tmp_path)), *arguments]


@pytest.mark.rotates
def test_a_program_runs_as_it_does_alone_and_its_modules_are_tasks_that_stand_alone(tmp_path: Path) -> None:
    alone = subprocess.run([sys.executable, str(program(tmp_path))], capture_output=True, text=True, check=True)
    told = subprocess.run(command(tmp_path), capture_output=True, text=True, check=True)
    assert told.stdout == alone.stdout and "go on with: bottega optimize" in told.stderr
    calls = {call.name: call for call in read_capture(tmp_path / "capture")}
    assert calls["Gate"].shapes == "float32[4, 16]" and calls["Gate"].inside == [calls["Sequential"].key]
    check = f"import runpy; task = runpy.run_path({str(tmp_path / 'capture' / calls['Gate'].task)!r}); "
    check += "print(task['Model']()(*task['get_inputs']()[0]).shape)"
    ran = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, cwd="/", check=True)
    assert ran.stdout == "torch.Size([4, 16])\n"


def test_a_folder_that_cannot_be_is_told_before_the_program_runs(tmp_path: Path) -> None:
    (tmp_path / "capture").write_text("a file")
    told = subprocess.run(command(tmp_path), capture_output=True, text=True, check=False)
    assert told.returncode == 2 and not told.stdout and "nothing can be captured there: File exists" in told.stderr


@pytest.mark.rotates
def test_a_program_that_is_killed_loses_nothing_that_was_written(tmp_path: Path) -> None:
    running = subprocess.Popen(command(tmp_path, "forever"), stderr=subprocess.DEVNULL, start_new_session=True)
    folder, deadline = tmp_path / "capture", time.monotonic() + 120
    while time.monotonic() < deadline:
        if any(folder.glob("calls-*.jsonl")) and any(call.count > 2 for call in read_capture(folder)):
            break
        time.sleep(0.2)
    before = {call.key: call.count for call in read_capture(folder)}
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    after = {call.key: call.count for call in read_capture(folder)}
    assert before and all(after[key] >= count for key, count in before.items())
    assert all((folder / call.task).is_file() for call in read_capture(folder))


@pytest.mark.rotates
def test_sigterm_reaches_the_program(tmp_path: Path) -> None:
    own = [
        sys.executable,
        "-m",
        "bottega.app.cli",
        "capture",
        "--out",
        str(tmp_path),
        "--",
        "sh",
        "-c",
        "echo $$; exec sleep 60",
    ]
    with subprocess.Popen(own, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
        assert running.stdout is not None
        program_pid = int(running.stdout.readline())
        running.terminate()
        assert running.wait(30) == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(program_pid, 0)


def test_the_first_call_of_a_kind_is_on_disk_at_once_and_those_of_a_worker_when_it_ends(tmp_path: Path) -> None:
    gate = nn.ReLU()
    with bottega.capture(tmp_path):
        gate(torch.ones(3))
        assert [call.count for call in read_capture(tmp_path)] == [1]
        worker = multiprocessing.get_context("fork").Process(target=lambda: [gate(torch.ones(3)) for _ in range(3)])
        worker.start()
        worker.join(60)
    assert [call.count for call in read_capture(tmp_path)] == [4]


class Slow(nn.ReLU):
    def __getstate__(self) -> dict[str, object]:
        time.sleep(0.3)  # while it is written down, others go on
        return dict(self.__dict__)


def test_calls_of_all_threads_are_counted(tmp_path: Path) -> None:
    model = Slow()

    def work() -> None:
        for _ in range(20):
            model(torch.ones(4))

    with bottega.capture(tmp_path, model) as calls:
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [call.count for call in calls] == [60]


class Event:
    """Of a GPU that is as fast as this CPU, and done when it is waited for."""

    def __init__(self, enable_timing: bool) -> None:
        self.done = False

    def record(self) -> None:
        self.at = time.perf_counter()

    def query(self) -> bool:
        return self.done

    def synchronize(self) -> None:
        self.done = True

    def elapsed_time(self, end: Event) -> float:
        return (end.at - self.at) * 1e3


class Sleeps(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.05)
        return super().forward(x)


class Around(nn.Module):
    def __init__(self, times: int) -> None:
        super().__init__()
        self.inner, self.times, self.slow = Sleeps(4, 4), times, Slow()
        self.say = f"{times} times"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(self.times):
            x = self.inner(x)
        return self.slow(x)


def test_on_a_gpu_writing_is_no_time_and_products_count_where_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    with bottega.capture(tmp_path) as calls:
        nn.Sequential(Around(1), Around(3))(torch.ones(2, 4))
    found = {(call.name, round(call.heavy_seconds / 0.05)): call for call in calls}
    assert set(found) == {("Sequential", 4), ("Around", 1), ("Around", 3), ("Sleeps", 4), ("Slow", 0)}
    assert all(call.light_seconds < 0.1 for call in calls)  # 0.3 s and more were spent on writing
    assert {call.key: call.seconds for call in read_capture(tmp_path)} == {call.key: call.seconds for call in calls}


def test_names_are_those_in_the_outermost_module_that_was_called(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Sequential(nn.Tanh()), nn.Tanh())
    with bottega.capture(tmp_path):
        model(torch.ones(2))
        model[0](torch.ones(2))
    found = {call.parts: call.places for call in read_capture(tmp_path)}
    assert found == {4: [""], 2: ["0", ""], 1: ["0.0", "1", "0"]}
