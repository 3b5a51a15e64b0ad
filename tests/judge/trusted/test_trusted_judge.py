"""The trusted judge with real compilers and real processes: right, wrong, crashing and hanging kernels, and workers that are killed."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
import torch
from corpus import load_task
from hand_teacher import Hand, task

from bottega.core.candidate import Candidate
from bottega.core.errors import JudgeError, UsageError
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Verdict
from bottega.judge.device import DeviceControl
from bottega.judge.device_lock import Lease, open_lease
from bottega.judge.settings import Settings
from bottega.judge.trusted import NOTE, TRUSTED_VERSION
from bottega.judge.trusted.evaluation import TrustedEvaluation
from bottega.judge.trusted.judge import TrustedJudge
from bottega.judge.trusted.process import TrustedBatch, TrustedProcess
from bottega.judge.trusted.shared_device import SharedDevice
from bottega.judge.trusted.task import TrustedTask, sum_of_words

TASK = task("silu_chain")
SLOW, FAST, BOTH = (step.candidate for step in Hand().build(TASK, "cpp").steps)
CALL = "x.shape[0], x.shape[1])"


def changed(old: str, new: str, name: str) -> Candidate:
    assert old in FAST.source
    return Candidate(FAST.source.replace(old, new), "cpp", name, FAST.id)


def judged(judge: TrustedJudge, candidates: list[Candidate], of: Task = TASK) -> tuple[dict[str, Verdict], list[str]]:
    reported: dict[str, Verdict] = {}
    problems: list[str] = []
    verdicts = judge.judge_many(
        of, candidates, lambda candidate, verdict: reported.update({candidate.id: verdict}), problems.append
    )
    assert verdicts == [reported.get(candidate.id) for candidate in candidates]
    return {one.name: reported[one.id] for one in candidates if one.id in reported}, problems


@pytest.mark.parametrize("start", range(9))
def test_what_lies_anywhere_in_a_storage_is_summed_up(start: int) -> None:
    kept = torch.arange(64, dtype=torch.uint8)
    part = kept[start : start + 21]
    before = int(sum_of_words(part))
    kept[start + 20] += 1
    assert int(sum_of_words(part)) != before


@pytest.mark.rotates
def test_nothing_is_timed_where_only_right_or_wrong_is_asked() -> None:
    wrong = changed("0.75f", "0.5f", "wrong")
    with TrustedJudge("cpu", workers=1, timed=False) as judge:
        verdicts, _ = judged(judge, [FAST, wrong])
    assert verdicts[FAST.name].outcome.accepted and not verdicts[FAST.name].speedup
    assert verdicts["wrong"].outcome is Outcome.INCORRECT


@pytest.mark.slow
def test_right_wrong_and_crashing_kernels_get_their_verdicts() -> None:
    wrong = changed("0.75f", "0.5f", "wrong")
    half = changed(CALL, "x.shape[0] // 2, x.shape[1])", "half")  # the memory may hold the right answer of the one before
    raises = changed("x = x.contiguous()", "x = x.contiguous().reshape(7, -1)", "raises")
    mutates = changed("        return y", "        x.add_(1)\n        return y", "mutates")
    crashes = changed("x = x.contiguous()", "import ctypes; ctypes.string_at(0)", "crashes")
    broken = changed("const float v", "const flaot v", "broken")
    other_names = BOTH.source.replace("self.scale = ", "self.more = nn.Parameter(torch.ones(3))\n        self.scale = ")
    renamed = Candidate(other_names.replace("self.scale", "self.gain"), "cpp", "renamed")
    with TrustedJudge("cpu", workers=1, timeout=60) as judge:
        found, problems = judged(judge, [SLOW, FAST, half, wrong, crashes, raises, mutates, broken, renamed, BOTH])
        assert judge.replaced["died"] == 2 and judge.replaced["timeout"] == 0 and judge.errors == []
        assert judge.seconds["building"] > 0 and judge.seconds["timing"] > 0
    assert problems == [] and len(found) == 10
    for name in ("slow", "fast", "both"):
        verdict = found[name]
        assert verdict.outcome.accepted and verdict.correct and "× the speed of eager" in verdict.diagnosis
        assert NOTE in verdict.notes and verdict.error["oracle"] == "fp64" and len(verdict.error["variants"]) == 3
    assert found["half"].outcome is Outcome.INCORRECT and "were never written" in found["half"].diagnosis
    assert found["wrong"].outcome is Outcome.INCORRECT and "On plain inputs: the output is wrong" in found["wrong"].diagnosis
    assert found["raises"].outcome is Outcome.RUNTIME_ERROR and "While calling forward" in found["raises"].diagnosis
    assert found["mutates"].outcome is Outcome.REJECTED and "input_mutated" in found["mutates"].diagnosis
    assert found["crashes"].outcome is Outcome.RUNTIME_ERROR and "segmentation fault" in found["crashes"].diagnosis
    assert found["broken"].outcome is Outcome.COMPILE_ERROR and "flaot" in found["broken"].diagnosis
    assert found["renamed"].outcome.accepted and any("secret seed" in note for note in found["renamed"].notes)
    assert all(verdict.fingerprint["settings"]["quick"] for verdict in found.values())
    assert all(verdict.fingerprint["trusted"] == TRUSTED_VERSION for verdict in found.values())
    assert Verdict.from_json(found["fast"].to_json()) == found["fast"]


@pytest.mark.slow
def test_a_kernel_that_hangs_or_dies_is_blamed_and_the_others_go_on() -> None:
    torch_only = "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        {} x + x\n"
    doubles = Task(
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x + x\n"
        "def get_inputs():\n    return [torch.randn(64, 64)]\ndef get_init_inputs():\n    return []\n",
        "doubles",
        "doubles",
    )
    hangs = Candidate(torch_only.format("while True: pass\n        return"), "torch", "hangs")
    right = Candidate(torch_only.format("return"), "torch", "right")
    counting = "self.calls = getattr(self, 'calls', 0) + 1; self.calls > 5 and __import__('os').abort()\n        return"
    dies = Candidate(torch_only.format(counting), "torch", "dies while it is timed")
    with TrustedJudge("cpu", workers=1, timeout=8) as judge:
        found, problems = judged(judge, [hangs, right, dies], doubles)
        assert judge.replaced["timeout"] >= 2 and judge.replaced["died"] == 2
    assert found[dies.name].outcome is Outcome.RUNTIME_ERROR and "abort" in found[dies.name].diagnosis
    assert problems == [] and found["right"].outcome.accepted
    assert found["hangs"].outcome is Outcome.TIMEOUT and "did not finish within 8 s" in found["hangs"].diagnosis


@pytest.mark.slow
def test_a_killed_worker_costs_no_kernel_its_verdict() -> None:
    marker = "os.path.join(os.environ['BOTTEGA_BUILD_DIR'], 'began')"  # the folder that workers share
    dies = f"import os; os.path.exists({marker}) or (open({marker}, 'w').close(), os.kill(os.getpid(), 9))"
    dies_once = changed("x = x.contiguous()", f"{dies}; x = x.contiguous()", "dies once")
    with TrustedJudge("cpu", workers=1, timeout=60) as judge:
        found, problems = judged(judge, [FAST, dies_once, BOTH])
        assert judge.replaced["died"] == 1
    assert problems == [] and len(found) == 3 and all(verdict.outcome.accepted for verdict in found.values())


@pytest.mark.slow
def test_a_task_that_cannot_be_judged_says_so_and_a_closed_judge_raises() -> None:
    constant = Task(TASK.source.replace("torch.randn(rows, features)", "torch.ones(rows, features)"), "constant", "constant")
    with TrustedJudge("cpu", workers=1) as judge:
        found, _ = judged(judge, [FAST, BOTH], constant)
        assert [verdict.outcome for verdict in found.values()] == [Outcome.INVALID_TASK]
        assert "same contents every time" in found["fast"].diagnosis
        assert judge.judge(TASK, FAST).outcome.accepted
    with pytest.raises(JudgeError, match="closed"):
        judged(judge, [FAST])
    with pytest.raises(UsageError, match="at least one worker"):
        TrustedJudge("cpu", workers=0)


def open_here(of: Task) -> TrustedTask:
    sharing = SharedDevice(Lease(open_lease("cpu")), lambda stage: None)
    made = TrustedTask(of, Settings(), "cpu", DeviceControl("cpu"), sharing)
    made.open()
    return made


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TrustedTask:
    """A task that is open in this process."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return open_here(TASK)


