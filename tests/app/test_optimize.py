"""`bottega optimize` and `bottega check` as processes, with the real judge, real compilers and a scripted model.

The module is a recurrence in Python, which any kernel beats many times over, so that a busy machine does not decide these tests.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from app.command_line import BOTTEGA, ENVIRONMENT, as_a_process, in_this_process
from episodes.decay import BROKEN, KERNEL, MODULE, WRONG, answer, script

from bottega.core.event import EpisodeStarted, Judged, RunEnded, RunStarted, Wrote
from bottega.episodes.journal import FILE, read_events

USED = ["--init", "0.9", "--inputs", "example", "skills=false", "samples=1"]


def started(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*BOTTEGA, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("optimize")
    (folder / "decay.py").write_text(MODULE)
    return folder


@pytest.fixture(scope="module")
def finished(place: Path) -> tuple[Path, dict[str, object]]:
    """A broken answer, a wrong kernel, a fast one: judged, judged again, handed over."""
    backbone = script(place, [BROKEN, answer(WRONG), answer(KERNEL)])
    told = as_a_process(
        "optimize", place / "decay.py", *USED, "turns=3", "--backbone", backbone, "--out", place / "run", "json=true"
    )
    assert told.returncode == 0, told.stderr
    assert told.stdout.count("\n") == 1
    assert "best none yet" in told.stderr and "judged again: s0r0t2  faster" in told.stderr
    return place / "run", json.loads(told.stdout)


def test_the_result_is_one_object_and_the_folder_is_complete(finished: tuple[Path, dict[str, object]]) -> None:
    folder, result = finished
    assert result["outcome"] == "faster" and result["attempts"] == {"no kernel": 1, "incorrect": 1, "faster": 1}
    assert result["claim"]["eager"]["low"] > 1  # type: ignore[index]
    names = {"events.jsonl", "optimized.py", "original.py", "verdict.json", "result.json", "report.md", "report.html"}
    assert {path.name for path in folder.iterdir()} == names
    assert (folder / "original.py").read_text() == MODULE


def test_the_log_tells_everything_in_order(finished: tuple[Path, dict[str, object]]) -> None:
    events = list(read_events(finished[0]))
    kinds = [type(event) for event in events]
    assert kinds[:2] == [RunStarted, EpisodeStarted] and kinds[-1] is RunEnded
    assert [event.node for event in events if isinstance(event, Wrote)] == ["s0r0t0", "s0r0t1", "s0r0t2"]
    outcomes = [event.verdict.outcome.value for event in events if isinstance(event, Judged)]
    assert outcomes == ["incorrect", "faster", "faster"]
    final = [event for event in events if isinstance(event, Judged)][-1]
    assert final.verdict.fingerprint["settings"]["quick"] is False


@pytest.mark.rotates
def test_the_file_works_where_bottega_is_not(finished: tuple[Path, dict[str, object]]) -> None:
    code = f"""
import sys
sys.path = [{str(finished[0])!r}] + [path for path in sys.path if "src" not in path]
class Nothing:
    def find_spec(self, name, *_):
        if name.split(".")[0] == "bottega":
            raise ImportError("Bottega is not here")
sys.meta_path.insert(0, Nothing())
import torch, original, optimized
module = original.Decay(0.9)
fast = optimized.load(module)
with torch.no_grad():
    for rows in (2, 2, 3):
        x = torch.randn(rows, 512, 8)
        torch.testing.assert_close(fast(x), module(x), rtol=1e-4, atol=1e-4)
        module.gain.mul_(1.5)
assert fast.calls == 2 and sum(fast.fallbacks.values()) == 1, (fast.calls, fast.fallbacks)
try:
    optimized.load(original.Decay(0.5))
except ValueError as error:
    print(error)
