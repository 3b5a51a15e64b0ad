"""Which parts of a whole model stay, in each form. Speeds are made up, since a clock would decide otherwise; parts are files, as delivered."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from python_graphs import PythonGraphs
from torch import nn

from bottega.core.arguments import Arguments
from bottega.core.verdict import Speedup
from bottega.episodes.delivery import end_to_end, final
from bottega.episodes.delivery.answer_distance import AnswerDistance
from bottega.episodes.delivery.drop_in.recorded import Recorded
from bottega.episodes.delivery.end_to_end import EndToEnd
from bottega.episodes.delivery.form_process import FormProcess
from bottega.episodes.delivery.whole_model import FormResult, Part, PartResult, WholeModel, placed, report_of
from bottega.episodes.settings import EpisodeSettings
from bottega.tasks.capture import task_of_call

FILE = """\
from torch import nn


class Faster(nn.Module):
    gain = {gain}

    def __init__(self, original):
        super().__init__()
        self.original = original

    def forward(self, x):
        return self.original(x) {change}


def load(original, ignore=()):
    return Faster(original)
"""


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.three = nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8)
        self.again = self.three

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.again(self.three(self.two(self.one(x))))


def made_up(
    models: Any, call: Any, times: dict[str, list[float]] | None = None, turn: Any = None
) -> dict[str, dict[str, Speedup]]:
    speed = {name: 1.0 + sum(getattr(part, "gain", 0.0) for part in model.modules()) for name, model in models.items()}
    if times is not None:
        times |= {name: [1 / value] for name, value in speed.items()}
    return {
        a: {b: Speedup(speed[a] / speed[b], speed[a] / speed[b] - 0.01, speed[a] / speed[b] + 0.01) for b in models}
        for a in models
    }


def part(folder: Path, place: str, gain: float, change: str = "") -> Part:
    (folder / place).mkdir()
    (folder / place / "optimized.py").write_text(FILE.format(gain=gain, change=change))
    places = ("three", "again") if place == "three" else (place,)
    return Part(place, places, place)


def chosen(tmp_path: Path, parts: list[Part], **plain: Any) -> FormResult:
    found = EndToEnd(Net(), Arguments((torch.randn(4, 8),), {}), tmp_path, say=lambda text: None)
    *_, last = found.choose(parts, **plain)
    return last


def test_a_part_stays_where_the_whole_is_faster_with_it_and_as_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(end_to_end, "compared", made_up)
    parts = [part(tmp_path, "one", 1.0), part(tmp_path, "two", -0.5), part(tmp_path, "three", 1.0, "* 1.01")]
    found = chosen(tmp_path, parts)
    assert {each.part.label: each.kept for each in found.parts} == {"one": True, "two": False, "three": False}
    assert "does not help" in found.parts[1].reason and "its answers are off by 0.0" in found.parts[2].reason
    assert found.speedups["eager"].point == 2.0 and found.error == 0 and found.exact_in == "fp64"
    plain = FormResult("eager", tuple(PartResult(each, None, True) for each in parts[:2]))
    together = chosen(tmp_path, parts[:2], plain=plain)  # surely faster, and faster still without one of them
    assert {each.part.label: each.kept for each in together.parts} == {"one": True, "two": False}
    assert together.parts[0].speedup is not None and together.parts[0].speedup.point == 3.0  # 1.5 with it, 0.5 without


@pytest.mark.parametrize(("gain", "part_gain"), [(0.5, 1.0), (0.0, 1.0), (0.5, -0.5)])
def test_calls_stay_recorded_where_that_makes_the_whole_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gain: float, part_gain: float
) -> None:
    def timed(models: Any, call: Any, times: Any = None, turn: Any = None) -> Any:
        for model in models.values():
            for _ in range(2):
                call(model)
            model.gain = gain * isinstance(model._compiled_call_impl, Recorded)
        return made_up(models, call, times)

    monkeypatch.setattr(end_to_end, "compared", timed)
    faster = part(tmp_path, "one", part_gain)
    found = EndToEnd(Net().eval(), Arguments((torch.randn(4, 8),), {}), tmp_path, say=lambda text: None, graphs=PythonGraphs())
    *_, last = found.choose([faster])
    assert last.recorded == (gain > 0) and last.helps and bool(last.kept) == (part_gain > 0)
    assert last.speedups["eager"].point == 1 + gain + max(part_gain, 0.0)
    if last.recorded:
        assert last.recording is not None and last.recording.point == last.speedups["eager"].point / (1 + max(part_gain, 0.0))
    assert FormResult.from_json(json.loads(json.dumps(last.to_json()))) == last
    text = report_of(whole := WholeModel((last,), ("eager",)), "Net", [])
    assert whole.best is last and ("recorded as CUDA graphs" in text) == last.recorded
    assert ("with no part exchanged" in text) == (not last.kept)


def test_a_model_that_cannot_be_recorded_says_why(tmp_path: Path) -> None:
    said = list[str]()
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout())  # in training mode
    found = EndToEnd(model, Arguments((torch.randn(4, 8),), {}), tmp_path, say=said.append, graphs=PythonGraphs())
    *_, last = found.choose([])
    assert not last.recorded and "training mode" in last.not_recorded and "training mode" in said[0]
    assert "training mode" in report_of(WholeModel((last,), ("eager",)), "Net", [])
    *_, last = found.choose([], plain=last)  # as of a compiled form, which is not asked again
    assert not last.recorded and not last.not_recorded and len(said) == 1


def test_a_module_in_several_places_becomes_one(tmp_path: Path) -> None:
    found = EndToEnd(Net(), Arguments((torch.randn(4, 8),), {}), tmp_path).with_parts([part(tmp_path, "three", 1.0)])
    assert found.three is found.again and type(found.three).__name__ == "Faster"


def test_parts_inside_of_others_and_several_in_one_place_stand_in_the_order_of_their_calls(tmp_path: Path) -> None:
    inner, outer, seldom = (
        replace(part(tmp_path, "0.1", 0.5), calls=9),
        replace(part(tmp_path, "0", 2.0), calls=1),
        replace(part(tmp_path, "1", 0.1), places=("1", "0.1"), calls=2),
    )
    assert [(place, each.folder) for place, each in placed([inner, outer, seldom])] == [
        ("0.1", "1"), ("0.1", "0.1"), ("0", "0"), ("1", "1")
    ]  # fmt: skip
    model = nn.Sequential(nn.Sequential(nn.Tanh(), nn.Tanh()), nn.Tanh())
    fast: Any = EndToEnd(model, Arguments((torch.randn(4),), {}), tmp_path).with_parts([inner, outer, seldom])
    assert [fast[0].gain, fast[0].original[1].gain, fast[0].original[1].original.gain, fast[1].gain] == [2.0, 0.5, 0.1, 0.1]


class Tokens(dict[str, Any]):
    """What transformers' generate returns."""

    def __init__(self, tokens: list[int], scores: list[float]) -> None:
        super().__init__(sequences=torch.tensor([tokens]), logits=tuple(torch.tensor([[score, 1.0]]) for score in scores))
        self.sequences = self["sequences"]


