"""The RL loop from the first step to the last: its figures, its library, and what it does when something goes wrong."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from killed_run import counted  # noqa: E402
from tiny import one_thread, weights  # noqa: E402, F401
from toy_world import ToyJudge, tasks, toy_config, toy_inputs, toy_loaded  # noqa: E402

from bottega.backbone.loading import load, noted_style  # noqa: E402
from bottega.core.candidate import Candidate  # noqa: E402
from bottega.core.errors import JudgeError, NoJudgeError, TrainingError, UsageError  # noqa: E402
from bottega.core.event import AgentStepped, Credited, Measured, RunEnded, Wrote  # noqa: E402
from bottega.core.skill import SkillState  # noqa: E402
from bottega.core.task import Task  # noqa: E402
from bottega.core.verdict import Outcome, Verdict  # noqa: E402
from bottega.episodes.journal import read_events  # noqa: E402
from bottega.skills.library import Library  # noqa: E402
from bottega.train import checkpoint, rl  # noqa: E402
from bottega.train.learner import Learner  # noqa: E402
from bottega.train.optimiser import rate  # noqa: E402
from bottega.train.policy import Policy  # noqa: E402
from bottega.train.rollout import tasks_of_step  # noqa: E402
from bottega.train.run_directory import kind_of, resumed_config  # noqa: E402
from bottega.train.settings import Config  # noqa: E402

SMALL = ["data.steps=3", "rollout.tasks=2", "rollout.updates=1", "rollout.summaries=3"]
LAX = [
    "skills.threshold=1.0",
    "skills.alpha=0.9",
    "skills.rounds=2",
    "skills.least_rounds=1",
    "skills.proofs=6",
    "rollout.tasks=3",
]
"""A gate that lets a card through on luck, so that cards are admitted by a model that knows nothing."""
EXACT = ["rollout.slots=1"]
"""Answers drawn one by one: batches of another shape round otherwise."""
CLOCKED = ("seconds", "busy/", "tokens_per_second", "training_tokens_per_second", "memory_gib")


def measured(folder: Path) -> dict[str, dict[str, float]]:
    """What was measured, without what depends on the clock."""
    told = [event for event in read_events(folder) if isinstance(event, Measured)]
    assert len({event.key for event in told}) == len(told), "a step was told twice"
    return {event.key: {k: v for k, v in event.values.items() if not k.startswith(CLOCKED)} for event in told}


def notes(folder: Path) -> str:
    return " ".join(event.note for event in read_events(folder) if isinstance(event, Measured))


def weights_at(folder: Path, step: int) -> dict[str, Any]:
    learner = Learner.begin(Config(), toy_loaded().model)
    learner.load(folder / "checkpoints" / f"step-{step:08}" / checkpoint.TENSORS)
    return {name: parameter.detach() for name, parameter in learner.trained().items()}


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())


def cards_of(folder: Path) -> tuple[int, dict[str, tuple[str, int]]]:
    """The library's version, and for each card its state and how many trials it has."""
    with Library(folder / "library") as library:
        return library.version, {c.name: (c.state.value, len(library.evidence.trials(c.name))) for c in library.cards()}


