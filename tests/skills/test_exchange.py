"""Cards in and out: our own lines come back as they went, foreign ones come in as proposed, and a bad line costs itself alone."""

from __future__ import annotations

import json
import os
import resource
import signal
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from skill_cards import Child, admitted, card, data, trial

from bottega.core.errors import LibraryError, UsageError
from bottega.core.skill import CARD_SCHEMA, SkillState
from bottega.skills.exchange import Imported, export_file, export_lines, import_file
from bottega.skills.library import Library
from bottega.skills.upkeep import merge

Say = Callable[[Any], None]
DAVINCI = {
    "name": "fuseSoftmaxRows",
    "description": "Keep each row in registers and read it once.",
    "scope": "task_specific/softmax",
    "tags": ["Softmax", "row wise", "triton"],
    "content": "## Motivation\nA row is read three times by the plain version.\n## Example\n```python\nimport triton\n"
    "@triton.jit\ndef kernel(x): pass\n```\nDone once per row.",
    "verify_speedup": 1.75,
}


def lines_of(library: Library) -> list[str]:
    return list(export_lines(library, library.cards()))


def taken(library: Library, tmp_path: Path, *lines: Any, **how: Any) -> Imported:
    path = tmp_path / "cards.jsonl"
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return import_file(library, path, **how)


def test_our_own_lines_come_back_as_they_went(library: Library, tmp_path: Path) -> None:
    library.add_many([admitted("one", reason="a gain"), card("two", example="x = [\n  'é', \"読む\"\n]\n\tend"), card("three")])
    library.move("three", SkillState.RETIRED, "no gain")
    library.revise("two", card("two", effect="Another effect."))
    library.evidence.add("a", trial("one", at="2026-01-01", with_skill=(1.1, 1.25), without_skill=(1.0, 1.0)))
    library.evidence.add("b", trial("one", at="2026-01-02", decision="refused", sibling=True))
    export_file(library, library.cards(), tmp_path / "out.jsonl")
    with Library(tmp_path / "other") as other:
        report = import_file(other, tmp_path / "out.jsonl", trust=True)
        assert (report.cards.added, report.trials, report.refused) == (["one", "three", "two"], 2, [])
        assert lines_of(other) == lines_of(library)
        assert other.cards() == library.cards() and other.evidence.trials("one") == library.evidence.trials("one")


def test_states_are_not_believed_unless_that_is_asked_for(library: Library, tmp_path: Path) -> None:
    taken(library, tmp_path, admitted("one").to_json(), card("two", state=SkillState.RETIRED).to_json())
    assert {skill.name: (skill.state, skill.reason) for skill in library.cards()} == {
        "one": (SkillState.PROPOSED, "imported; admitted where it came from"),
        "two": (SkillState.PROPOSED, "imported; retired where it came from"),
    }


def test_importing_again_adds_nothing_twice(library: Library, tmp_path: Path) -> None:
    line = {**card("one").to_json(), "evidence": [trial("one").to_json()]}
    assert taken(library, tmp_path, line, DAVINCI).trials == 1
    again = taken(library, tmp_path, line, DAVINCI)
    assert (again.cards.added, again.cards.already_there, again.trials) == ([], ["one", "fuse_softmax_rows"], 0)
    assert len(library) == 2 and len(library.evidence.trials("one")) == 1


def test_evidence_goes_with_the_card_on_whose_line_it_stands(library: Library, tmp_path: Path) -> None:
    """Also when cards of one name are told apart, or when it was made with a card that has become part of this one."""
    library.add(card("one", effect="An earlier one."))
    first = {**card("one").to_json(), "evidence": [trial("one", reason="of the first").to_json()]}
    second = {
        **card("one", effect="A later one.").to_json(),
        "evidence": [trial("merged_away", reason="of the second").to_json()],
    }
    report = taken(library, tmp_path, first, second)
    assert report.cards.names == ["one_2", "one_3"] and report.trials == 2
    assert [t.reason for t in library.evidence.trials("one_2")] == ["of the first"]
    assert [t.reason for t in library.evidence.trials("one_3")] == ["of the second"]
    assert library.evidence.trials("one") == []
    taken(library, tmp_path, second)
    assert len(library.evidence.trials("one_3")) == 1
    skipped = {**card("one", effect="A fourth one.").to_json(), "evidence": [trial("one", reason="of none").to_json()]}
    assert taken(library, tmp_path, skipped, on_conflict="skip").trials == 0


