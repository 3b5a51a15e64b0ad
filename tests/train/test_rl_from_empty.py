"""A run that begins with an empty library fills it: what a model that knows the forms finds fast, it summarises, and the gate admits."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from test_rl import measured  # noqa: E402
from tiny import one_thread  # noqa: E402, F401
from toy_world import CHOICES, LETTERS, answer, kernel, library_cards, say, tasks, toy_config, toy_inputs  # noqa: E402

from bottega.agents import summariser, writer  # noqa: E402
from bottega.agents.earlier_turn import EarlierTurn  # noqa: E402
from bottega.core.skill import SkillState  # noqa: E402
from bottega.skills.library import Library  # noqa: E402
from bottega.train import rl  # noqa: E402
from bottega.train.rollout import RlInputs  # noqa: E402
from bottega.train.run_directory import LIBRARY  # noqa: E402
from bottega.train.settings import Config  # noqa: E402


def taught(given: RlInputs) -> None:
    """To follow a card, and to name in a card what the best kernel does. Without a card every letter is as likely as another."""
    tokenizer, model, (task, *_) = given.loaded.tokenizer.inner, given.loaded.model, tasks()
    letters, cards = tuple(LETTERS.values()), {card.technique: card for card in library_cards()}

    def tokens(written: Sequence[str] = letters, told: Sequence[str] = letters) -> list[int]:
        return [tokenizer.convert_tokens_to_ids(answer(*each)) for each in itertools.product(CHOICES, written, told)]

    rows = [(writer.messages(writer.WriterInput(task, "cpp", given.device), given.prompts), tokens())]
    for letter in letters:
        shown = writer.WriterInput(task, "cpp", given.device, (cards[say(letter)],))
        turn = EarlierTurn(kernel(letter), "", "", "faster", 3.0)
        best = summariser.SummariserInput(task, "cpp", given.device, turn, turn, 6.0)
        rows.append((writer.messages(shown, given.prompts), tokens(written=letter)))
        rows.append((summariser.messages(best, given.prompts), tokens(told=letter)))
    asked = [
        tokenizer.apply_chat_template([{"role": one.role, "content": one.content} for one in prompt], tokenize=False)
        for prompt, _ in rows
    ]
    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(80):
        losses = [
            _loss(model, tokenizer.encode(text, add_special_tokens=False), right) for text, (_, right) in zip(asked, rows)
        ]
        optimiser.zero_grad()
        torch.stack(losses).sum().backward()
        optimiser.step()


def _loss(model: Any, prompt: list[int], right: list[int]) -> Any:
    scores = model(torch.tensor([prompt])).logits[0, -1].log_softmax(-1)
    return -scores[right].mean()


def taught_inputs(folder: Path) -> Callable[[Config], Any]:
    @contextmanager
    def opened(config: Config) -> Iterator[RlInputs]:
        with toy_inputs(folder)(config) as given:
            taught(given)
            yield given

    return opened


@pytest.mark.rotates
def test_a_run_that_begins_empty_fills_its_library(tmp_path: Path) -> None:
    config = toy_config(tmp_path, "skills.library=empty", "skills.siblings=1", "data.steps=3", "rollout.updates=1")
    rl.train(config, tmp_path / "run", inputs=taught_inputs(tmp_path))
    told = measured(tmp_path / "run")
    assert told["train/1"]["skills/proposed"] and told["train/1"]["skills/passed"]
    with Library(tmp_path / "run" / LIBRARY, create=False) as library:
        admitted = library.cards(SkillState.ADMITTED)
        assert len(admitted) > 1 and {card.technique for card in admitted} <= {say(letter) for letter in LETTERS.values()}
        for card in admitted:
            trials = library.evidence.trials(card.name)
            assert {trial.sibling for trial in trials} == {True, False} and all(
                trial.decision == "admitted" for trial in trials
            )
