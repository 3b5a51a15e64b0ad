"""Summarisers: cards out of JSON and out of keyed lines, each through the library's validation."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from bottega.agents.answers.answer import AnswerError
from bottega.agents.cards import applies_to_line
from bottega.agents.earlier_turn import EarlierTurn
from bottega.agents.prompts import Prompts
from bottega.agents.summariser import Proposals, SummariserInput, messages, parse
from bottega.compiler.link import linked
from bottega.core.device import DeviceFacts
from bottega.core.skill import Skill, SkillState
from bottega.core.task import Task
from bottega.core.workload import ELEMENTWISE, LAST_AXIS, ROW, Operation, Workload
from bottega.data.answers import summarised
from bottega.skills.conditions import conditions_here, unmet

KEYED = """\
name: row_in_cache
intent: Read a row once and keep it in the cache for all that follows.
scope: family/norm
tags: norm, fusion, cache blocking
data_types: float32 in and out, sums in float32.
layout: The reduced axis is contiguous.
storage: A row fits the private cache.
pipeline: None.
hardware: none
anchor: Several loops over the same row.
technique: One loop over rows. Inside it:
- first sweep: sum of squares
- second sweep: scale and store, from the cache
effect: One read of memory instead of two.
failures:
- A row that does not fit the cache is read twice.
- Threads share a row.
example:
```cpp
for (int64_t r = 0; r < rows; ++r) {
  name: goto name;
}
```
"""
CARD: dict[str, Any] = {
    "name": "row_in_cache",
    "intent": "Read a row once and keep it in the cache for all that follows.",
    "scope": "family/norm",
    "tags": ["norm", "fusion", "cache-blocking"],
    "languages": ["cpp"],
    "devices": ["cpu"],
    "conditions": {
        "data_types": "float32 in and out, sums in float32.",
        "layout": "The reduced axis is contiguous.",
        "storage": "A row fits the private cache.",
        "pipeline": "none",
        "hardware": "none",
    },
    "anchor": "Several loops over the same row.",
    "technique": "One loop over rows. Inside it:\n- first sweep: sum of squares\n- second sweep: scale and store, from the cache",
    "example": "for (int64_t r = 0; r < rows; ++r) {\n  name: goto name;\n}",
    "effect": "One read of memory instead of two.",
    "failures": ["A row that does not fit the cache is read twice.", "Threads share a row."],
}


@pytest.fixture
def given(task: Task, device: DeviceFacts, turn: Callable[..., EarlierTurn], card: Callable[..., Skill]) -> SummariserInput:
    return SummariserInput(task, "cpp", device, turn(1), turn(2, "faster", 1.3), 1.444, (card("known_card").header,), 2)


def test_the_compact_prompt(given: SummariserInput) -> None:
    system, user = messages(given, Prompts("compact"))
    assert system.content.startswith("You write skill cards:") and "At most 2 cards, or none." in system.content
    assert user.content.endswith("""\
Language: C++
Device: cpu: Some CPU, x86_64 avx2, 8 threads, 16 GiB memory, 32 MiB shared cache, 512 KiB cache a core

Known skills, do not repeat:
known_card: known_card saves reads of memory.

## First attempt
outcome: slower 0.90x
Change 1.
Told 1.

## Best attempt
outcome: faster 1.30x
Change 2.
Told 2.
```python
# kernel 2
class ModelNew: ...
```

The best changed:
```diff
-# kernel 1
+# kernel 2
```