def test_a_run_ends_with_its_figures_its_library_and_a_model(tmp_path: Path) -> None:
    config = toy_config(tmp_path, *SMALL, *LAX)
    finished = rl.train(config, tmp_path / "run", inputs=toy_inputs(tmp_path))
    assert finished.step == 3
    assert not finished.stopped
    assert kind_of(tmp_path / "run") == "rl"
    told = measured(tmp_path / "run")
    assert {"reward", "correct", "fast_1.2", "coverage", "turn1/reward", "turn2/reward", "write/advantage_deviation", "select/reward",
            "entropy", "mismatch", "dropped/coverage", "dropped/mismatch", "skills/proposed", "skills/used", "junk",
            "summarise/reward"} <= told["train/2"].keys()  # fmt: skip
    clocked = next(e for e in read_events(tmp_path / "run") if isinstance(e, Measured)).values
    assert {
        "seconds/rollout",
        "seconds/gate",
        "seconds/training",
        "busy/generator",
        "busy/judge",
        "tokens_per_second",
    } <= clocked.keys()
    turns = [e.turn for e in read_events(tmp_path / "run" / "steps" / "000003") if isinstance(e, Wrote)]
    assert {turn.policy_version for turn in turns} == {2}, "the third step is drawn by the weights of two updates"
    assert all(turn.logprobs and "[user]" in turn.prompt for turn in turns)
    credited = next(e for e in read_events(tmp_path / "run" / "steps" / "000003") if isinstance(e, Credited))
    writing = [credit["advantage"] for credit in credited.credits if credit["role"] == "write"]
    assert len(writing) == told["train/3"]["write/count"] and any(writing), (
        "what each answer was credited with is in the step's log"
    )
    assert (tmp_path / "run" / "tokenizer" / "tokenizer.json").is_file()
    admitted = sum(values["admitted"] for key, values in told.items() if key.startswith("checkpoint/"))
    _, cards = cards_of(tmp_path / "run")
    assert admitted == len(cards) - 4, "what was admitted is in the library, beside what was there"
    assert admitted > 0
    assert all(state == "admitted" and (name.endswith("_card") or trials) for name, (state, trials) in cards.items())
    assert load(str(tmp_path / "run" / "model"), device="cpu").model.config.vocab_size


def test_the_source_library_is_left_alone(tmp_path: Path) -> None:
    config = toy_config(tmp_path, *SMALL, *LAX, "data.steps=1")
    with Library(tmp_path / "library") as library:
        before = library.version
    rl.train(config, tmp_path / "run", inputs=toy_inputs(tmp_path))
    with Library(tmp_path / "library") as library:
        assert library.version == before


@pytest.mark.rotates
@pytest.mark.parametrize(
    "moment",
    [
        "publish",
        *(pytest.param(m, marks=pytest.mark.slow) for m in ("event:3", "event:50", "event:130", "checkpoint", "half", "drop")),
    ],
)
def test_a_killed_run_goes_on_to_the_same_numbers(moment: str, tmp_path: Path) -> None:
    settings = [*SMALL, *LAX, *EXACT, "checkpoint.every=2", *(["checkpoint.keep=1"] if moment == "drop" else [])]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for folder in (whole, killed):
        folder.mkdir()
    script = Path(__file__).parent / "killed_run.py"
    done = subprocess.run([sys.executable, str(script), str(killed), moment, *settings], check=False, env={**os.environ})
    assert done.returncode == -signal.SIGKILL, "it was not killed"
    rl.train(toy_config(whole, *settings), whole / "run", inputs=toy_inputs(whole, counted(whole)))
    config = resumed_config("rl", killed / "run")
    rl.train(config, killed / "run", resume=True, inputs=toy_inputs(killed, counted(killed)))
    assert measured(killed / "run") == measured(whole / "run")
    one, other = weights(killed / "run"), weights(whole / "run")
    assert all(torch.equal(value, other[name]) for name, value in one.items())
    (version, cards), (expected, theirs) = cards_of(killed / "run"), cards_of(whole / "run")
    assert cards == theirs
    assert version - expected <= (moment == "half"), "cards that were put in twice"
    assert any(name.startswith("proposal") for name in cards), "no card was staged, so nothing was tried"
    asked, needed = ((folder / "asked").read_text().count("\n") for folder in (killed, whole))
    under_way = 24  # at most so many verdicts were asked for and not yet on the disk
    assert asked <= needed + under_way