def test_a_card_that_others_were_merged_into_takes_their_evidence_along(library: Library, tmp_path: Path) -> None:
    library.add_many([card("keep"), card("drop")])
    library.evidence.add("a", trial("keep", reason="its own"))
    library.evidence.add("b", trial("drop", reason="of the other"))
    merge(library, "keep", ["drop"])
    export_file(library, [library.get("keep")], tmp_path / "out.jsonl")
    with Library(tmp_path / "other") as other:
        import_file(other, tmp_path / "out.jsonl")
        assert [t.reason for t in other.evidence.trials("keep")] == ["its own", "of the other"]


def test_davincis_cards_come_in_as_proposed_with_their_claim(library: Library, tmp_path: Path) -> None:
    report = taken(library, tmp_path, DAVINCI)
    assert report.cards.added == ["fuse_softmax_rows"] and report.refused == []
    found = library.get("fuse_softmax_rows")
    assert (found.state, found.scope, found.tags) == (SkillState.PROPOSED, "family/softmax", ("softmax", "row_wise", "triton"))
    assert (found.languages, found.devices) == (("triton",), ("cuda",))
    assert found.intent == DAVINCI["description"]
    assert found.example == "import triton\n@triton.jit\ndef kernel(x): pass"
    assert "```" not in found.technique and "Done once per row." in found.technique
    assert found.provenance.origin == "davinci" and found.provenance.claimed_speedup == 1.75
    assert "line 1" in found.provenance.source and "1.75x" in found.effect
    assert all("not stated" in text for _, text in found.conditions.items())


@pytest.mark.parametrize(
    "changes",
    [
        {"tags": None},
        {"tags": 5},
        {"tags": {"a": 1}},
        {"tags": "softmax, rows"},
        {"tags": [None, 5, ["x"], "", "!!!"]},
        {"verify_speedup": 10**400},
        {"verify_speedup": float("nan")},
        {"verify_speedup": -1},
        {"verify_speedup": True},
        {"verify_speedup": "fast"},
        {"scope": None},
        {"scope": {"a": 1}},
        {"scope": "task_specific/2D Conv!"},
        {"scope": "task_specific/" + "x" * 500},
        {"name": "3x3 Conv"},
        {"name": "Ünïcode näme"},
        {"name": "x" * 300},
        {"description": "word " * 500},
        {"content": "words without any code in them, but enough of them. " * 200},
        {"content": "```\n" + "x = 1\n" * 2000 + "```\nSome words that stand below the code block."},
        {"surplus": [1, 2, 3]},
    ],
    ids=lambda changes: str(changes)[:40],
)
def test_odd_fields_of_davincis_are_made_to_fit(library: Library, tmp_path: Path, changes: dict[str, Any]) -> None:
    report = taken(library, tmp_path, {**DAVINCI, **changes})
    assert report.refused == [] and len(library) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"name": ""},
        {"name": None},
        {"name": "最適化"},
        {"description": ""},
        {"description": "Use torch.compile for all rows."},
        {"content": ""},
        {"content": "For every row that there is, just use torch.softmax and nothing else at all."},
        {"content": "Here is a \x1b[31mred\x1b[0m word, and some others beside it to make it long enough."},
    ],
    ids=str,
)
def test_what_of_davincis_does_not_pass_the_door_is_refused_with_the_reason(
    library: Library, tmp_path: Path, changes: dict[str, Any]
) -> None:
    report = taken(library, tmp_path, {**DAVINCI, **changes}, DAVINCI)
    (message,) = report.refused
    assert message.startswith("line 1: ") and report.cards.added == ["fuse_softmax_rows"]


BAD_LINES = {
    "half a line": '{"name": "one", "inte',
    "no JSON": "name: one",
    "a list": "[1, 2]",
    "a number": "5",
    "null": "null",
    "deep": "[" * 200_000,
    "a deep object": '{"a":' * 100_000,
    "a long number": '{"name": ' + "9" * 100_000 + "}",
    "no utf-8": "\udcff\udcfe{}",
    "a surrogate": json.dumps(data(intent="Read \ud800 each row once.")),
    "NUL": '{"name": "\x00"}',
    "a newer schema": json.dumps(data(schema=CARD_SCHEMA + 1)),
    "nothing of a card": "{}",
    "endless evidence": json.dumps({**data(), "evidence": 5}),
    "no evidence": json.dumps({**data(), "evidence": None}),
    "evidence of nothing": json.dumps({**data(), "evidence": [{}]}),
    "evidence with words for numbers": json.dumps({**data(), "evidence": [{**trial().to_json(), "with_skill": ["much"]}]}),
    "evidence with no numbers": json.dumps({**data(), "evidence": [{**trial().to_json(), "with_skill": [float("nan")]}]}),
    "evidence without an end": json.dumps({**data(), "evidence": [trial().to_json() | {"gain": {"point": float("inf")}}]}),
}


