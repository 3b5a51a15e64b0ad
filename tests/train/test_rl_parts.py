"""The parts of the RL loop on their own: the order of tasks, alarms, figures, staged cards, siblings."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from toy_world import CARDS, USELESS, library_cards, tasks  # noqa: E402

from bottega.core.device import DeviceFacts  # noqa: E402
from bottega.core.episode import Episode  # noqa: E402
from bottega.core.event import Summarised  # noqa: E402
from bottega.core.skill import AppliesTo, Skill, SkillState  # noqa: E402
from bottega.core.trace import Trace  # noqa: E402
from bottega.core.trial import GainInterval, Trial  # noqa: E402
from bottega.core.turn import Turn  # noqa: E402
from bottega.core.verdict import Outcome, Speedup, Verdict  # noqa: E402
from bottega.episodes.settings import EpisodeSettings  # noqa: E402
from bottega.skills.gate import Decision  # noqa: E402
from bottega.skills.library import Library  # noqa: E402
from bottega.skills.proving import Proof  # noqa: E402
from bottega.skills.upkeep import duplicates_of, retire  # noqa: E402
from bottega.skills.uses import Scheme, Use  # noqa: E402
from bottega.tasks.load import load_task  # noqa: E402
from bottega.train.admission import AdmittedCard, Staged, admit, apply, applying, offered, open_run_library, siblings_of  # noqa: E402
from bottega.train.alarms import alarms  # noqa: E402
from bottega.train.config import read_config  # noqa: E402
from bottega.train.rewards import reward_named  # noqa: E402
from bottega.train.rewards.verdict_reader import VerdictReader  # noqa: E402
from bottega.train.rollout import RlInputs, Rollouts, tasks_of_step  # noqa: E402
from bottega.train.rollout_metrics import rollout_metrics  # noqa: E402


def test_every_task_comes_once_before_any_comes_again() -> None:
    known = tasks()
    drawn = [task.id for step in range(1, 7) for task in tasks_of_step(known, step, 2, seed=5)]
    assert sorted(drawn[:6]) == sorted(task.id for task in known)
    assert sorted(drawn[6:]) == sorted(drawn[:6])
    assert drawn[6:] != drawn[:6]
    assert len(tasks_of_step(known, 1, 40, seed=5)) == 6, "a step has no more tasks than there are"


def test_siblings_share_most_tags() -> None:
    known = tasks()
    for task in known:
        siblings = siblings_of(task, known, 3)
        assert len({sibling.id for sibling in siblings} - {task.id}) == 3
        shared = [len({*task.tags} & {*sibling.tags}) for sibling in siblings]
        assert shared == sorted(shared, reverse=True)
        assert siblings[0].tags[0] == task.tags[0]
    assert siblings_of(known[0], known[:1], 3) == []
    fitting = siblings_of(known[0], known, 3, lambda task: task.id == known[-1].id)
    assert fitting == [known[-1]], "a card is not tried where it would not be offered"


WINDOW = 2


@pytest.mark.parametrize(
    ("name", "values", "told"),
    [
        ("entropy", [1.0, 1.0, 0.5, 0.4], ""),
        ("entropy", [1.0, 1.0, 0.05, 0.04], "entropy fell from 1 to 0.045"),
        ("entropy", [1.0, 1.0, 4.0, 4.0], "entropy rose"),
        ("entropy", [1.0, 1.0, 0.01], ""),
        ("junk", [0.9, 0.9, 0.8, 0.8], ""),
        ("junk", [0.1, 0.1, 0.8, 0.8], "80% of the answers hold no kernel, and 10% did once"),
        ("fast_1.2", [0.0, 0.2, 0.2, 0.0, 0.0], "fast_1.2 fell from 20.0% to 0.0%"),
        ("fast_1.2", [0.02, 0.02, 0.0, 0.0], ""),
        ("fast_1.2", [0.2, 0.2, 0.15, 0.15], ""),
    ],
)
def test_alarms_compare_a_run_with_its_own_past(name: str, values: list[float], told: str) -> None:
    found = alarms([{name: value} for value in values], WINDOW)
    assert bool(found) is bool(told)
    assert told in " ".join(found)


def verdict(point: float | None, share: float = 1.0) -> Verdict:
    if point is None:
        return Verdict(Outcome.INCORRECT)
    return Verdict(Outcome.FASTER, True, {"eager": Speedup(point, point, point)}, coverage={"share": share})


def episode(lines: list[list[Verdict | None]]) -> Episode:
    """Of several rollouts; None is an answer without a kernel."""
    traces = tuple(
        Trace(f"e/write/{number}", "write", tuple(Turn("write", "", fault="" if v else "no code", verdict=v) for v in line))
        for number, line in enumerate(lines)
    )
    return Episode("e", "t", "task", "", "cpu", 1, ("a", "b"), ((), ("a",)), traces)


def test_a_card_is_proved_on_siblings_for_which_its_conditions_hold() -> None:
    device = DeviceFacts("cpu", "a toy", "aarch64", 1, 1.0)
    known = [load_task(f"builtin:{name}") for name in ("logsumexp_rows", "swiglu", "masked_row_sum")]
    asked = AppliesTo(devices=("aarch64",), kinds=("row",))
    for_rows, for_all = replace(library_cards()[0], applies_to=asked), library_cards()[0]
    assert siblings_of(known[0], known, 3, applying(for_rows, device)) == [known[2]]
    assert not siblings_of(known[0], known, 3, applying(for_rows, replace(device, arch="x86_64")))
    assert len(siblings_of(known[0], known, 3, applying(for_all, device))) == 2


def test_what_only_cards_say_that_nobody_is_offered_is_new(tmp_path: Path) -> None:
    device, task = DeviceFacts("cpu", "a toy", "aarch64", 1, 1.0), load_task("builtin:swiglu")
    settings = EpisodeSettings(device="cpu", language="cpp", unproved=True)
    known = replace(library_cards()[0], state=SkillState.PROPOSED)
    proposal = replace(known, name="the_same_again")
    never = {
        "of another language": replace(known, languages=("triton",)),
        "on another device": replace(known, devices=("cuda",)),
        "for another arch": replace(known, applies_to=AppliesTo(devices=("x86_64",))),
    }
    for number, (why, card) in enumerate([("offered", known), *never.items()]):
        with Library(tmp_path / str(number)) as library:
            library.add(card)
            twins = duplicates_of(library, proposal, offered(task, settings, device))
            assert bool(twins) == (why == "offered"), why
            if why == "offered":
                assert not duplicates_of(library, proposal, offered(task, replace(settings, unproved=False), device))
                retire(library, known.name, "no use")
                assert duplicates_of(library, proposal, offered(task, settings, device)), "it was tried, and did not help"


def test_all_proposals_of_a_winning_trace_are_tried_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Summaries are compared with the others of their trace: some of them alone would get no advantage."""
    known, tried = tasks(), []
    given = RlInputs(None, known, None, None, DeviceFacts("cpu", "a toy", "", 1, 1.0), "cpu", "cpp", {})  # type: ignore[arg-type]

    def proposal(name: str, place: int) -> Skill:
        return replace(
            library_cards()[place], name=name, technique=f"write_the_kernel_for_{name}_in_one_piece", state=SkillState.PROPOSED
        )

    traces = {
        f"{task.id}/{number}": proposal(f"toy_{place}_{number}", number)
        for place, task in enumerate(known[:3])
        for number in range(4)
    }
    made = {key: Summarised(key, "e", Turn("summarise", ""), (card,)) for key, card in traces.items()}
    episodes = tuple(
        Episode(
            task.id, task.id, task.name, "", "cpu", 1, (), ((),),
            tuple(Trace(key, "summarise", (made[key].turn,)) for key in made if key.startswith(f"{task.id}/")),
        )
        for task in known[:3]
    )  # fmt: skip

    class Journal:
        def done(self, key: str, kind: type) -> Summarised:
            return made[key]

    def proved(
        config: object, inputs: object, settings: object, proofs: object, wanted: list[Proof], *rest: object
    ) -> list[Decision]:
        tried.extend(wanted)
        return [Decision("refuse", "no gain", GainInterval(1.0, 1.0, 1.0)) for _ in wanted]

    monkeypatch.setattr("bottega.train.admission._proved", proved)
    config = read_config("rl", None, None, ["skills.proofs=2"])
    with Library(tmp_path / "proofs") as proofs, Library(tmp_path / "library") as library:
        library.add(
            replace(next(iter(traces.values())), name="of_another_language", languages=("triton",))
        )  # so offered to nobody
        settings = EpisodeSettings(device="cpu", language="cpp", unproved=True)
        found = admit(config, given, settings, 1, Rollouts(episodes, known[:3]), Journal(), library, proofs, None, None)  # type: ignore[arg-type]
    assert [proof.tasks[0].id for proof in tried] == [task.id for task in known[:2] for _ in range(4)]
    assert [found.rewards[key] for key in traces] == [0.0] * 8 + [None] * 4, "what was not tried is not worth nothing"
    assert found.known == 0