@pytest.mark.rotates
@pytest.mark.parametrize("moment", ["event:31", pytest.param("checkpoint", marks=pytest.mark.slow)])
def test_agents_are_trained_and_a_killed_run_of_them_goes_on_to_the_same_numbers(moment: str, tmp_path: Path) -> None:
    """Conversations of one token a step: the kernel that it spells is written and judged, and what the judge said is the next prompt."""
    agents = ["rollout.strategy=agent", "rollout.steps=4", "data.longest=1024", "data.pack_tokens=4096", "rollout.summaries=0"]
    settings = [*SMALL, *EXACT, *agents, "data.steps=2", "rollout.tasks=1", "rollout.schemes=1", "checkpoint.every=1"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for folder in (whole, killed):
        folder.mkdir()
    script = Path(__file__).parent / "killed_run.py"
    done = subprocess.run([sys.executable, str(script), str(killed), moment, *settings], check=False, env={**os.environ})
    assert done.returncode == -signal.SIGKILL, "it was not killed"
    if moment != "checkpoint":
        steps = [event for event in read_events(killed / "run" / "steps" / "000001") if isinstance(event, AgentStepped)]
        assert steps, "it was killed among its conversations"
    rl.train(toy_config(whole, *settings), whole / "run", inputs=toy_inputs(whole, counted(whole)))
    rl.train(resumed_config("rl", killed / "run"), killed / "run", resume=True, inputs=toy_inputs(killed, counted(killed)))
    told = measured(whole / "run")
    assert measured(killed / "run") == told
    assert told["train/2"]["turn2/reward"] and told["train/2"]["correct"] > 0, "a conversation has several kernels"
    assert same(weights(killed / "run"), weights(whole / "run"))
    begun = {key: value.detach() for key, value in toy_loaded().model.named_parameters()}
    assert not same(weights(whole / "run"), begun), "it learned"
    asked = [(folder / "asked").read_text().splitlines() for folder in (whole, killed)]
    assert len(asked[1]) <= len(asked[0]) + 4, "what was judged is not judged again, but for what was under way"


@pytest.mark.rotates
def test_a_run_that_no_judge_is_left_for_ends_and_goes_on_to_the_same_numbers(tmp_path: Path) -> None:
    """It kept verdicts that were none, learned from them, and had them for good: a resumed run found them in its log."""
    settings = [*SMALL, *EXACT, "rollout.tasks=1", "ablations.frozen_library=true", "data.steps=2"]
    whole, left = tmp_path / "whole", tmp_path / "left"
    judges = [ToyJudge(), ToyJudge(), ToyJudge()]

    def gone(task: Task, candidate: Candidate) -> None:
        if judges[1].calls > 6:
            raise NoJudgeError("the cluster has had no judge for 120 s")

    judges[1] = ToyJudge(gone)
    for folder in (whole, left):
        folder.mkdir()
    rl.train(toy_config(whole, *settings), whole / "run", inputs=toy_inputs(whole, judges[0]))
    with pytest.raises(NoJudgeError, match="--resume goes on"):
        rl.train(toy_config(left, *settings), left / "run", inputs=toy_inputs(left, judges[1]))
    rl.train(resumed_config("rl", left / "run"), left / "run", resume=True, inputs=toy_inputs(left, judges[2]))
    assert measured(left / "run") == measured(whole / "run") and same(weights(left / "run"), weights(whole / "run"))


def step_logs(folder: Path) -> list[int]:
    return sorted(int(place.name) for place in (folder / "steps").iterdir())


@pytest.mark.slow
def test_logs_of_steps_are_kept_as_long_as_a_checkpoint_may_need_them(tmp_path: Path) -> None:
    often = [*SMALL, *EXACT, "rollout.tasks=1", "ablations.frozen_library=true", "data.steps=4", "checkpoint.every=1"]
    rl.train(toy_config(tmp_path, *often, "checkpoint.step_logs=all"), tmp_path / "all", inputs=toy_inputs(tmp_path))
    assert step_logs(tmp_path / "all") == [1, 2, 3, 4]
    rl.train(toy_config(tmp_path, *often), tmp_path / "run", inputs=toy_inputs(tmp_path))
    assert step_logs(tmp_path / "run") == [3, 4], "two checkpoints are kept"
    (tmp_path / "run" / "checkpoints" / "step-00000004" / "state.json").write_text("{")
    judge = ToyJudge()
    rl.train(resumed_config("rl", tmp_path / "run"), tmp_path / "run", resume=True, inputs=toy_inputs(tmp_path, judge))
    assert judge.calls == 0, "the step after the older checkpoint is walked by its log"
    assert measured(tmp_path / "run") == measured(tmp_path / "all")
    assert all(torch.equal(value, weights(tmp_path / "all")[name]) for name, value in weights(tmp_path / "run").items())
    for place in (tmp_path / "run" / "checkpoints").glob("step-*"):
        (place / "state.json").write_text("{")
    with pytest.raises(TrainingError, match="no checkpoint can be used"):
        rl.train(resumed_config("rl", tmp_path / "run"), tmp_path / "run", resume=True, inputs=toy_inputs(tmp_path))


@pytest.mark.slow
def test_a_full_disk_keeps_the_last_checkpoint_and_nothing_is_judged_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = toy_config(tmp_path, *SMALL, *EXACT, "ablations.frozen_library=true", "checkpoint.every=1")
    rl.train(config, tmp_path / "whole", inputs=toy_inputs(tmp_path))
    room = checkpoint._require_room

    def full(folder: Path, needed: int) -> None:
        if (folder / "step-00000002").exists():
            raise OSError(28, "No space left on device")
        room(folder, needed)

    monkeypatch.setattr(checkpoint, "_require_room", full)
    with pytest.raises(TrainingError, match="could not be kept"):
        rl.train(config, tmp_path / "run", inputs=toy_inputs(tmp_path))
    monkeypatch.setattr(checkpoint, "_require_room", room)
    assert (tmp_path / "run" / "checkpoints" / "latest").read_text().strip() == "step-00000002"
    judge = ToyJudge()
    rl.train(config, tmp_path / "run", resume=True, inputs=toy_inputs(tmp_path, judge))
    assert judge.calls == 0, "the third step was judged before the disk was full"
    assert measured(tmp_path / "run") == measured(tmp_path / "whole")


@pytest.mark.rotates
def test_a_loss_that_is_no_number_is_left_out_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, calls = Policy.loss, []

    def spoiled(self: Policy, *given: Any) -> Any:
        calls.append(1)
        passed = plain(self, *given)
        return passed if len(calls) != 2 else type(passed)(passed.loss * math.nan, passed.logprobs, passed.entropy)

    monkeypatch.setattr(Policy, "loss", spoiled)
    finished = rl.train(toy_config(tmp_path, *SMALL), tmp_path / "run", inputs=toy_inputs(tmp_path))
    assert finished.step == 3
    assert "step was left out" in notes(tmp_path / "run")
    assert all(value.isfinite().all() for value in weights(tmp_path / "run").values())


def test_a_batch_of_which_nothing_is_left_changes_nothing_and_says_so(tmp_path: Path) -> None:
    config = toy_config(tmp_path, *SMALL, "data.longest=1", "data.steps=1")
    rl.train(config, tmp_path / "run", inputs=toy_inputs(tmp_path))
    assert "no update, nothing is left to learn from" in notes(tmp_path / "run")
    assert "longer than data.longest" in notes(tmp_path / "run")
    assert measured(tmp_path / "run")["train/1"]["rows"] == 0


class Moody(ToyJudge):
    """Finds every kernel as wrong as the next in steps 1 and 3."""

    alike = True

    def hear(self, event: rl.RlEvent) -> None:
        if isinstance(event, rl.Learning):
            self.alike = event.step + 1 in (1, 3)

    def judge(self, task: Task, candidate: Candidate, **options: Any) -> Verdict:
        verdict = super().judge(task, candidate, **options)
        return Verdict(Outcome.INCORRECT, task_id=task.id, candidate_id=candidate.id) if self.alike else verdict


@pytest.mark.rotates
def test_trainer_and_decoder_agree_at_the_temperature_of_sampling(tmp_path: Path) -> None:
    config = toy_config(tmp_path, *SMALL, "data.steps=1", "rollout.tasks=1", "rollout.temperature=0.5", "rollout.replaced=0")
    rl.train(config, tmp_path / "run", inputs=toy_inputs(tmp_path))
    told = measured(tmp_path / "run")["train/1"]
    assert abs(told["mismatch"]) < 1e-4 and told["dropped/mismatch"] == 0, "log-probs of temperature 1 were compared"


@pytest.mark.rotates
def test_a_step_without_a_signal_draws_other_tasks_in_their_place(tmp_path: Path) -> None:
    for replaced, episodes in ((1, 4), (0, 2)):
        config = toy_config(tmp_path, *SMALL, "data.steps=1", f"rollout.replaced={replaced}")
        rl.train(config, tmp_path / str(replaced), inputs=toy_inputs(tmp_path, Moody()))
        assert measured(tmp_path / str(replaced))["train/1"]["episodes"] == episodes
    assert toy_config(tmp_path).rollout.replaced == 1, "unless a recipe says otherwise"


@pytest.mark.rotates
def test_a_step_in_which_no_answer_is_better_changes_no_weights(tmp_path: Path) -> None:
    config = toy_config(
        tmp_path, *SMALL, *EXACT, "data.steps=4", "ablations.frozen_library=true", "checkpoint.every=1", "checkpoint.keep=4",
        "loss.kl=0.0", "optimiser.weight_decay=0.1", "optimiser.schedule=cosine", "optimiser.bad_steps=1",
    )  # fmt: skip
    whole, run = tmp_path / "whole", tmp_path / "run"
    rl.train(config, whole, inputs=toy_inputs(tmp_path, judge := Moody()), on_event=judge.hear)
    told = measured(whole)
    assert ["gradient" in told[f"train/{step}"] for step in (1, 2, 3, 4)] == [False, True, False, True]
    assert all("entropy" in told[f"train/{step}"] and told[f"train/{step}"]["rows"] > 0 for step in (1, 2, 3, 4))
    assert told["train/4"]["rate"] == rate(config.optimiser, 3, 4), "a step without an update is a step of the schedule"
    assert notes(whole).count("no update, every advantage is 0") == 2
    after = [weights_at(whole, step) for step in (1, 2, 3, 4)]
    untrained = dict(toy_loaded(config.data.seed).model.named_parameters())
    assert same(after[0], untrained) and not same(after[1], after[0]), "the first update is the second step's"
    assert same(after[2], after[1]), "momentum or weight decay moved the weights"
    assert not same(after[3], after[2])
    # the same after a restart, from an optimiser that has not stepped yet, over steps with and without an update
    rl.train(
        config,
        run,
        inputs=toy_inputs(tmp_path, judge := Moody()),
        on_event=judge.hear,
        stop=(run / "checkpoints" / "step-00000002").exists,
    )
    for step in (2, 3):
        (run / "checkpoints" / f"step-{step:08}" / "state.json").write_text("{")
    rl.train(resumed_config("rl", run), run, resume=True, inputs=toy_inputs(tmp_path, judge := Moody()), on_event=judge.hear)
    assert measured(run) == told
    assert same(weights(run), weights(whole))


@pytest.mark.rotates
def test_with_a_reference_the_update_is_taken_all_the_same(tmp_path: Path) -> None:
    config = toy_config(tmp_path, *SMALL, "data.steps=1", "loss.kl=0.1")
    rl.train(config, tmp_path / "run", inputs=toy_inputs(tmp_path, Moody()))
    assert "gradient" in measured(tmp_path / "run")["train/1"]
    assert "every advantage is 0" in notes(tmp_path / "run") and "no update" not in notes(tmp_path / "run")


class Unsteady(ToyJudge):
    """Loses its worker: for some kernels once, for one task always."""

    def __init__(self, lost: str = "") -> None:
        super().__init__()
        self.lost, self.seen = lost, set[str]()

    def judge(self, task: Task, candidate: Candidate, **options: Any) -> Verdict:
        key = f"{task.id}/{candidate.id}"
        if task.id == self.lost or key not in self.seen:
            self.seen.add(key)
            raise JudgeError("the worker is gone")
        return super().judge(task, candidate, **options)


@pytest.mark.rotates
def test_a_lost_judge_is_asked_again_and_costs_a_verdict_at_most(tmp_path: Path) -> None:
    config = toy_config(tmp_path, *SMALL, "data.steps=1", *EXACT)
    rl.train(config, tmp_path / "sound", inputs=toy_inputs(tmp_path))
    rl.train(config, tmp_path / "once", inputs=toy_inputs(tmp_path, Unsteady()))
    assert measured(tmp_path / "once") == measured(tmp_path / "sound")
    lost = tasks_of_step(tasks(), 1, config.rollout.tasks, config.data.seed)[0]
    rl.train(config, tmp_path / "lost", inputs=toy_inputs(tmp_path, Unsteady(lost.id)))
    told = measured(tmp_path / "lost")["train/1"]
    assert told["unjudged"] > 0
    assert told["rows"] > 0
    assert "verdicts were lost" in notes(tmp_path / "lost")


@pytest.mark.rotates
def test_an_alarm_stops_the_run_with_a_checkpoint_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rl, "alarms", lambda history: ["entropy fell"] if len(history) == 2 else [])
    config = toy_config(tmp_path, *SMALL, "rollout.tasks=1", "ablations.frozen_library=true")
    told = rl.train(config, tmp_path / "told", inputs=toy_inputs(tmp_path))
    assert not told.stopped, "an alarm is told, and stops nothing unless it is asked to"
    assert "entropy fell" in notes(tmp_path / "told")
    wanted = config.model_copy(update={"log": config.log.model_copy(update={"stop_on_alarm": True})})
    stopped = rl.train(wanted, tmp_path / "run", inputs=toy_inputs(tmp_path))
    assert (stopped.step, stopped.stopped) == (2, "entropy fell")
    assert (tmp_path / "run" / "checkpoints" / "step-00000002").is_dir()
    assert rl.train(wanted, tmp_path / "run", resume=True, inputs=toy_inputs(tmp_path)).step == 3
    assert [e.ended for e in read_events(tmp_path / "run") if isinstance(e, RunEnded)] == ["entropy fell", "all steps taken"]