def test_a_text_must_have_the_originals_tokens_and_in_halves_its_scores_up_to_there() -> None:
    same, other = Tokens([5, 1, 2, 3], [0.5, 0.25, 0.125]), Tokens([5, 1, 7, 3], [0.5, 0.25, 8.0])
    for dtype, told in ((torch.float32, "its tokens are not the original's from number 3 on"), (torch.bfloat16, "")):
        model, fast = nn.Linear(1, 1).to(dtype), nn.Linear(1, 1)
        answers = AnswerDistance(model, Arguments((), {}), lambda module, _, fast=fast: other if module is fast else same)
        assert answers.wrong(fast) == told and answers.of(fast)[0] == 0
    other["logits"] = (torch.tensor([[0.5, 1.0]]), torch.tensor([[9.0, 1.0]]), torch.tensor([[0.0, 1.0]]))
    assert "off by" in answers.wrong(fast)
    numbers = AnswerDistance(nn.Linear(1, 1), Arguments((), {}), lambda module, _: torch.tensor([1, 2 + (module is fast)]))
    assert "from number 2 on" in numbers.wrong(fast)


def test_a_form_is_measured_in_a_process_of_its_own_until_its_time_is_over(tmp_path: Path) -> None:
    missing = Part("Gate", ("one",), "no_such_folder")
    task = tmp_path / "task.py"
    task.write_text(task_of_call(Net(), (torch.randn(4, 8),), {}).task.source)
    processes, said = [FormProcess(tmp_path, task, "eager", "cpu") for _ in range(2)], list[str]()
    try:
        for process in processes:
            process.start()
        late = processes[1].choose([missing], None, 0.0, said.append)
        assert "not measured: compiling the model was not over in time" in late.missing and not said
        found = processes[0].choose([missing], None, None, said.append)
        assert not found.missing and found.exact_in == "fp64" and "is compiled" in said[0]
        assert found.parts[0].part == missing and "FileNotFoundError" in found.parts[0].reason
    finally:
        for process in processes:
            process.close()