def test_figures_of_a_step_by_hand() -> None:
    found = rollout_metrics(
        [episode([[verdict(1.1), verdict(2.0, 0.5)], [None, verdict(None)]])], reward_named("kevin"), VerdictReader()
    )
    assert found["reward"] == pytest.approx((1.4 + 2.3 + 0 + 0) / 4)
    assert found["reward_best"] == pytest.approx(2.3 / 2)
    assert (found["correct"], found["junk"], found["fast_1"], found["fast_1.2"], found["fast_2"]) == (0.5, 0.25, 0.5, 0.5, 0.5)
    assert found["coverage"] == 0.75
    assert found["turn1/reward"] == pytest.approx(0.7)
    assert found["turn2/correct"] == 0.5
    assert (found["skills/used"], found["skills/selected"]) == (1.0, 1.0)


def staged() -> Staged:
    card = replace(library_cards()[0], name="new_card", state=SkillState.PROPOSED)
    trial = Trial(
        "new_card",
        1,
        "gate",
        "t",
        "task",
        False,
        "eager",
        "cpu",
        "1",
        (2.0,),
        (1.0,),
        GainInterval(2, 1.5, 2.5),
        "admitted",
        "good",
    )
    use = Use("train/e", "t", "red", "cpu", 1, ("first_card",), (Scheme((), (0.1,)), Scheme(("first_card",), (0.2,))))
    return Staged((AdmittedCard(card, "gain 2.000x", (("proof/t", trial),)),), (use,))