@pytest.mark.rotates
@pytest.mark.parametrize(
    ("override", "roles", "used"),
    [
        ("ablations.skills=false", {"write"}, False),
        ("ablations.selector=bm25", {"write", "summarise"}, True),
        ('ablations.roles=["select"]', {"select", "write", "summarise"}, True),
        ("advantage.name=grpo", {"select", "write", "summarise"}, True),
        ("loss.kl=0.0", {"select", "write", "summarise"}, True),
    ],
)
def test_ablations_are_switches(
    override: str, roles: set[str], used: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[Any] = []
    plain = rl.batch_of
    monkeypatch.setattr(rl, "batch_of", lambda *given: batches.append(plain(*given)) or batches[-1])
    config = toy_config(
        tmp_path, "data.steps=1", "rollout.tasks=3", "rollout.updates=1", "ablations.frozen_library=true", override
    )
    rl.train(config, tmp_path / "run", inputs=toy_inputs(tmp_path))
    told = measured(tmp_path / "run")["train/1"]
    assert {name for name in ("select", "write", "summarise") if f"{name}/count" in told} == roles
    assert (told["skills/used"] > 0) is used
    rollouts = sum(1 for e in read_events(tmp_path / "run" / "steps" / "000001") if isinstance(e, Wrote)) // 2
    assert rollouts == 3 * 2 * 4, "without skills or a selector a task gets as many rollouts"
    trained = {trace.split("/")[2] for row in batches[0].rows for trace, *_ in row.spans}
    assert trained == ({"select"} if "roles" in override else roles)
    assert (tmp_path / "run" / "library").exists() is ("skills=false" not in override)
    if (tmp_path / "run" / "library").exists():
        with Library(tmp_path / "run" / "library") as library:
            assert library.counts()[SkillState.ADMITTED] == 4


@pytest.mark.rotates
def test_another_run_is_neither_overwritten_nor_resumed(tmp_path: Path) -> None:
    config = toy_config(tmp_path, *SMALL, "data.steps=1")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "events.jsonl").touch()  # as one leaves it that was killed, or refused, before it had begun
    rl.train(config, tmp_path / "run", inputs=toy_inputs(tmp_path))
    assert noted_style(str(tmp_path / "run" / "model")) == "compact", "what it was trained on stands beside it"
    with pytest.raises(UsageError, match="holds a run already"):
        rl.train(config, tmp_path / "run", inputs=toy_inputs(tmp_path))
    with pytest.raises(UsageError, match=r"optimiser\.lr cannot be changed"):
        resumed_config("rl", tmp_path / "run", ["optimiser.lr=0.5"])
    assert resumed_config("rl", tmp_path / "run", ["rollout.slots=2"]).rollout.slots == 2
    content = json.loads((tmp_path / "run" / "config.json").read_text())
    (tmp_path / "run" / "config.json").write_text(json.dumps({**content, "stage": "sft"}))
    with pytest.raises(UsageError, match="not of RL"):
        resumed_config("rl", tmp_path / "run")