The best is 1.44 times as fast as the first.""")


def test_a_terse_prompt_shows_kernels_as_they_were_written(given: SummariserInput) -> None:
    """What is linked buries the one line in which they differ, and fills the context."""
    answer = "class ModelNew(Model):\n    def forward(self, x):\n        return softmax(x, dim=-1)\n"
    whole = linked(answer, given.task.source)
    assert len(whole) > 5 * len(answer)
    given = replace(given, language="triton", best=replace(given.best, source=whole))
    shown = messages(given, Prompts("terse"))[1].content
    assert "return softmax(x, dim=-1)" in shown and "tl.load" not in shown


def test_the_form_that_the_compact_prompt_shows_has_every_key(given: SummariserInput) -> None:
    shown = messages(given, Prompts("compact"))[0].content
    keys = [line.split(":")[0] for line in KEYED.split("\n") if line.split(":")[0].isidentifier()]
    asked = [line.split(":")[0] for line in shown.split("\n")[1:16]]
    assert [key for key in asked if key != "applies_to"] == keys and "applies_to" in asked


def test_a_terse_prompt_shows_what_changed_and_what_holds(given: SummariserInput) -> None:
    lines = [f"    x{number} = {number}" for number in range(9)]
    first, best = ("\n".join(["def run(x):", *lines, f"    launch(BLOCK={block})"]) for block in (512, 2048))
    operation = Operation("softmax", ROW, "float32", {"rows": 64, "columns": 300}, LAST_AXIS)
    given = replace(
        given,
        first=replace(given.first, source=first),
        best=replace(given.best, source=best),
        workload=Workload((operation, operation), given.device),
    )
    shown = messages(given, Prompts("terse"))[1].content
    assert "def run(x):\n-    launch(BLOCK=512)\n+    launch(BLOCK=2048)\n```" in shown and shown.count("x8 = 8") == 1
    (line,) = (each for each in shown.splitlines() if "columns=" in each)
    assert line == "devices=Some CPU; dtypes=float32; kinds=row; layouts=last axis; columns=128..1023"
    for asked in conditions_here(given.workload or Workload(())):
        assert not unmet(asked, given.workload or Workload(()))
    assert shown.count("class ModelNew") == 0
    other = messages(replace(given, best=replace(given.best, source="another text")), Prompts("terse"))[1].content
    assert "x8 = 8" in other and "The best changed" not in other, "a diff that is longer than the kernel says less"


@pytest.mark.parametrize(
    "text",
    [
        KEYED,
        KEYED.replace("\n", "\r\n"),
        "<think>name: other</think>\nHere is the card.\n\n" + KEYED,
        KEYED.rstrip().removesuffix("```"),
        "\n".join(f"**{line.split(':')[0]}:**{line.partition(':')[2]}" if line.split(":")[0].isidentifier() else line for line in KEYED.split("\n")),
        json.dumps(CARD),
        json.dumps([CARD], indent=2),
        f"```json\n{json.dumps({'skills': [CARD]})}\n```\nThat is all [really].",
        json.dumps([CARD]).replace("\\n", "\n"),
        json.dumps([CARD]) [:-1] + ', {"name": "second_card", "inte',
        json.dumps([{**CARD, "state": "admitted", "version": 9, "reason": "trust me", "schema": 99, "speed": 3, "provenance": {"origin": "hand"}}]),
        json.dumps([{**CARD, "example": f"```cpp\n{CARD['example']}\n```", "tags": "norm, fusion, Cache Blocking", "languages": "C++",
                     "failures": "- " + "\n- ".join(CARD["failures"]), "name": "Row in-Cache", "technique": CARD["technique"].split("\n")}]),
        json.dumps([{**{key: value for key, value in CARD.items() if key not in ("conditions", "languages", "devices")}, **CARD["conditions"]}]),
    ],
)  # fmt: skip
def test_one_card_in_every_wrapping(text: str, given: SummariserInput) -> None:
    proposals = parse(text, given)
    (skill,) = proposals.skills
    content = {key: value for key, value in skill.content().items() if key != "schema"}
    assert content == CARD
    assert skill.state is SkillState.PROPOSED and skill.version == 1 and skill.reason == ""
    assert (skill.provenance.origin, skill.provenance.task) == ("summary", given.task.id)
    assert skill.provenance.claimed_speedup == 1.444
    assert not proposals.refused


def test_harmless_fields_are_filled_and_others_are_not(given: SummariserInput) -> None:
    bare = {key: value for key, value in CARD.items() if key not in ("scope", "tags", "languages", "devices")}
    (skill,) = parse(json.dumps(bare), given).skills
    assert (skill.scope, skill.tags, skill.languages, skill.devices) == (
        "family/activation",
        ("activation", "elementwise"),
        ("cpp",),
        ("cpu",),
    )
    for key in ("intent", "conditions", "anchor", "technique", "example", "effect", "failures"):
        proposals = parse(json.dumps({name: value for name, value in CARD.items() if name != key}), given)
        assert not proposals.skills and key in proposals.refused[0], key


def test_two_cards_and_what_is_refused(given: SummariserInput) -> None:
    second = KEYED.replace("row_in_cache", "second_card")
    third = KEYED.replace("row_in_cache", "third_card")
    lazy = KEYED.replace("row_in_cache", "lazy_card").replace("One loop over rows.", "Use torch.compile and wrap it.")
    proposals = parse("\n".join([lazy, KEYED, KEYED, KEYED.replace("row_in_cache", "known_card"), second, third]), given)
    assert [skill.name for skill in proposals.skills] == ["row_in_cache", "second_card"]
    reasons = (
        "proposal 1 (lazy_card): ",
        "proposal 3 (row_in_cache): a skill of this name",
        "proposal 4 (known_card): a skill of",
        "proposal 6 (third_card): more than the 2",
    )
    assert len(proposals.refused) == 4
    assert all(line.startswith(reason) for line, reason in zip(proposals.refused, reasons)), proposals.refused


@pytest.mark.parametrize("text", ["none", "None.", "[]", "```json\n[]\n```", '{"skills": []}', "<think>hm</think> none"])
def test_none_is_an_answer(text: str, given: SummariserInput) -> None:
    assert parse(text, given) == Proposals()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "empty"),
        ("<think>the card", "unfinished"),
        ("It was faster because of the loop.", "wrong_form"),
        ('[{"name": "a_card", "intent": "cut', "no_json"),
        ('{"a": 1}', "no_json"),
        ("intent: no name before it", "wrong_form"),
    ],
)
def test_answers_without_a_card(text: str, kind: str, given: SummariserInput) -> None:
    with pytest.raises(AnswerError) as caught:
        parse(text, given)
    assert caught.value.kind == kind


@pytest.mark.parametrize("value", [None, 5, "", [], {}, [[]], [1], {"a": {}}, "x" * 5000, True])
def test_strange_values_are_refused_not_raised(value: Any, given: SummariserInput) -> None:
    for key in CARD:
        proposals = parse(json.dumps([{**CARD, key: value}]), given)
        assert len(proposals.skills) + len(proposals.refused) == 1
        assert all(len(line) <= 400 for line in proposals.refused)


@pytest.mark.timeout(60)  # what grows with the square of its length would take longer by far
@pytest.mark.parametrize(
    "junk",
    ["[" * 10**6, '[{"name":' * 110_000, "name: a\n" * 120_000, "name: a\ntechnique: b\n" * 45_000, "```\n" * 250_000, "x" * 10**6,
     "\n" * 10**6 + "x", "name:" * 200_000, " " * 10**6 + "name", json.dumps([{"name": "a"}] * 60_000),
     "name: a\nexample:\n" + "```\n~~~\n" * 100_000]
)  # fmt: skip
def test_a_megabyte_of_junk_is_read_and_does_not_hold_anybody_up(junk: str, given: SummariserInput) -> None:
    with contextlib.suppress(AnswerError):
        assert len(parse(junk, given).refused) <= 16


RELU = Operation("relu", ELEMENTWISE, "float32", {"elements": 256 * 512, "columns": 512})
TYPED = {"devices": ["avx2"], "dtypes": ["float32"], "operators": ["relu"], "sizes": {"columns": [256, 1023]}}
LINE = "applies_to: devices=avx2; dtypes=float32; operators=relu; columns=256..1023"


@pytest.mark.parametrize("text", [KEYED.replace("anchor:", f"{LINE}\nanchor:"), json.dumps([{**CARD, "applies_to": TYPED}])])
def test_a_card_may_have_typed_conditions_that_hold_where_it_was_won(text: str, given: SummariserInput) -> None:
    here = replace(given, workload=Workload((RELU,), given.device))
    (skill,) = parse(text, here).skills
    assert skill.applies_to.to_json() == TYPED
    assert f"applies_to: {applies_to_line(skill.applies_to)}" == LINE
    assert summarised(skill, here, "terse") and summarised(skill, here, "full")
    other = replace(RELU, sizes={"elements": 4096, "columns": 64})
    for elsewhere in (Workload((other,), given.device), Workload((), given.device), None):
        proposals = parse(text, replace(given, workload=elsewhere))
        assert not proposals.skills and "does not hold where the card was won" in proposals.refused[0]


@pytest.mark.parametrize("line", ["columns=many", "moods=good", "kinds=softmax", "columns=9..1"])
def test_typed_conditions_of_another_form_are_refused(line: str, given: SummariserInput) -> None:
    here = replace(given, workload=Workload((RELU,), given.device))
    proposals = parse(KEYED.replace("anchor:", f"applies_to: {line}\nanchor:"), here)
    assert not proposals.skills and "applies_to" in proposals.refused[0]


def test_none_is_no_typed_condition(given: SummariserInput) -> None:
    (skill,) = parse(KEYED.replace("anchor:", "applies_to: none\nanchor:"), given).skills
    assert not skill.applies_to and {key: value for key, value in skill.content().items() if key != "schema"} == CARD