def test_staged_cards_survive_json_and_are_published_once(tmp_path: Path) -> None:
    with Library(tmp_path) as library:
        library.add_many(library_cards())
        again = Staged.from_json(json.loads(json.dumps(staged().to_json())))
        assert again == staged()
        done = apply(library, again, 7)
        assert (done.admitted, done.retired, done.cards) == (("new_card",), (), 5)
        version = library.version
        assert apply(library, again, 7) == done
        assert library.version == version
        assert library.get("new_card").reason == "gain 2.000x"
        assert len(library.evidence.trials("new_card")) == 1
        assert [tally.selected for tally in library.uses.totals() if tally.skill == "first_card"] == [1]


def test_a_taken_name_is_no_obstacle(tmp_path: Path) -> None:
    with Library(tmp_path) as library:
        library.add(replace(library_cards()[1], name="new_card"))
        assert apply(library, staged(), 1).admitted == ("new_card_2",)
        assert len(library.evidence.trials("new_card_2")) == 1


def test_a_card_that_does_not_help_retires_with_a_checkpoint(tmp_path: Path) -> None:
    with Library(tmp_path) as library:
        library.add_many(library_cards())
        schemes = (Scheme((), (0.5,)), Scheme(("first_card",), (0.1,)))
        uses = tuple(Use(f"train/{number}", "t", "red", "cpu", 9, ("first_card",), schemes) for number in range(12))
        assert apply(library, Staged(uses=uses), 3).retired == ("first_card",)


def test_a_library_that_was_half_copied_is_copied_anew(tmp_path: Path) -> None:
    source, place = tmp_path / "source", tmp_path / "run"
    with Library(source) as library:
        library.add_many(library_cards())
        library.move("third_card", SkillState.RETIRED, "tired")
    with Library(place) as half:
        half.add(replace(library_cards()[0], name="left_behind"))
    open_run_library(str(source), place).close()
    with open_run_library(str(source), place) as library:
        assert {card.name for card in library.cards()} == {CARDS["red"], CARDS["green"], USELESS}
    with open_run_library("empty", tmp_path / "none") as library:
        assert len(library) == 0
    with open_run_library("starter", tmp_path / "starter") as library:
        states = [card.state for card in library.cards() if isinstance(card, Skill)]
        assert states.count(SkillState.ADMITTED) >= 1, "the shipped cards were proved"
        assert states.count(SkillState.PROPOSED) > 50