STALE = ["rollout.staleness=1", "rejection.mismatch.low=0.2", "rejection.mismatch.high=5"]


@pytest.mark.rotates
def test_rollouts_ahead_are_drawn_by_the_weights_of_the_step_before_the_last(tmp_path: Path) -> None:
    config = toy_config(
        tmp_path, *SMALL, *EXACT, *STALE, "rollout.tasks=1", "ablations.frozen_library=true", "checkpoint.every=2"
    )
    run, again = tmp_path / "run", tmp_path / "again"
    assert rl.train(config, run, inputs=toy_inputs(tmp_path)).step == 3
    told = measured(run)
    assert [told[f"train/{step}"]["staleness"] for step in (1, 2, 3)] == [0, 1, 1]
    turns = [e.turn for e in read_events(run / "steps" / "000003") if isinstance(e, Wrote)]
    assert {turn.policy_version for turn in turns} == {1}
    assert told["train/2"]["mismatch"] > told["train/1"]["mismatch"], "what older weights drew is off by more than rounding"
    assert any(told[f"train/{step}"].get("gradient", 0) > 0 for step in (1, 2))
    rl.train(config, again, inputs=toy_inputs(tmp_path))
    assert measured(again) == told, "which weights draw a step does not depend on the clock"
    assert same(weights(run), weights(again))