@pytest.mark.parametrize("why", BAD_LINES)
def test_a_bad_line_costs_itself_alone(library: Library, tmp_path: Path, why: str) -> None:
    path = tmp_path / "cards.jsonl"
    text = f"{json.dumps(card('before').to_json())}\n\n{BAD_LINES[why]}\n{json.dumps(card('after').to_json())}\n"
    path.write_bytes(text.encode(errors="surrogateescape"))
    report = import_file(library, path)
    assert report.cards.added == ["before", "after"]
    (message,) = report.refused
    assert message.startswith("line 3: ") and len(message) < 2000


def test_a_last_line_that_was_not_finished_is_said_to_be_one(library: Library, tmp_path: Path) -> None:
    whole = json.dumps(card("one").to_json()) + "\n" + json.dumps(card("two").to_json())
    (tmp_path / "cut.jsonl").write_text(whole[:-40])
    report = import_file(library, tmp_path / "cut.jsonl")
    assert report.cards.added == ["one"] and "its writer was stopped" in report.refused[0]
    (tmp_path / "cut.jsonl").write_text(whole)
    mended = import_file(library, tmp_path / "cut.jsonl")
    assert (mended.cards.added, mended.cards.already_there, mended.refused) == (["two"], ["one"], [])


def test_a_mark_at_the_start_of_a_file_is_no_fault(library: Library, tmp_path: Path) -> None:
    (tmp_path / "cards.jsonl").write_bytes(b"\xef\xbb\xbf" + json.dumps(data()).encode() + b"\r\n")
    assert import_file(library, tmp_path / "cards.jsonl").refused == []


def test_texts_of_foreign_evidence_are_made_readable(library: Library, tmp_path: Path) -> None:
    foreign = trial(task_name="soft\x1b[2Jmax\n", reason="x" * 10_000_000)
    taken(library, tmp_path, {**data(), "evidence": [foreign.to_json()]})
    (kept,) = library.evidence.trials("tile_rows")
    assert (kept.task_name, len(kept.reason)) == ("soft [2Jmax", 400)


def test_a_file_that_is_not_there_is_told(library: Library, tmp_path: Path) -> None:
    for path in (tmp_path / "nothing.jsonl", tmp_path):
        with pytest.raises(UsageError, match="cannot be read"):
            import_file(library, path)


def test_a_taken_name_that_is_an_error_leaves_nothing(library: Library, tmp_path: Path) -> None:
    library.add(card("one", effect="An earlier one."))
    with pytest.raises(LibraryError, match="nothing was changed"):
        taken(library, tmp_path, card("two").to_json(), card("one").to_json(), on_conflict="error")
    assert len(library) == 1


def test_an_export_that_fails_leaves_the_file_that_was_there(library: Library, tmp_path: Path) -> None:
    library.add_many(card(f"card_{number}") for number in range(30))
    place = tmp_path / "out" / "cards.jsonl"
    place.parent.mkdir()
    place.write_text("what was there\n")

    def export(say: Say) -> None:
        cards = library.cards()
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
        export_file(library, cards, place)

    (said,) = Child(export).said()
    assert said["raised"] == "LibraryError" and "nothing was changed" in said["text"]
    assert place.read_text() == "what was there\n" and list(place.parent.iterdir()) == [place]
    with pytest.raises(LibraryError, match="cannot be written"):
        export_file(library, library.cards(), tmp_path / "no" / "such" / "folder.jsonl")


def test_an_export_replaces_no_folder_and_no_device(library: Library, tmp_path: Path) -> None:
    library.add(card())
    for place in (tmp_path, Path("/"), Path(".")):
        with pytest.raises(UsageError, match="is a folder"):
            export_file(library, library.cards(), place)
    device = tmp_path / "device"
    os.mkfifo(device)
    child = Child(lambda say: say(device.read_text()))
    export_file(library, library.cards(), device)
    assert json.loads(child.said()[0])["name"] == "tile_rows"
    assert stat.S_ISFIFO(device.stat().st_mode)
    link = tmp_path / "link.jsonl"
    link.symlink_to(tmp_path / "target.jsonl")
    export_file(library, library.cards(), link)
    assert link.is_symlink() and (tmp_path / "target.jsonl").read_text().count("\n") == 1


def test_our_trials_keep_their_place_and_numbers(library: Library, tmp_path: Path) -> None:
    given = [trial(reason=f"number {n}", at=f"at {n}") for n in range(5)]
    taken(library, tmp_path, {**data(), "evidence": [one.to_json() for one in given]})
    assert library.evidence.trials("tile_rows") == [replace(one, skill="tile_rows") for one in given]