def test_the_form_that_surely_beats_the_first_baseline_by_most_is_handed_over() -> None:
    kept = (PartResult(Part("Gate", ("0",), "modules/gate"), None, True),)
    plain = FormResult("eager", kept, {"eager": Speedup(1.5, 1.4, 1.6)}, times_ms={"eager": 9.0, "optimized": 6.0})
    times = {"eager": 9.0, "compile": 5.0, "optimized": 4.0}
    over = {"eager": Speedup(2.2, 2.1, 2.3), "compile": Speedup(1.2, 1.1, 1.3)}
    compiled = FormResult("compile", kept, over, Speedup(0.8, 0.7, 0.9), times)
    slow = FormResult("autotune", missing="not measured: compiling the model was not over in time")
    whole = WholeModel((plain, compiled, slow), ("autotune", "compile"))
    assert whole.rival == "compile" and whole.best is compiled and whole.speedups == over
    assert whole.against("compile")["eager"].point == 0.8
    text = report_of(whole, "Net", [], "Called with `float32[4]`.")
    assert "\nCalled with `float32[4]`.\n" in text
    assert "inside of torch.compile, mode default" in text and "not over in time" in text
    assert FormResult.from_json(compiled.to_json()) == compiled
    only_plain = WholeModel((plain, FormResult("compile", plain=Speedup(0.8, 0.7, 0.9), times_ms=times)), ("compile",))
    assert only_plain.best is None and "Nothing surely beats compile" in report_of(only_plain, "Net", [])
    assert WholeModel((plain, compiled), ("best",)).rival == "compile"


def test_answers_are_held_to_exact_ones_and_infinities_to_their_like() -> None:
    class Masked(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.where(x > 1, x, -torch.inf)

    x = torch.tensor([0.0, 2.0, 3.0])
    answers = AnswerDistance(Masked(), Arguments((x,), {}), lambda model, given: model(*given.positional))
    assert answers.own == 0 and not answers.wrong(Masked())
    assert "answers are off by inf" in answers.wrong(nn.Identity())


def made_process(tmp_path: Path) -> FormProcess:
    task = tmp_path / "task.py"
    task.write_text(task_of_call(Net(), (torch.randn(4, 8),), {}).task.source)
    return FormProcess(tmp_path, task, "eager", "cpu")


def test_a_process_that_ended_is_told_of_and_leaves_nothing(tmp_path: Path) -> None:
    process = made_process(tmp_path)
    process.start()
    scratch = Path(process._scratch.path)
    os.kill(process._process.pid, signal.SIGKILL)  # as the kernel does where memory ends
    os.waitid(os.P_PID, process._process.pid, os.WEXITED | os.WNOWAIT)
    assert "not measured: its process ended" in process.choose([], None, None, print).missing
    process.close()
    assert not scratch.exists()


STARTED = """
import sys, time
from pathlib import Path
from bottega.episodes.delivery.form_process import FormProcess
from bottega.judge.device_lock import Lease, open_lease

process = FormProcess(Path(sys.argv[1]), Path(sys.argv[1]) / "task.py", "eager", "cpu")
process.start()
while process._lines.empty():  # until it is ready
    time.sleep(0.05)
with Lease(open_lease("cpu")).exclusive():
    print(process._process.pid, process._scratch.path, flush=True)
    time.sleep(600)
"""


def test_a_process_stands_still_while_others_have_the_device_and_ends_with_whoever_started_it(tmp_path: Path) -> None:
    made_process(tmp_path)
    with subprocess.Popen([sys.executable, "-c", STARTED, str(tmp_path)], stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        pid, scratch = starter.stdout.readline().split()
        paused = until(lambda: state_of(pid) == "T")
        starter.kill()
    assert paused
    assert until(lambda: state_of(pid) in ("", "Z") and not Path(scratch).exists())


def state_of(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2]
    except OSError:
        return ""


def until(holds: Callable[[], bool], seconds: float = 20.0) -> bool:
    over = time.monotonic() + seconds
    while not holds() and time.monotonic() < over:
        time.sleep(0.05)
    return holds()


def test_the_last_word_ends_with_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def slow(settled: final.FinalChoice, *_: Any) -> None:
        settled.trying = cast(Any, "draft2")
        await asyncio.sleep(600)

    monkeypatch.setattr(final, "_choose", slow)
    nothing = cast(Any, None)
    settled = asyncio.run(final.choose_final(nothing, nothing, "", nothing, [], nothing, 0.01))
    assert settled.finding is None and settled.retrials[0].attempt == cast(Any, "draft2")
    assert final.missed(settled, EpisodeSettings("cpu", "cpp")).endswith(f": {final.LATE}. Give it more minutes.")