@pytest.mark.rotates
def test_a_run_with_rollouts_ahead_stops_at_once_and_goes_on(tmp_path: Path) -> None:
    config = toy_config(tmp_path, *SMALL, *STALE, "data.steps=4", "ablations.frozen_library=true", "checkpoint.every=1")
    asked = ToyJudge()
    stopped = rl.train(config, tmp_path / "run", inputs=toy_inputs(tmp_path, asked), stop=lambda: True)
    assert stopped.step == 1
    assert rl.train(config, tmp_path / "run", resume=True, inputs=toy_inputs(tmp_path, asked)).step == 4
    assert set(measured(tmp_path / "run")) >= {f"train/{step}" for step in (1, 2, 3, 4)}


def test_bounds_that_would_drop_all_that_is_stale_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"staleness = 1 .*would drop nearly all.*mismatch\.high=2"):
        toy_config(tmp_path, *SMALL, "rollout.staleness=1")


@pytest.mark.rotates
def test_an_adapter_is_trained_saved_and_exported(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    config = toy_config(tmp_path, *SMALL, *EXACT, "model.lora.rank=8", "ablations.frozen_library=true", "checkpoint.every=1")
    whole, run = tmp_path / "whole", tmp_path / "run"
    rl.train(config, whole, inputs=toy_inputs(tmp_path))
    told = measured(whole)
    assert told["train/3"]["mismatch"] < 1e-4, "the decoder's merged weights are not the trainer's"
    assert any(told[f"train/{step}"].get("gradient", 0) > 0 for step in (1, 2, 3))
    plain = dict(toy_loaded(config.data.seed).model.named_parameters())
    merged = weights(whole)
    assert merged.keys() <= plain.keys() and torch.equal(
        merged["model.embed_tokens.weight"], plain["model.embed_tokens.weight"]
    )
    assert not torch.equal(merged["model.layers.0.mlp.up_proj.weight"], plain["model.layers.0.mlp.up_proj.weight"])
    assert (whole / "adapter" / "adapter_config.json").is_file()
    rl.train(config, run, inputs=toy_inputs(tmp_path), stop=(run / "checkpoints" / "step-00000002").exists)
    rl.train(resumed_config("rl", run), run, resume=True, inputs=toy_inputs(tmp_path))
    assert measured(run) == told
    assert same(weights(run), merged)
