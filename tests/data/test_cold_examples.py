"""Examples from judged material: every kind, in the words of the agents, read back by their own parsers, on one side of the split."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hand_teacher import Hand, task
from judged_records import CARD, SETUP, candidate_of, tell, timed

from bottega.agents import selector, writer
from bottega.agents.module_text import without_prose
from bottega.agents.prompts import Prompts
from bottega.compiler.link import linked
from bottega.compiler.strip import stripped
from bottega.core.candidate import Candidate
from bottega.core.device import DeviceFacts
from bottega.core.errors import BackboneError, BottegaError, UsageError
from bottega.core.skill import SkillState
from bottega.data import examples_writing
from bottega.data.build import LIBRARY, examples_stage, opened_library
from bottega.data.cards import CardIndex
from bottega.data.data_card import changed_files, read_card
from bottega.data.data_files import read_rows
from bottega.data.example import KINDS
from bottega.data.examples_stage import ExampleSet, examples_of
from bottega.data.examples_writing import ExampleContext
from bottega.data.parallel import ExampleJob, ProcessMap
from bottega.data.proofs import FACT, adapted, claims_of, planned
from bottega.data.records import TeacherRecord, task_record_of
from bottega.data.settings import DiversityCaps, ExampleStage
from bottega.data.store import JudgedStore
from bottega.data.tokens import Count
from bottega.data.unjudged import Endings
from bottega.skills.library import Library

OPEN = ExampleStage(held_out=0.0, filtered=False)


def admit_all(folder: Path) -> int:
    """Claims as if the gate had let them in: what the gate itself does is tested where it runs."""
    with JudgedStore(folder) as store, Library(folder / LIBRARY) as library:
        card_index = CardIndex(library, DeviceFacts(**store.fact("device")), store.fact("shelf version"))
        claims = [claim for judged_task in store.judged_tasks(SETUP) for claim in claims_of(judged_task, card_index, "eager")]
        plan = planned(claims, {}, 100)
        for claim, sibling in plan:
            card = library.get(claim.card)
            made = adapted(card, claim, store.kernel(claim.after).source, store.kernel(claim.before).source, "cpu", "hand 1")
            library.add(made)
            library.move(made.name, SkillState.ADMITTED, "told")
            store.note(f"{FACT}{made.name}", {"step": "admit", "reason": "told", "sibling": sibling.task_id, **claim.__dict__})
    return len(plan)


def rows_of(folder: Path, stage: ExampleStage = OPEN, **options: Any) -> list[dict[str, Any]]:
    outcome, card = examples_stage(folder, stage, **options)
    assert outcome.faults == [] and card["unreadable"] == []
    return list(read_rows(folder))


@pytest.mark.rotates
@pytest.mark.parametrize("style", ["terse", "compact", "full"])
def test_every_kind_is_made_and_read_back(tmp_path: Path, style: str) -> None:
    tell(tmp_path, points={"slow": 0.4, "fast": 1.9, "both": 1.92})
    assert admit_all(tmp_path) >= 2
    rows = rows_of(tmp_path, ExampleStage(style=style, held_out=0.0, filtered=False))
    kinds = Counter(row["kind"] for row in rows)
    assert set(kinds) == set(KINDS) - {"select_none", "first_with_untried_skills", "summarise_believed"}
    sources = {
        name: {candidate_of(name, step).source for step in range(3)} for name in ("silu_norm", "silu_chain", "tanh_chain")
    }
    if style == "terse":
        sources = {
            name: {stripped(without_prose(source), task(name).source) for source in of_task}
            for name, of_task in sources.items()
        }
    for row in rows:
        system, user, answer = row["messages"]
        assert (system["role"], user["role"], answer["role"]) == ("system", "user", "assistant")
        if row["role"] == "write":
            source = writer.parse(answer["content"]).source
            assert source in sources[row["task_name"]]
            assert ("class ModelNew(Model):" in source) == ("self.scale = " not in source) == (style == "terse")
            assert "self.scale = " in linked(source, task(row["task_name"]).source)
        elif row["role"] == "select":
            assert [choice.name for choice in selector.parse(answer["content"], 3)] == row["skills"]
        assert row["speedup_low"] <= row["speedup"] <= row["speedup_high"]
    assert len({tuple(sorted(row)) for row in rows}) == 1


def test_a_shorter_kernel_that_is_nearly_as_fast_is_the_one_to_learn(tmp_path: Path) -> None:
    tell(tmp_path, ("silu_chain",), points={"slow": 1.0, "fast": 1.9, "both": 2.0})
    sources = [candidate_of("silu_chain", step).source for step in range(3)]

    def learned(concise: float) -> set[int]:
        stage = ExampleStage(held_out=0.0, filtered=False, concise=concise)
        return {
            sources.index(writer.parse(row["messages"][-1]["content"]).source)
            for row in rows_of(tmp_path, stage)
            if row["kind"] == "first"
        }

    assert learned(1.0) == {2}
    near = [step for step in (1, 2) if len(sources[step]) == min(len(sources[1]), len(sources[2]))]
    assert learned(0.9) == set(near[:1])
    assert learned(0.45) == {min(range(3), key=lambda step: len(sources[step]))}


def test_builds_that_nobody_judged_give_first_attempts_when_asked_and_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(tmp_path, ("silu_norm", "silu_chain"))
    build = Hand().build(task("tanh_chain"), "cpp")
    with JudgedStore(tmp_path) as store:
        store.add_task_records([task_record_of(task("tanh_chain"))])
        store.add_teacher_record(TeacherRecord(build.task_id, "cpp", Hand.name, build=build))
    assert not [row for row in rows_of(tmp_path) if row["task_id"] == build.task_id]

    def shown(one_in: int) -> list[dict[str, Any]]:
        monkeypatch.setattr(examples_writing, "ONE_IN", one_in)
        return [row for row in rows_of(tmp_path, replace(OPEN, unjudged=True)) if row["task_id"] == build.task_id]

    (row,) = shown(1000)
    assert (row["kind"], row["outcome"], row["speedup"]) == ("first", "unjudged", None)
    assert writer.parse(row["messages"][-1]["content"]).source == build.steps[-1].candidate.source
    assert "1 first attempts were taught and not judged" in (tmp_path / "card.md").read_text()
    first, carded = shown(1)
    assert first["messages"] == row["messages"] and first["skills"] == []
    assert (carded["kind"], carded["outcome"], carded["speedup"]) == ("first_with_untried_skills", "unjudged", None)
    assert CARD["tanh_chain"] in carded["skills"] and carded["messages"][-1] == row["messages"][-1]
    assert carded["messages"][1] != row["messages"][1]


def test_an_answer_that_is_not_read_back_is_told_also_where_nobody_judged(tmp_path: Path) -> None:
    build = Hand().build(task("tanh_chain"), "cpp")
    nothing = replace(build.steps[0], candidate=Candidate("nothing = 1\n", "cpp"))
    with JudgedStore(tmp_path) as store, opened_library(tmp_path, store):
        store.add_task_records([task_record_of(task("tanh_chain"))])
        store.add_teacher_record(TeacherRecord(build.task_id, "cpp", Hand.name, build=replace(build, steps=(nothing,))))
    outcome, card = examples_stage(tmp_path, replace(OPEN, unjudged=True))
    assert outcome.examples == [] and len(outcome.faults) == 1 and "not read" in outcome.faults[0] and card["unreadable"]


def test_an_improvement_is_over_the_nearest_kernel_that_was_judged(tmp_path: Path) -> None:
    tell(tmp_path, ("silu_chain",))
    middle = candidate_of("silu_chain", 1).id
    with JudgedStore(tmp_path) as store, store._change() as database:
        database.execute("DELETE FROM verdicts WHERE candidate = ?", (middle,))
    (row,) = [row for row in rows_of(tmp_path) if row["kind"] == "improve"]
    assert row["candidates"] == [candidate_of("silu_chain", 0).id, candidate_of("silu_chain", 2).id]


def test_no_card_is_named_where_none_helped(tmp_path: Path) -> None:
    tell(tmp_path, ("silu_chain",), points={"slow": 1.4, "fast": 1.41, "both": 1.42})
    rows = rows_of(tmp_path)
    (none,) = [row for row in rows if row["kind"] == "select_none"]
    assert none["messages"][-1]["content"] == "none" and none["messages"][1]["content"].count("\n") > 20
    assert not [row for row in rows if row["kind"] in ("improve", "select", "first_with_skills", "summarise")]


def test_wide_intervals_say_neither_that_a_card_helped_nor_that_none_did(tmp_path: Path) -> None:
    tell(tmp_path, ("silu_chain",), points={"slow": 1.4, "fast": 1.6, "both": 1.7}, spread=1.3)
    _, card = examples_stage(tmp_path, OPEN)
    assert card["left_out"]["whether a card helped is not sure"] == 1
    assert not [row for row in read_rows(tmp_path) if row["role"] == "select"]


def test_an_improvement_shows_what_a_writer_would_have_seen(tmp_path: Path) -> None:
    tell(tmp_path, ("silu_chain",))
    rows = [row for row in rows_of(tmp_path) if row["kind"] == "improve"]
    assert [row["techniques"] for row in rows] == [["vectorised"], ["threads"]]
    first = rows[0]["messages"][1]["content"]
    assert "Attempt 1" in first and "outcome: slower 0.40x" in first and "Best so far: attempt 1" in first
    assert rows[0]["gain"] == pytest.approx(1.9 / 0.4) and rows[0]["outcome_before"] == "slower"


def test_a_repair_shows_the_broken_kernel_and_its_diagnosis(tmp_path: Path) -> None:
    mutants = {mutant.candidate.id: mutant for mutant in tell(tmp_path, ("silu_norm",))}
    rows = [row for row in rows_of(tmp_path) if row["kind"] == "repair"]
    assert len(rows) == len(mutants)
    for row in rows:
        mutant = mutants[row["candidates"][-2]]
        user, answer = row["messages"][1]["content"], row["messages"][2]["content"]
        assert mutant.candidate.source.strip() in user and "expected 1.5, got 0" in user
        assert answer.startswith(mutant.cure) and row["techniques"] == [f"mistake:{mutant.mistake}"]


def test_a_mistake_that_is_right_after_all_is_none(tmp_path: Path) -> None:
    mutant = tell(tmp_path, ("silu_norm",))[0]
    with JudgedStore(tmp_path) as store:
        store.connection.execute(
            "UPDATE verdicts SET body = ? WHERE candidate = ?", (json.dumps(timed(2.0).to_json()), mutant.candidate.id)
        )
    assert mutant.candidate.id not in {one for row in rows_of(tmp_path) for one in row["candidates"]}


def test_the_summarisers_card_has_the_kernel_for_its_example(tmp_path: Path) -> None:
    tell(tmp_path)
    admit_all(tmp_path)
    rows = [row for row in rows_of(tmp_path) if row["kind"] == "summarise"]
    assert rows
    for row in rows:
        name = row["skills"][0]
        assert (
            row["messages"][2]["content"].startswith(f"name: {name}\n") and 'extern "C" void' in row["messages"][2]["content"]
        )
        assert f"\n{name}: " not in row["messages"][1]["content"]


def test_a_card_that_no_gate_has_proved_is_summarised_only_where_that_is_asked_for(tmp_path: Path) -> None:
    tell(tmp_path)
    assert not [row for row in rows_of(tmp_path) if row["role"] == "summarise"]
    rows = [row for row in rows_of(tmp_path, replace(OPEN, believed=True)) if row["role"] == "summarise"]
    assert rows and {row["kind"] for row in rows} == {"summarise_believed"}
    for row in rows:
        answer = row["messages"][2]["content"]
        assert answer.startswith(f"name: {row['skills'][0]}\n") and 'extern "C" void' in answer
        assert row["gain"] >= ExampleStage().margin


def test_the_same_material_gives_the_same_files(tmp_path: Path) -> None:
    tell(tmp_path)
    stage = ExampleStage(held_out=0.3, caps=DiversityCaps(task=2))
    first = {path.name: path.read_bytes() for path in _written(tmp_path, stage)}
    assert first == {path.name: path.read_bytes() for path in _written(tmp_path, stage)}
    card = read_card(tmp_path)
    assert changed_files(tmp_path, card) == [] and set(card["files"]) == set(first)
    assert sum(card["splits"].values()) == card["examples"] == sum(card["counts"]["role"].values())


@pytest.mark.rotates
def test_other_processes_make_the_same_examples_in_the_same_order(tmp_path: Path) -> None:
    tell(tmp_path)
    admit_all(tmp_path)
    stage = ExampleStage(held_out=0.3, unjudged=True, max_tokens=3000, caps=DiversityCaps(task=2))
    alone, together = (_outcome(tmp_path, stage, processes) for processes in (1, 2))
    assert alone == together and len(alone.lost) > 1
    assert list(alone.lost) == list(together.lost)


@pytest.mark.rotates
def test_a_process_that_dies_is_told(tmp_path: Path) -> None:
    tell(tmp_path, ("silu_chain",))
    with opened(tmp_path, OPEN) as job, ProcessMap(job, 1, 2) as workers:
        assert list(workers.pieces(_lengths, ["a", "bc"])) == [[1, 2]]
        with pytest.raises(BottegaError, match=r"process that makes examples died.*the material is safe"):
            list(workers.pieces(_death, [1]))


def test_tokens_counted_line_by_line_are_those_of_the_whole() -> None:
    count = Count("embedded")
    try:
        count.load()
    except (BackboneError, UsageError) as error:
        pytest.skip(str(error))
    texts = [
        "",
        "\n",
        "\n\n  x\n",
        "a = 1  \n\n\n    b(\n\t'c')\n",
        "it's 2026:\r\n\n é\n<|im_end|>\n\u00a0\n x",
        candidate_of("silu_norm", 2).source,
    ]
    assert count(texts) == [len(count._tokenizer.encode(text, add_special_tokens=False)) for text in texts]
    assert count(texts) == count(texts)


def test_long_examples_are_left_out_and_counted(tmp_path: Path) -> None:
    tell(tmp_path, ("silu_chain",))
    everything = rows_of(tmp_path)
    middle = sorted(row["tokens"] for row in everything)[len(everything) // 2]
    outcome, card = examples_stage(tmp_path, ExampleStage(held_out=0.0, filtered=False, max_tokens=middle))
    kept = list(read_rows(tmp_path))
    assert 0 < len(kept) < len(everything) and max(row["tokens"] for row in kept) <= middle
    assert card["left_out"][f"longer than {middle} tokens"] == len(everything) - len(kept) == outcome.made - len(kept)


@pytest.mark.rotates
def test_held_out_tasks_share_no_operators_with_training(tmp_path: Path) -> None:
    tell(tmp_path)
    divided = 0
    for salt in "abcdef":
        sides: dict[str, set[str]] = {"train": set(), "test": set()}
        for row in rows_of(tmp_path, ExampleStage(held_out=0.5, salt=salt)):
            sides[row["split"]].add(" ".join(row["ops"]))
        divided += bool(sides["train"] and sides["test"])
        assert not sides["train"] & sides["test"]
    assert divided


def test_a_torn_file_is_said_and_made_again(tmp_path: Path) -> None:
    tell(tmp_path, ("silu_chain",))
    rows_of(tmp_path)
    path = tmp_path / "train.jsonl"
    path.write_bytes(path.read_bytes()[:-100])
    assert changed_files(tmp_path, read_card(tmp_path)) == ["train.jsonl"]
    with pytest.raises(UsageError, match=r"line \d+ is damaged.*--stage examples"):
        list(read_rows(tmp_path))
    assert rows_of(tmp_path)


def test_nothing_judged_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no judged records"):
        examples_stage(tmp_path, OPEN)
    JudgedStore(tmp_path).close()
    with pytest.raises(Exception, match="no skill library"):
        examples_stage(tmp_path, OPEN)
    with JudgedStore(tmp_path) as store, opened_library(tmp_path, store):
        pass
    with pytest.raises(UsageError, match=r"nothing is judged there yet.*unjudged=true"):
        examples_stage(tmp_path, OPEN)
    assert examples_stage(tmp_path, replace(OPEN, unjudged=True))[1]["examples"] == 0  # nothing was taught either


@contextmanager
def opened(folder: Path, stage: ExampleStage) -> Iterator[ExampleJob]:
    with JudgedStore(folder, create=False, write=False) as store, Library(folder / LIBRARY, create=False) as library:
        device = DeviceFacts(**store.fact("device"))
        card_index = CardIndex(library, device, store.fact("shelf version"), stage.retrieved)
        yield ExampleJob(store, SETUP, ExampleContext(stage, Prompts("compact"), device, card_index), Count(""), Endings())


def _outcome(folder: Path, stage: ExampleStage, processes: int) -> ExampleSet:
    with opened(folder, stage) as job:
        return examples_of(job.store, job.judge_setup, job.context, job.count, processes)


def _lengths(_: ExampleJob, texts: Sequence[str]) -> list[int]:
    return [len(text) for text in texts]


def _death(_: ExampleJob, __: Sequence[int]) -> None:
    os._exit(9)


def _written(folder: Path, stage: ExampleStage) -> list[Path]:
    examples_stage(folder, stage)
    return [folder / name for name in ("train.jsonl", "test.jsonl") if (folder / name).exists()]
