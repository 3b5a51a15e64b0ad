"""A request from its beginning to its end, where things go wrong: dead backbones, budgets, signals, other settings, second processes.

Judges are fakes here (see `decay.py`): what is tested is that nothing is lost and everything is said. The same paths run with the real judge
in tests/app/test_optimize.py.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from episodes.decay import MODULE, FakeJudge, answer, kernel, verdict_of
from waiting import until

from bottega.backbone.client import ChatClient, Client
from bottega.backbone.scripted import Script, ScriptedChat
from bottega.core.candidate import Candidate
from bottega.core.draft import Draft, Drafts, DraftSource
from bottega.core.errors import BackboneError, BottegaError, JudgeError, TaskError, UsageError
from bottega.core.event import Event, Judged, RunEnded, RunStarted
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Speedup, Verdict
from bottega.episodes.budget import BudgetCaps
from bottega.episodes.journal import FILE, read_events
from bottega.episodes.optimize import OptimizeFinished, Stop, optimize
from bottega.episodes.request import OptimizeRequest, differences, next_folder, opened_run
from bottega.episodes.settings import EpisodeSettings
from bottega.judge.device_host import LocalDevices
from bottega.tasks.module import Wanted, module_task_of

SUBJECT = module_task_of(MODULE, Wanted(inputs="example", init="0.9"), "decay", "decay.py")
FACTS = {
    "class": "Decay", "init": {"text": "((0.9,), {})"}, "keywords": [], "returns": [None],
    "calls": [{"tuple": [{"tensor": ["torch.float32", [2, 1024, 8], [8192, 8, 1]]}]}],
    "training": None, "kernel_training": None, "modes": {}, "mutates": False, "changes": [], "gaps": False, "ties": [],
    "built": {"": ["Decay", {"rate": "0.9"}]},
}  # fmt: skip


ONLY_EAGER = Verdict(
    Outcome.SLOWER,
    True,
    {"compile": Speedup(0.8, 0.7, 0.9), "eager": Speedup(2.0, 1.9, 2.1)},
    baseline="compile",
    fastest_baseline="compile",
)


class Bench(FakeJudge):
    """Both judges of a run. Final verdicts are those of the search unless a kernel says otherwise."""

    finals: list[str]
    fit: Exception | None = None
    problems: tuple[str, ...] = ()
    unavailable: dict[str, str] = {}  # noqa: RUF012 (a subclass sets it)
    slow: float = 0.0
    trying: float = 0.0
    """Seconds until it is known whether the module can be judged."""
    at_the_end: Callable[[], None] | None = None
    """Called when the last word begins, which then takes for ever."""

    def __init__(self, *_: Any, **options: Any) -> None:
        super().__init__()
        type(self).finals = []
        self.closed = threading.Event()

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed.set()

    def fitness(self, task: Task) -> dict[str, Any]:
        self.closed.wait(self.trying)
        if self.fit is not None:
            raise self.fit
        return {"facts": {}, "problems": [], "unavailable": self.unavailable}

    async def judge_async(self, task: Task, candidate: Candidate, **options: Any) -> Verdict:
        await asyncio.sleep(600 if "takes for ever" in candidate.source else self.slow)
        if options.get("quick") is False:
            type(self).finals.append(candidate.name)
            if self.at_the_end is not None:
                self.at_the_end()
                await asyncio.sleep(600)
            if "# beats eager only" in candidate.source:
                return ONLY_EAGER
            if "# lucky" in candidate.source:
                return Verdict(Outcome.AMBIGUOUS, True, {"eager": Speedup(1.0, 0.9, 1.1)})
        if "# beats eager only" in candidate.source:
            return ONLY_EAGER
        return verdict_of(candidate.source)

    def ask(self, entry: str, label: str, do: str, **arguments: Any) -> dict[str, Any]:
        if do == "describe":
            return FACTS
        broken = "# broken" in arguments["delivered"]
        return {"problems": ["it forgets its weights"] if broken else [], "refused": "", "guard_us": 5.0}


@pytest.fixture(autouse=True)
def benches(monkeypatch: pytest.MonkeyPatch) -> type[Bench]:
    made = type("Made", (Bench,), {})
    monkeypatch.setattr(LocalDevices, "judge", lambda self, *_, **options: made(*_, **options))
    return made


def request(turns: int = 3, caps: BudgetCaps | None = None, **settings: Any) -> OptimizeRequest:
    wanted = EpisodeSettings(samples=1, turns=turns, schemes=0, select="none", **settings)
    return OptimizeRequest(SUBJECT, wanted, "scripted:x", caps or BudgetCaps(), command="bottega optimize decay.py")


def run(
    folder: Path,
    answers: Script,
    wanted: OptimizeRequest | None = None,
    resume: bool = False,
    client: Callable[[], Client] | None = None,
    listener: Callable[[Event], None] | None = None,
    stops: list[Stop] | None = None,
    draft_source: DraftSource | None = None,
) -> OptimizeFinished | None:
    """`stops` gets what a signal would ask."""
    wanted = wanted or request()

    async def work() -> OptimizeFinished | None:
        stop = Stop()
        stops.append(stop) if stops is not None else None
        with opened_run(folder, wanted, resume) as journal:
            return await optimize(
                wanted, journal, client or (lambda: ChatClient(ScriptedChat(answers))), None, stop, listener, draft_source
            )

    return asyncio.run(work())


def outputs(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {FILE}


FOUND = {"optimized.py", "original.py", "verdict.json", "result.json", "report.md", "report.html"}
NONE = {"original.py", "result.json", "report.md", "report.html"}


def test_the_best_is_judged_again_and_handed_over(tmp_path: Path, benches: type[Bench]) -> None:
    finished = run(tmp_path / "run", [answer(kernel(1.3)), answer(kernel(2.0)), answer(kernel("incorrect"))])
    assert finished is not None and finished.result.outcome == "faster" and finished.result.node == "s0r0t1"
    assert benches.finals == ["s0r0t1"] and outputs(tmp_path / "run") == FOUND
    ended = [event for event in read_events(tmp_path / "run") if isinstance(event, RunEnded)]
    assert ended[0].facts["node"] == "s0r0t1"


class Rule:
    async def drafts(self, task: Task, language: str, count: int) -> Drafts:
        return Drafts("rule 1", (Draft(kernel(2.5, "by rule"), "fused", "One pass."),))


@pytest.mark.parametrize(("speed", "node", "author", "words"), [
    (1.5, "draft1", "rule 1", "rule 1, by rule and not by a model"), (4.0, "s0r0t0", "the model", "the model (scripted:x)"),
])  # fmt: skip
def test_the_fastest_is_handed_over_whoever_wrote_it(tmp_path: Path, speed: float, node: str, author: str, words: str) -> None:
    finished = run(tmp_path / "run", [answer(kernel(speed))], request(turns=1, drafts=1), draft_source=Rule())
    assert finished is not None and (finished.result.node, finished.result.author) == (node, author)
    assert finished.result.writers == {"rule 1": {"faster": 1}, "the model": {"faster": 1}}
    assert f"- written by: {words}" in (tmp_path / "run" / "report.md").read_text()
    assert f"written by: {words}" in (tmp_path / "run" / "report.html").read_text()


def test_a_draft_is_handed_over_where_the_model_never_answers(tmp_path: Path) -> None:
    finished = run(tmp_path / "run", [BackboneError("never")], request(drafts=1), draft_source=Rule())
    assert finished is not None and finished.result.author == "rule 1" and finished.error == "never"


def test_a_device_that_is_not_there_is_told_before_the_model_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_here(*_: Any, **options: Any) -> Any:
        raise UsageError("no such device")

    opened: list[int] = []
    monkeypatch.setattr(LocalDevices, "judge", none_here)
    with pytest.raises(UsageError, match="no such device"):
        run(tmp_path / "run", [], client=lambda: opened.append(1) or ChatClient(ScriptedChat([])))  # type: ignore[func-returns-value]
    assert not opened and not (tmp_path / "run").exists()


def test_luck_does_not_hold_and_the_next_best_is_tried(tmp_path: Path, benches: type[Bench]) -> None:
    answers = [answer(kernel(3.0, "lucky")), answer(kernel(2.5, "broken")), answer(kernel(1.4))]
    finished = run(tmp_path / "run", answers)
    assert finished is not None and finished.result.node == "s0r0t2"
    assert benches.finals == ["s0r0t0", "s0r0t1", "s0r0t2"]
    report = (tmp_path / "run" / "report.md").read_text()
    assert "judged again in full it is ambiguous" in report and "it forgets its weights" in report


def test_after_three_that_do_not_hold_none_is_found(tmp_path: Path, benches: type[Bench]) -> None:
    answers = [answer(kernel(2.0 + n / 10, "lucky")) for n in range(3)] + [answer(kernel(1.2))]
    finished = run(tmp_path / "run", answers, request(turns=4))
    assert finished is not None and finished.result.outcome == "none" and len(benches.finals) == 3
    assert outputs(tmp_path / "run") == NONE


def test_what_beats_eager_only_is_kept_where_more_was_asked_for(tmp_path: Path, benches: type[Bench]) -> None:
    answers = [answer(kernel(2.0, f"beats eager only {n}")) for n in range(2)]
    finished = run(tmp_path / "run", answers, request(turns=2, baselines=("compile",)))
    assert finished is not None and finished.result.outcome == "none" and len(benches.finals) == 1
    assert finished.result.kept == "faster_than_eager.py" and finished.result.kept_claim["eager"].low == 1.9
    assert outputs(tmp_path / "run") == NONE | {"faster_than_eager.py", "faster_than_eager.json"}
    assert "No kernel surely beats compile, which was asked for; one surely beats eager" in finished.result.missed
    page = (tmp_path / "run" / "report.html").read_text()
    assert finished.result.missed in page and "module as it is" not in page


def test_where_what_is_to_be_beaten_cannot_run_eager_is_to_be_beaten_and_it_is_said(
    tmp_path: Path, benches: type[Bench]
) -> None:
    benches.unavailable = {"compile": "raises Unsupported: no"}
    finished = run(tmp_path / "run", [answer(kernel(2.0))], request(turns=1, baselines=("compile",)))
    assert finished is not None and finished.result.outcome == "faster" and finished.result.baselines == ["eager", "compile"]
    assert "about the module: baseline compile: it raises Unsupported: no" in (tmp_path / "run" / "report.md").read_text()


@pytest.mark.parametrize("said", ["", "no", "x" * 100_000, "```python\nprint(1)\n```", "\ud800"])
def test_answers_without_a_kernel_end_with_a_report_of_them(tmp_path: Path, said: str) -> None:
    finished = run(tmp_path / "run", [said, said], request(turns=2))
    assert finished is not None and finished.result.outcome == "none"
    assert finished.result.attempts == {"no kernel": 2}
    assert outputs(tmp_path / "run") == NONE


def test_a_backbone_that_dies_half_way_ends_with_the_best_so_far_and_says_so(tmp_path: Path) -> None:
    finished = run(tmp_path / "run", [answer(kernel(1.5)), BackboneError("the server died")])
    assert finished is not None and finished.result.outcome == "faster" and finished.error == "the server died"
    assert "the server died" in (tmp_path / "run" / "report.md").read_text()


def test_a_backbone_that_never_answers_is_an_error_and_the_run_can_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(BackboneError, match="never"):
        run(tmp_path / "run", [BackboneError("never")])
    finished = run(tmp_path / "run", [answer(kernel(1.5))] * 3, resume=True)
    assert finished is not None and finished.result.outcome == "faster"


@pytest.mark.parametrize("error", [TaskError("decay.py: the task cannot be imported"), UsageError("x")])
def test_an_unusable_module_leaves_no_folder(tmp_path: Path, benches: type[Bench], error: Exception) -> None:
    benches.fit = error
    with pytest.raises(type(error)):
        run(tmp_path / "run", [])
    assert not (tmp_path / "run").exists()
    (tmp_path / "made").mkdir()
    with pytest.raises(type(error)):
        run(tmp_path / "made", [])
    assert outputs(tmp_path / "made") == set() and (tmp_path / "made").exists()


def test_a_model_that_loads_while_the_module_is_refused_is_closed(tmp_path: Path, benches: type[Bench]) -> None:
    """Left alone, its threads were cut off when the program ended, which then aborted."""
    benches.fit = TaskError("decay.py: the task cannot be imported")
    closed = []

    class Slow(ChatClient):
        async def close(self) -> None:
            closed.append(self)

    def opening() -> Client:
        time.sleep(0.2)
        return Slow(ScriptedChat([]))

    with pytest.raises(TaskError):
        run(tmp_path / "run", [], client=opening)
    assert len(closed) == 1


def test_a_module_that_needs_its_neighbours_is_told_so(tmp_path: Path, benches: type[Bench]) -> None:
    benches.fit = TaskError("x.py: the task cannot be imported: ModuleNotFoundError: No module named 'layers'")
    with pytest.raises(TaskError, match="'layers'; the sandbox sees installed packages, this file"):
        run(tmp_path / "run", [])


def test_a_judge_that_fails_at_once_is_an_error(tmp_path: Path, benches: type[Bench], monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: Any, **options: Any) -> Verdict:
        raise JudgeError("the referee was lost")

    monkeypatch.setattr(benches, "judge_async", fail)
    with pytest.raises(JudgeError, match="referee"):
        run(tmp_path / "run", [answer(kernel(1.5))])


def test_no_backbone_leaves_no_folder(tmp_path: Path) -> None:
    def missing() -> Client:
        raise BackboneError("no such model")

    with pytest.raises(BackboneError, match="no such model"):
        run(tmp_path / "run", [], client=missing)
    assert not (tmp_path / "run").exists()


def test_a_bug_of_ours_does_not_lose_what_was_done(tmp_path: Path) -> None:
    def script(messages: Any, sampling: Any, told: list[int] = []) -> str:  # noqa: B006
        told.append(1)
        if len(told) > 1:
            raise KeyError("oops")
        return answer(kernel(1.7))

    finished = run(tmp_path / "run", script)
    assert finished is not None and finished.result.outcome == "faster" and "KeyError" in finished.error
    (ended,) = [event for event in read_events(tmp_path / "run") if isinstance(event, RunEnded)]
    assert ended.facts["trace"].rstrip().endswith("KeyError: 'oops'")  # its last 4,000 characters, where the cause is


def asking(stops: list[Stop]) -> Callable[[Event], None]:
    """Asks once, at the first verdict."""

    def hear(event: Event) -> None:
        if isinstance(event, Judged) and not stops[0].asked:
            stops[0].ask()

    return hear


ENDLESS = [answer(kernel(1.5, str(n))) for n in range(99)]


def test_a_signal_ends_the_search_with_the_best_so_far(tmp_path: Path, benches: type[Bench]) -> None:
    benches.slow = 0.01
    stops: list[Stop] = []
    finished = run(tmp_path / "run", ENDLESS, request(turns=99), stops=stops, listener=asking(stops))
    assert finished is not None and finished.interrupted and finished.result.outcome == "faster"
    assert finished.result.ended == "interrupted" and finished.attempts < 99


def test_a_signal_before_any_answer_has_nothing_to_report(tmp_path: Path) -> None:
    stops: list[Stop] = []

    async def work() -> None:
        loop, wanted = asyncio.get_running_loop(), request()
        stops.append(Stop())

        def opening() -> Client:
            loop.call_soon_threadsafe(stops[0].ask)
            until(lambda: stops[0].asked)
            time.sleep(0.1)
            return ChatClient(ScriptedChat([]))

        with opened_run(tmp_path / "run", wanted, False) as journal:
            assert await optimize(wanted, journal, opening, None, stops[0]) is None

    asyncio.run(work())
    assert not (tmp_path / "run").exists()


def test_a_second_signal_ends_the_last_word_too_and_it_can_be_resumed(tmp_path: Path, benches: type[Bench]) -> None:
    stops: list[Stop] = []

    def once_more() -> None:
        stops[0].ask()

    benches.slow, benches.at_the_end = 0.01, staticmethod(once_more)  # type: ignore[assignment]
    wanted = request(turns=99)
    assert run(tmp_path / "run", ENDLESS, wanted, stops=stops, listener=asking(stops)) is None
    assert outputs(tmp_path / "run") == set() and stops[0].asked == 2
    benches.slow, benches.at_the_end = 0.0, None
    finished = run(tmp_path / "run", ENDLESS, wanted, resume=True)
    assert finished is not None and finished.result.outcome == "faster"


@pytest.mark.rotates
def test_time_cuts_a_step_that_is_under_way(tmp_path: Path, benches: type[Bench]) -> None:
    slow = answer(kernel(1.5, "takes for ever"))
    finished = run(tmp_path / "run", [answer(kernel(1.2)), slow], request(caps=BudgetCaps(seconds=4.0)))
    assert finished is not None and finished.result.ended == "the budget of 4 seconds is spent"
    assert finished.attempts == 1 and finished.result.attempts == {"faster": 1, "not judged": 1}


def test_time_ends_the_trying_of_a_slow_module(tmp_path: Path, benches: type[Bench]) -> None:
    benches.trying = 60.0
    with pytest.raises(TaskError, match=r"not over after 0\.3 seconds, all that `minutes` allows"):
        run(tmp_path / "run", [answer(kernel(1.2))], request(caps=BudgetCaps(seconds=0.3)))


def test_a_budget_that_allows_no_answer_is_a_report_too(tmp_path: Path) -> None:
    finished = run(tmp_path / "run", [answer(kernel(1.5))] * 9, request(caps=BudgetCaps(tokens=1)))
    assert finished is not None and finished.attempts == 1 and "1 tokens" in finished.result.ended


def test_a_finished_run_is_resumed_without_asking_or_judging_again(tmp_path: Path, benches: type[Bench]) -> None:
    answers = [answer(kernel(1.3)), answer(kernel(2.0)), answer(kernel(1.1))]
    first = run(tmp_path / "run", answers)
    heard: list[Event] = []
    again = run(tmp_path / "run", [], resume=True, listener=heard.append)
    assert first is not None and again is not None and again.result.claim == first.result.claim
    assert benches.finals == []
    assert sum(isinstance(event, RunStarted) for event in heard) == 2 and sum(isinstance(event, Judged) for event in heard) == 4


def test_more_to_spend_is_no_other_setting_but_turns_are(tmp_path: Path) -> None:
    short = run(tmp_path / "run", [answer(kernel(1.3))], request(caps=BudgetCaps(kernels=1)))
    assert short is not None and "1 kernels" in short.result.ended
    longer = run(tmp_path / "run", [answer(kernel(1.6)), answer(kernel(1.7))], resume=True)
    assert longer is not None and longer.result.node == "s0r0t2"
    with pytest.raises(
        UsageError, match=r"other settings: turns 3 then, 5 now; temperature 1.0 then, 0.5 now\. Resume with those"
    ):
        run(tmp_path / "run", [], request(turns=5, temperature=0.5), resume=True)


def test_a_folder_is_taken_only_when_it_is_free_or_to_be_resumed(tmp_path: Path) -> None:
    run(tmp_path / "run", [answer(kernel(1.3))] * 3)
    with pytest.raises(UsageError, match="holds a run already; go on with --resume"):
        run(tmp_path / "run", [])
    with pytest.raises(UsageError, match="no run to resume"):
        run(tmp_path / "other", [], resume=True)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    with pytest.raises(UsageError, match="is not empty"):
        run(tmp_path / "full", [])
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="no run can be kept there"):
        run(tmp_path / "file" / "run", [])


def test_a_second_process_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    wanted = request()
    with opened_run(tmp_path / "run", wanted, False) as journal:
        journal.write(RunStarted("x", wanted.terms(), {}))
        with pytest.raises(UsageError, match="another process is writing this run"), opened_run(tmp_path / "run", wanted, True):
            pass


def test_outputs_that_cannot_be_written_are_one_line_and_the_run_stays(tmp_path: Path) -> None:
    folder = tmp_path / "run"

    def block(event: Event) -> None:
        if isinstance(event, Judged):
            (folder / "report.md").mkdir(exist_ok=True)

    with pytest.raises(BottegaError, match=r"report\.md: cannot be written .* --resume"):
        run(folder, [answer(kernel(1.5))] * 3, listener=block)
    assert not (folder / "result.json").exists()
    (folder / "report.md").rmdir()
    finished = run(folder, [], resume=True)
    assert finished is not None and outputs(folder) == FOUND


def test_folders_are_numbered(tmp_path: Path) -> None:
    assert next_folder("my mod/ule", tmp_path, False).name == "bottega-my_mod_ule-1"
    with pytest.raises(UsageError, match="no run of x to resume"):
        next_folder("x", tmp_path, True)
    (tmp_path / "bottega-x-1").mkdir()
    assert next_folder("x", tmp_path, False).name == "bottega-x-2" and next_folder("x", tmp_path, True).name == "bottega-x-1"


def test_terms_are_plain_and_complete() -> None:
    terms = request().terms()
    assert terms["turns"] == 3 and terms["mode"] == "as-built" and terms["target"] is None
    assert not differences(terms, replace(request(), workers=4, caps=BudgetCaps(kernels=1)).terms())
    assert differences(terms, replace(request(), training=False).terms()) == ['mode "as-built" then, "eval" now']