"""
    told = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, cwd="/", timeout=100, check=False)
    assert told.returncode == 0, told.stderr
    assert "rate is 0.5, and was 0.9" in told.stdout


@pytest.mark.slow
def test_a_finished_result_holds_when_it_is_checked(finished: tuple[Path, dict[str, object]]) -> None:
    told = as_a_process("check", finished[0], "--json")
    checked = json.loads(told.stdout)
    assert told.returncode == 0, checked["words"]
    assert checked["holds"] is True and checked["changed"] == []
    assert checked["verdict"]["outcome"] == "faster"


@pytest.mark.slow
def test_a_tampered_kernel_is_named_and_judged(finished: tuple[Path, dict[str, object]], tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(finished[0], folder)
    text = (folder / "optimized.py").read_text()
    (folder / "optimized.py").write_text(text.replace("y[i] = h * gain[c]", "y[i] = h * 1.5f"))
    told = as_a_process("check", folder)
    assert told.returncode == 1
    assert "tampered: optimized.py was changed" in told.stdout and "it is incorrect now" in told.stdout


def test_a_finished_run_is_not_begun_again_by_accident(finished: tuple[Path, dict[str, object]], place: Path) -> None:
    again = ["optimize", place / "decay.py", *USED, "--backbone", f"scripted:{place / 'script.json'}", "--out", finished[0]]
    for more, words in ((["turns=3"], "holds a run already"), (["turns=4", "--resume"], "turns 3 then, 4 now")):
        told = in_this_process(*again, *more)
        assert told.returncode == 2 and words in told.stderr


COUNTING = """
import pathlib, time
answers = {answers!r}
def script(messages, sampling):
    place = pathlib.Path({count!r})
    number = len(place.read_text()) if place.exists() else 0
    with place.open("a") as file:
        file.write("x")
    if number >= {slow_from} and not pathlib.Path({go!r}).exists():
        time.sleep(600)
    return answers[min(number, len(answers) - 1)]
"""


def counting(folder: Path, answers: list[str], slow_from: int) -> tuple[str, Path, Path]:
    """A model that counts its answers in a file, and hangs from one of them on until it is let go."""
    count, go = folder / "count", folder / "go"
    (folder / "counting.py").write_text(COUNTING.format(answers=answers, count=str(count), go=str(go), slow_from=slow_from))
    return f"scripted:{folder / 'counting.py'}", count, go


def until(found: Callable[[], bool], process: subprocess.Popen[str], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not found():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.05)


def verdicts(folder: Path) -> int:
    return sum(isinstance(event, Judged) for event in read_events(folder)) if (folder / FILE).exists() else 0


@pytest.mark.rotates
def test_a_killed_run_goes_on_where_it_was(place: Path, tmp_path: Path) -> None:
    backbone, count, go = counting(tmp_path, [answer(WRONG), answer(WRONG.replace("h;", "h + 0.f;"))], slow_from=1)
    command = ["optimize", place / "decay.py", *USED, "turns=2", "--backbone", backbone, "--out", tmp_path / "run"]
    process = started(*command)
    until(lambda: verdicts(tmp_path / "run") == 1 and len(count.read_text()) == 2, process)
    told = in_this_process(*command, "--resume")
    assert told.returncode == 2 and "another process is writing this run" in told.stderr
    process.send_signal(signal.SIGKILL)
    process.communicate()
    go.touch()
    count.write_text("x")  # the answer that was being given was never reported
    resumed = as_a_process(*command, "--resume")
    assert resumed.returncode == 3, resumed.stderr
    assert len(count.read_text()) == 2, "the first answer was asked for again"
    events = list(read_events(tmp_path / "run"))
    assert [event.node for event in events if isinstance(event, Judged)] == ["s0r0t0", "s0r0t1"]
    assert sum(isinstance(event, RunStarted) for event in events) == 2


def interrupted(place: Path, folder: Path, source: str, number: signal.Signals) -> tuple[int, str, str]:
    """A model that never runs out of kernels, and a signal after the first verdict."""
    endless = f"""
first = {answer(source)!r}
asked = []
def script(messages, sampling):
    asked.append(1)
    return first.replace("float h = 0.f;", "float h = 0.f;" + " " * len(asked))
