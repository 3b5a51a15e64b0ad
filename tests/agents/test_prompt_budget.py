"""Budgets: kept for any sizes, the fullest prompt that fits, and in the order that each role promises."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bottega.agents import selector, summariser, writer
from bottega.agents.budget import Budget, fitting, shortened
from bottega.agents.history import Past
from bottega.agents.prompts import Prompts
from bottega.agents.selector import SelectorInput
from bottega.agents.summariser import SummariserInput
from bottega.agents.writer import WriterInput
from bottega.backbone.chat import Message
from bottega.core.device import DeviceFacts
from bottega.core.errors import BackboneError
from bottega.core.skill import Skill
from bottega.core.task import Task
from bottega.skills.starter import starter_cards
from bottega.tasks.load import load_task

ROUGH: list[Callable[[str], int]] = [
    lambda text: len(text.split()),
    lambda text: len(text) // 3 + 1,
    lambda text: len(text.encode()),
]


def junk(dice: random.Random, most: int) -> str:
    words = ["x", "kernel", "```", "$task", "\n\n", "é√", "    ", "outcome:", "--- user ---", "class ModelNew:"]
    return " ".join(dice.choice(words) for _ in range(dice.randint(0, most)))


def text(messages: list[Message]) -> str:
    return "\n".join(message.content for message in messages)


def given_at_random(dice: random.Random, task: Task, device: DeviceFacts, card: Callable[..., Skill]) -> list[Any]:
    """One input for each role."""
    told = [Past(junk(dice, 300), junk(dice, 80), junk(dice, 400), "slower", 0.5) for _ in range(dice.randint(0, 6))]
    best = dice.choice([None, *told, Past("class ModelNew: ...", "s", "d", "faster", 2.0)])
    skills = tuple(card(f"card_{i}", junk(dice, 200), junk(dice, 300)) for i in range(dice.randint(0, 4)))
    headers = tuple(skill.header for skill in skills)
    first = told[0] if told else Past("", "", "", "slower", None)
    return [
        WriterInput(task, "cpp", device, skills, tuple(told), best),
        SelectorInput(task, headers, 3, "cpu", "cpp"),
        SummariserInput(task, "cpp", device, first, first, 1.5, headers),
    ]


def test_budgets_are_kept_whatever_the_sizes(task: Task, device: DeviceFacts, card: Callable[..., Skill]) -> None:
    dice = random.Random(7)
    styles = [Prompts("compact"), Prompts("full")]
    fitted = refused = 0
    for _ in range(120):
        mine = replace(task, source=task.source + junk(dice, 100))
        prompts, count = dice.choice(styles), dice.choice(ROUGH)
        budget = Budget(dice.randint(100, 12_000), count)
        for role, given in zip((writer, selector, summariser), given_at_random(dice, mine, device, card)):
            try:
                messages = role.messages(given, prompts, budget)
            except BackboneError as error:
                refused += 1
                assert str(budget.tokens) in str(error) and str(count(mine.source)) in str(error)
                continue
            fitted += 1
            assert sum(count(message.content) for message in messages) <= budget.size(messages) <= budget.tokens
            assert mine.source.strip("\n") in messages[1].content
            assert messages == role.messages(given, prompts, budget)
            whole = role.messages(given, prompts)
            assert (messages == whole) == (budget.size(whole) <= budget.tokens)
    assert fitted > 100 and refused > 20


def test_turns_leave_oldest_first_then_examples_then_cards_then_words(
    task: Task, device: DeviceFacts, card: Callable[..., Skill], turn: Callable[..., Past]
) -> None:
    pasts = tuple(turn(number, diagnosis=f"Told {number}: " + "it is slow. " * 100) for number in range(1, 6))
    skills = tuple(card(f"card_{i}", f"technique {i} " * 20, f"example_{i}();" * 20) for i in range(3))
    given = WriterInput(task, "cpp", device, skills, pasts, pasts[1])
    marks = [
        *("# kernel 1\n", "# kernel 3\n", "# kernel 4\n"),
        *("example_2", "example_1", "example_0", "technique 2", "technique 1", "technique 0"),
        *("# kernel 2\n", "# kernel 5\n", "Told 5", "Attempt 5"),
    ]
    prompts = Prompts("compact")
    size = Budget(10**6, len).size(writer.messages(given, prompts))
    seen = []
    for tokens in range(size, 0, -25):
        try:
            shown = text(writer.messages(given, prompts, Budget(tokens, len)))
        except BackboneError:
            break
        gone = [mark for mark in marks if mark not in shown]
        assert gone == marks[: len(gone)], tokens
        assert ("Best so far: attempt 2" in shown) == ("# kernel 2\n" in shown)
        if not seen or seen[-1] != len(gone):
            seen.append(len(gone))
    assert seen[0] == 0 and seen[-1] == len(marks) and len(seen) >= 11


def test_the_best_of_another_trace_is_shown_and_leaves_late(task: Task, device: DeviceFacts, turn: Callable[..., Past]) -> None:
    best = turn(9, "faster", 1.5)
    given = WriterInput(task, "cpp", device, (), (turn(1), turn(2)), best)
    shown = text(writer.messages(given, Prompts("compact")))
    assert "## Best so far\noutcome: faster 1.50x" in shown and shown.count("# kernel 9") == 1
    alone = writer.messages(replace(given, past=(turn(2),)), Prompts("compact"))
    tight = text(writer.messages(given, Prompts("compact"), Budget(Budget(0, len).size(alone) + 5, len)))
    assert "# kernel 1\n" not in tight and "# kernel 9" in tight and "# kernel 2" in tight


def test_selectors_lose_the_worst_retrieved_cards_first(task: Task, card: Callable[..., Skill]) -> None:
    headers = tuple(card(f"card_{i}").header for i in range(10))
    given = SelectorInput(task, headers, 3, "cpu", "cpp")
    whole = Budget(0, len).size(selector.messages(given, Prompts("compact")))
    shown = text(selector.messages(given, Prompts("compact"), Budget(whole - 100, len)))
    assert "card_0" in shown and "card_9" not in shown


def test_a_task_that_does_not_fit_says_the_sizes(task: Task, device: DeviceFacts) -> None:
    with pytest.raises(BackboneError, match=r"shortest prompt to write has \d+ tokens, \d+ of them the task, and may have 300"):
        writer.messages(WriterInput(task, "cpp", device), Prompts("compact"), Budget(300, len))


def test_the_search_finds_the_first_plan_that_fits() -> None:
    def build(size: int) -> list[Message]:
        return [Message("user", "x" * size)]

    for tokens in range(8, 120):
        found = fitting(range(100, -1, -1), build, Budget(tokens, len), "write", "")
        assert len(found[0].content) == min(tokens - 8, 100)


def test_shortened_texts_keep_their_beginning() -> None:
    assert shortened("  a b  ", 100) == "a b" and shortened("a" * 50, None) == "a" * 50
    assert shortened("first line\nsecond line that is long", 20) == "first line …"
    for longest in range(5, 60):
        for given in ("word " * 40, "x" * 200, "line\n" * 30):
            assert len(shortened(given, longest)) <= longest


def test_compact_prompts_of_builtin_tasks_fit_six_thousand_tokens(
    device: DeviceFacts, count_tokens: Callable[[str], int], turn: Callable[..., Past]
) -> None:
    """A kernel of usual length in each of three turns, three cards with long examples: nothing has to leave for most tasks."""
    source = (Path(__file__).parents[2] / "examples" / "star_relu.py").read_text()
    cards = [skill for skill in starter_cards() if "cpp" in skill.languages]
    past = tuple(turn(n, source=source, diagnosis="0.900× the speed of eager (0.880 to 0.930). " * 4) for n in range(3))
    budget = Budget(6000, count_tokens)
    whole: list[Any] = []
    for number, name in enumerate(("rms_norm_rows", "causal_attention", "strided_conv2d", "weighted_bce_rows")):
        given = WriterInput(
            load_task(f"builtin:{name}"), "cpp", device, tuple(cards[3 * number : 3 * number + 3]), past, past[1]
        )
        messages = writer.messages(given, Prompts("compact"), budget)
        assert budget.size(messages) <= 6000
        whole.append(messages == writer.messages(given, Prompts("compact")))
        headers = tuple(skill.header for skill in cards[:20])
        select = selector.messages(SelectorInput(given.task, headers, 3, "cpu", "cpp"), Prompts("compact"))
        propose = summariser.messages(
            SummariserInput(given.task, "cpp", device, past[0], past[1], 1.5, headers[:5]), Prompts("compact")
        )
        assert budget.size(select) <= 3000 and budget.size(propose) <= 3000
    assert sum(whole) >= 3