@pytest.mark.rotates
def test_a_task_without_an_answer_to_negative_inputs_is_tried_on_weaker_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    made = open_here(load_task("capped_logarithm"))
    for body, right in (("x.clamp(max=4.0).log()", True), ("x.log()", False)):
        source = f"import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return {body}\n"
        evaluation = TrustedEvaluation(made, Candidate(source, "torch", "own"), tmp_path / "own")
        evaluation.run(profiled=False)
        assert evaluation.correct is right
        assert not any(trial["skipped"] for trial in evaluation.report["trials"])
    assert not made.discard_overwritten()


@pytest.mark.parametrize(
    "body", ["1 / x", "x.exp()", "x.exp().sum(-1).log()"], ids=["infinite", "dominated", "overflows alone"]
)
def test_a_variant_on_which_little_is_seen_is_weakened(body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Zeros make the truth infinite; a giant's power hides all others; giants make only the reference infinite."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    module = "import torch\nclass {}(torch.nn.Module):\n    def forward(self, x):\n        return {}\n"
    inputs = "def get_inputs():\n    return [torch.rand(64, 512)]\ndef get_init_inputs():\n    return []\n"
    made = open_here(Task(module.format("Model", body) + inputs, "seen"))
    evaluation = TrustedEvaluation(made, Candidate(module.format("ModelNew", body), "torch", "own"), tmp_path / "own")
    evaluation.run(profiled=False)
    assert evaluation.correct
    assert not any(trial["skipped"] for trial in evaluation.report["trials"])
    assert not made.reference.inputs.strength("spiked").extreme


def test_what_a_wrong_kernel_wrote_into_is_made_again(opened: TrustedTask) -> None:
    before = opened.reference_calls("loaded")
    assert not opened.discard_overwritten() and opened.reference_calls("loaded") is before
    scale = opened.eager.module.scale
    for place in range(4):
        calls = opened.reference_calls("loaded")
        tensors = (calls[1].outputs[0], calls[0].slices[0].outputs[0], calls[2].inputs.tensors[0], scale)
        with torch.no_grad():
            tensors[place].view(-1)[5] += 1
        assert opened.discard_overwritten() and opened.reference_calls("loaded") is not calls
    assert torch.equal(scale.detach(), opened.reference.random_state["scale"])


def test_an_evaluation_in_this_process(opened: TrustedTask, tmp_path: Path) -> None:
    def evaluated(body: str) -> tuple[TrustedEvaluation, list[str]]:
        source = TASK.source.replace("class Model(", "class ModelNew(")
        stages: list[str] = []
        opened.sharing.on_stage = stages.append
        evaluation = TrustedEvaluation(opened, Candidate(source + body, "torch", "own"), tmp_path / "own")
        evaluation.run(profiled=True)
        return evaluation, stages

    right, stages = evaluated("")
    assert right.correct and right.report["parameters"] == "loaded" and stages == ["waiting", "building", "waiting", "trying"]
    assert set(right.report["stages"]) == {"waiting", "building", "trying"}
    assert [trial["variant"] for trial in right.report["trials"]] == ["plain", "spiked", "plain"]
    wrong, _ = evaluated("\nModelNew.forward = lambda self, x: x\n")
    assert not wrong.correct and "the output is wrong" in wrong.report["problem"]
    unwritten, _ = evaluated("\nModelNew.forward = lambda self, x: torch.empty_like(x)\n")
    assert "never written" in unwritten.report["problem"] or "nan" in unwritten.report["problem"]
    raises, _ = evaluated("\nModelNew.forward = lambda self, x: 1 / 0\n")
    assert raises.report["failure"]["type"] == "ZeroDivisionError" and raises.report["failure"]["stage"] == "forward"
    nothing, _ = evaluated("\ndel ModelNew\n")
    assert "defines no ModelNew" in nothing.report["failure"]["text"]


@pytest.mark.gpu
def test_triton_kernels_on_a_gpu_with_one_that_breaks_the_device() -> None:
    source = """
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def double_it(x, y, n, far, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at + far, 2 * tl.load(x + at, mask=at < n), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        double_it[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), FAR, BLOCK=1024)
        return y
"""
    of = Task(
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x + x\n"
        "def get_inputs():\n    return [torch.randn(4096, 1024)]\ndef get_init_inputs():\n    return []\n",
        "double",
        "double",
    )
    right = Candidate(source.replace("FAR", "0"), "triton", "right")
    wrong = Candidate(source.replace("FAR", "0").replace("2 * tl", "3 * tl"), "triton", "wrong")
    illegal = Candidate(source.replace("FAR", "1 << 40"), "triton", "illegal")
    after = Candidate(right.source + "\n# again\n", "triton", "after")
    with TrustedJudge("cuda", workers=2) as judge:
        found, problems = judged(judge, [right, wrong, illegal, after], of)
        assert judge.errors == [] and judge.replaced["device broken"] == 2
    assert problems == []
    assert found["right"].outcome.accepted and found["after"].outcome.accepted
    assert found["wrong"].outcome is Outcome.INCORRECT and "times 1.5" in found["wrong"].diagnosis
    assert found["illegal"].outcome is Outcome.RUNTIME_ERROR and "illegal memory access" in found["illegal"].diagnosis
    assert found["right"].coverage["share"] is None or found["right"].coverage["share"] > 0.5


BEFORE = """\
import json, os, struct, threading, time
links = {}
for name in os.listdir("/proc/self/fd"):
    if os.path.islink(f"/proc/self/fd/{name}"):
        links[int(name)] = os.readlink(f"/proc/self/fd/{name}")
"""
LOCKS = "assert not any('bottega-leases' in link for link in links.values()), links\n"
WORKS_ON = """
place = os.path.join(os.environ["BOTTEGA_BUILD_DIR"], "mark")
os.makedirs(os.environ["BOTTEGA_BUILD_DIR"], exist_ok=True)
def work():
    file = os.open(place, os.O_WRONLY | os.O_CREAT, 0o644)
    while True:
        os.pwrite(file, str(time.monotonic_ns()).encode(), 0)
        time.sleep(0.001)
threading.Thread(target=work, daemon=True).start()
"""
FORGES = """
body = json.dumps(MESSAGE).encode()
for number, link in links.items():
    if link.startswith("socket:"):
        os.write(number, struct.pack("<I", len(body)) + body)
"""


@pytest.mark.rotates
def test_a_foreign_kernel_has_no_lock_and_stands_still_between_batches() -> None:
    hostile = Candidate(BEFORE + LOCKS + WORKS_ON + FAST.source, "cpp", "works on")
    with TrustedJudge("cpu", workers=1, timeout=60, require_sandbox=True) as judge:
        found, problems = judged(judge, [hostile, FAST])
        assert problems == [] and found["works on"].correct and found["fast"].correct
        mark = Path(judge._cache.path) / "build" / "mark"
        seen = mark.read_text()
        with Lease(open_lease("cpu")).exclusive():
            time.sleep(0.3)
            assert mark.read_text() == seen
        (worker,) = judge._idle
        assert judged(judge, [FAST])[0]["fast"].correct and judge._idle == [worker]
        assert mark.read_text() != seen, "it goes on with the next batch"


def test_whoever_wants_to_time_goes_first_while_a_foreign_worker_builds_its_task() -> None:
    mark = "open(os.environ['BOTTEGA_BUILD_DIR'] + '.{}', 'w').close()\n"
    slow = Task(f"import os, time\n{mark.format('begun')}time.sleep(3)\n{mark.format('built')}{TASK.source}")
    found: list[Verdict | None] = []
    with TrustedJudge("cpu", workers=1, timeout=60, require_sandbox=True) as judge:
        work = threading.Thread(target=lambda: found.extend(judge.judge_many(slow, [FAST])))
        work.start()
        while not Path(judge._cache.path, "build.begun").exists() and work.is_alive():
            time.sleep(0.05)
        with Lease(open_lease("cpu")).exclusive():
            time.sleep(3.5)
            assert not Path(judge._cache.path, "build.built").exists(), "it went on beside a timer, or first"
        work.join()
    assert found[0] is not None and found[0].outcome.accepted


@pytest.mark.rotates
@pytest.mark.parametrize(
    "message",
    [
        {"verdict": 5, "candidate": "x"},
        {"verdict": {"outcome": "faster", "times_ms": {"candidate": "long"}}, "candidate": "x"},
        {"stage": [], "candidate": []},
        {"done": {"overwritten": "x"}},
        {"done": {"overwritten": 10**400}},
        {"device_broken": [], "report": 7},
        {"error": 3, "candidate": None},
        {"no_memory": "somebody"},
    ],
)
def test_what_a_foreign_kernel_says_for_its_worker_breaks_nothing(message: dict[str, object]) -> None:
    forged = Candidate(BEFORE + FORGES.replace("MESSAGE", repr(message)) + FAST.source, "cpp", "forges")
    with TrustedJudge("cpu", workers=1, timeout=60, require_sandbox=True) as judge:
        judged(judge, [forged])
        assert judged(judge, [FAST])[0]["fast"].correct


def test_a_foreign_kernel_that_dies_again_and_again_as_if_profiled_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    dies = FORGES.replace("MESSAGE", repr({"stage": "profiling", "candidate": ""})) + "time.sleep(0.2)\nos._exit(1)\n"
    started: list[Task] = []
    with TrustedJudge("cpu", workers=1, timeout=60, timed=False, require_sandbox=True) as judge:
        start = judge._worker_for

        def counted(of: Task, fresh: bool) -> TrustedProcess:
            started.append(of)
            assert len(started) < 9, "it is tried for ever"
            return start(of, fresh)

        monkeypatch.setattr(judge, "_worker_for", counted)
        found, problems = judged(judge, [Candidate(BEFORE + dies + FAST.source, "cpp", "dies")])
    assert not any(verdict.correct for verdict in found.values()) and (found or problems)


def test_a_foreign_batch_ends_however_often_it_says_something() -> None:
    batch = TrustedBatch(TASK, [FAST], Settings(timeout=1.0, task_timeout=1.0), lambda *_: None, lambda _: None)
    batch.bound()
    latest = batch.latest
    for _ in range(100):
        batch.take({"stage": "waiting", "candidate": ""})
    assert batch.deadline() == latest