"""
    (folder / "endless.py").write_text(endless)
    backbone = f"scripted:{folder / 'endless.py'}"
    process = started("optimize", place / "decay.py", *USED, "turns=500", "--backbone", backbone, "--out", folder / "run")
    until(lambda: verdicts(folder / "run") >= 1, process)
    process.send_signal(number)
    said, told = process.communicate(timeout=120)
    assert "stopping with the best so far" in told and "Traceback" not in told
    assert json.loads((folder / "run" / "result.json").read_text())["ended"] == "interrupted"
    return process.returncode, said, told


@pytest.mark.rotates
def test_a_signal_without_a_faster_kernel_is_exit_three_with_a_report(place: Path, tmp_path: Path) -> None:
    code, said, told = interrupted(place, tmp_path, WRONG, signal.SIGINT)
    assert code == 3, told
    assert "No kernel surely beats eager, the module as it is." in said and "incorrect" in said
    assert "incorrect" in (tmp_path / "run" / "report.md").read_text() and not (tmp_path / "run" / "optimized.py").exists()
    assert in_this_process("check", tmp_path / "run").returncode == 2


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_with_the_best_so_far(place: Path, tmp_path: Path, number: signal.Signals) -> None:
    code, said, told = interrupted(place, tmp_path, KERNEL, number)
    assert code == 0, told
    assert "the speed of eager" in said and "interrupted" in said


@pytest.mark.slow
def test_a_model_that_dies_half_way_is_told_with_what_was_tried(place: Path, tmp_path: Path) -> None:
    told = as_a_process(
        "optimize", place / "decay.py", *USED, "turns=2", "--backbone", script(tmp_path, [BROKEN]), cwd=tmp_path
    )
    assert told.returncode == 3, told.stderr
    assert "No kernel surely beats eager, the module as it is." in told.stdout and "the script has 1 answers" in told.stdout
    assert "no kernel" in (tmp_path / "bottega-decay-1" / "report.md").read_text()


@pytest.mark.rotates
def test_an_unusable_module_is_exit_two_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "raises.py").write_text(MODULE.replace("outs = []", "raise ValueError('inside')"))
    told = as_a_process(
        "optimize", tmp_path / "raises.py", *USED, "--backbone", script(tmp_path, []), "--out", tmp_path / "run"
    )
    assert told.returncode == 2 and "raises ValueError: inside" in told.stderr
    assert not (tmp_path / "run").exists()


WRONG_USE: list[tuple[list[str], str]] = [
    (["missing.py"], "no such file"),
    (["decay.py", "--inputs", "example"], "needs rate"),
    (["decay.py", "--init", "0.9"], "--inputs"),
    (["decay.py", *USED, "--class", "Other"], "no class 'Other'"),
    (["decay.py", *USED, "kernels=0"], "allows nothing"),
    (["decay.py", *USED, "tokens=0"], "allows nothing"),
    (["decay.py", *USED, "minutes=0"], "allows nothing"),
    (["decay.py", *USED, "money=1"], "price_prompt"),
    (["decay.py", *USED, "price_prompt=1"], "prices are for servers"),
    (["decay.py", *USED, "minutes=nan"], "minutes = nan: Input should be a finite number"),
    (["decay.py", *USED, "temperature=-1"], "temperature must be 0"),
    (["decay.py", *USED, "temperature=nan"], "finite"),
    (["decay.py", *USED, "target=nan"], "finite"),
    (["decay.py", *USED, "patience=0"], "patience is at least one"),
    (["decay.py", *USED, "drafts=-1"], "drafts = -1: Input should be greater than or equal to 0"),
    (["decay.py", *USED, "strategy=luck"], "unknown strategy 'luck'"),
    (["decay.py", *USED, "language=triton"], "cannot be timed on cpu"),
    (["decay.py", *USED, "language=fortran"], "unknown language 'fortran'"),
    (["decay.py", *USED, "baseline=numpy"], "unknown baseline"),
    (["decay.py", *USED, "mode=fast"], "'as-built', 'train' or 'eval'"),
    (["decay.py", *USED, "precision=int4"], "unknown precision"),
    (["decay.py", *USED, "--device", "tpu"], "unknown device"),
    (["decay.py", *USED, "style=baroque"], "'terse', 'compact' or 'full'"),
    (["decay.py", *USED, "prompts=missing"], "no folder of prompts"),
    (["decay.py", *USED, "--backbone", "oracle"], "no backbone is called"),
    (["decay.py", *USED, "--backbone", "scripted:missing.json"], "cannot be read"),
    (
        ["decay.py", *USED, "context=3", "--backbone", "scripted:script.json"],
        "context = 3: Input should be greater than or equal to 512",
    ),
    (["decay.py", *USED, "--resume"], "to resume"),
    (["decay.py", *USED, "--out", "decay.py/run"], "no run can be kept there"),
]


@pytest.mark.rotates
def test_wrong_usage_is_exit_two_and_one_line(place: Path, tmp_path: Path) -> None:
    shutil.copy(place / "decay.py", tmp_path / "decay.py")
    script(tmp_path, [])
    for arguments, words in WRONG_USE:
        told = in_this_process("optimize", *arguments, cwd=tmp_path)
        assert told.returncode == 2 and words in told.stderr, (arguments, told.stderr)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["decay.py", "script.json"]


def test_help_of_other_commands_needs_no_model(tmp_path: Path) -> None:
    code = (
        "import sys; sys.argv = ['bottega', 'judge', '--help']\n"
        "from bottega.app.cli import main\n"
        "try:\n    main()\nexcept SystemExit: pass\n"
        "print([name for name in ('torch', 'transformers', 'openai', 'tantivy', 'bottega.episodes') if name in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert told.stdout.splitlines()[-1] == "[]", told.stdout
    assert "--inputs" in in_this_process("optimize", "--help").stdout
