"""A world so small that a model of some seventy thousand parameters learns all three roles in it, from nothing, in half a minute.

Everything is the real thing but for the judge and the wording: prompts come from a folder of templates, answers go through the agents'
own parsers, cards through the library's validation, proposals through the gate. A task is a colour, and for each colour one letter makes the
fast kernel. The writer sees neither the task nor its past (the chat template leaves the system message out, as some models' do): what it needs stands
on a card, so the selector must know which card belongs to which colour, and a card helps only if the summariser names the right letter.

The library offers two cards for a colour: its own, and one that is found for every colour and says nothing (its text does not reach the
model: seen, it would soon be a signal that two roles agree on). Every answer is one token. Some tokens spell a card's name, a kernel and a
card, one of each in every combination, and each role's parser takes what is its own: so a model that knows nothing is right by chance, and
what one role learns to say means nothing in another. The judge reads letters and is a fake.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers", reason="a model in this process needs transformers")

from bottega.agents.prompts import Prompts  # noqa: E402
from bottega.backbone.loading import LoadedModel  # noqa: E402
from bottega.backbone.tokenizer import HuggingFaceTokenizer  # noqa: E402
from bottega.core.candidate import Candidate  # noqa: E402
from bottega.core.device import DeviceFacts  # noqa: E402
from bottega.core.skill import Skill, SkillState  # noqa: E402
from bottega.core.task import Task  # noqa: E402
from bottega.core.verdict import Outcome, Speedup, Verdict  # noqa: E402
from bottega.skills.library import Library  # noqa: E402
from bottega.skills.validation import admit_data  # noqa: E402
from bottega.train.config import read_config  # noqa: E402
from bottega.train.rollout import RlInputs  # noqa: E402
from bottega.train.settings import Config  # noqa: E402

LETTERS = {"red": "a", "green": "b", "blue": "c"}
CARDS = {"red": "first_card", "green": "second_card", "blue": "third_card"}
USELESS = "plain_card"
TEMPLATE = "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }} {% endif %}{% endfor %}"
PROMPTS = {
    "select.md": "$task\n--- user ---\n$task\n\n$skills\n\npick\n--- skill ---\n$name\n",
    "write.md": "$task $past\n--- user ---\n$skills\n\nwrite\n--- skill ---\n$technique\n--- turn ---\n$source\n",
    "agent.md": "$tools\n--- user ---\n$files $skills\n--- plain ---\n$tools\n",
    "summarise.md": "$task\n--- user ---\n$best\n\nsum\n--- known ---\n$name\n--- turn ---\n$source\n",
}
SETTINGS = [
    "data.longest=64", "data.pack_tokens=2048", "rollout.tasks=6", "rollout.schemes=3", "rollout.samples=2",
    "rollout.turns=2", "rollout.summaries=6", "rollout.skills=1", "rollout.retrieved=2",
    "rollout.max_tokens=1", "rollout.language=cpp", "rollout.slots=64", "rollout.cache_tokens=4096",
    "rollout.updates=4", "reward.name=kevin", "reward.gamma=0.0", "advantage.weights.select=1.0",
    "advantage.weights.summarise=4.0", "rejection.mismatch.low=0.99", "rejection.mismatch.high=1.01", "loss.constant=1.0", "loss.kl=0.15",
    "optimiser.lr=1e-2", "optimiser.schedule=constant", "optimiser.weight_decay=0.0", "model.device=cpu", "log.tensorboard=false",
    "skills.rounds=6", "skills.least_rounds=3", "skills.alpha=0.3", "skills.proofs=10", "checkpoint.every=1000",
]  # fmt: skip


def say(letter: str) -> str:
    """What a card tells the writer: one word, long enough for the library's validation."""
    return f"write_the_letter_{letter}_as_the_whole_of_the_kernel"


NOTHING = "write_something_or_other_as_the_whole_of_the_kernel"


def kernel(letter: str) -> str:
    return f"ModelNew='{letter}'"


def answer(card: str, written: str, letter: str) -> str:
    """A selection, a kernel and a new card, in one."""
    return (
        f"{card}\n```python\n{kernel(written)}\n```\n"
        f"name: proposal_{letter}\nintent: the letter {letter} is fast where others are slow\nscope: general\ntags: toy\n"
        "data_types: none\nlayout: none\nstorage: none\npipeline: none\nhardware: none\n"
        f"anchor: kernels of one letter\ntechnique: {say(letter)}\neffect: three times as fast\n"
        f"failures: another letter is slow\nexample:\n```\n{kernel(letter)}\n```\n"
    )


CHOICES = [f"{name}: {reason}" for name in CARDS.values() for reason in ("yes", "good", "fits")] + [f"{USELESS}: yes"]
WORDS = [
    "<pad>", "<end>", "<user>", "<unk>", "pick", "write", "sum", "```python", "```", *LETTERS, *CARDS.values(), USELESS, "faster", "slower",
    *(say(letter) for letter in LETTERS.values()), *(kernel(letter) for letter in LETTERS.values()),
    *(answer(*each) for each in itertools.product(CHOICES, LETTERS.values(), LETTERS.values())),
]  # fmt: skip


def tasks() -> tuple[Task, ...]:
    """Two of each colour, so that every card has a sibling to be proved on."""
    return tuple(
        Task("\n".join([colour] * count) + "\n", f"toy_{count}", tags=(colour,)) for count in (1, 2) for colour in LETTERS
    )


def library_cards() -> list[Skill]:
    """One admitted card for each colour, and a useless one. What the selector sees does not say which is which."""

    def card(name: str, tags: list[str], technique: str) -> Skill:
        return admit_data(
            {
                "name": name, "intent": f"the {name.replace('_', ' ')} of the library", "scope": "general", "languages": ["cpp"],
                "tags": tags, "devices": ["cpu"], "anchor": f"a place in the library, {name}", "technique": technique,
                "conditions": dict.fromkeys(("data_types", "layout", "storage", "pipeline", "hardware"), "none"),
                "example": f"# the {name}", "effect": "what it says", "failures": ["taken for another colour"], "state": SkillState.ADMITTED,
            }
        )  # fmt: skip

    own = [card(CARDS[colour], [colour], say(letter)) for colour, letter in LETTERS.items()]
    return [*own, card(USELESS, list(LETTERS), NOTHING)]


class ToyJudge:
    """A fake: three times as fast for the colour's own letter, right and slow for another. Counts what it was asked."""

    def __init__(self, heard: Callable[[Task, Candidate], None] = lambda task, candidate: None) -> None:
        self.heard = heard
        self.calls = 0

    def judge(self, task: Task, candidate: Candidate, **options: Any) -> Verdict:
        self.calls += 1
        self.heard(task, candidate)
        found = re.fullmatch(r"ModelNew='(.)'", candidate.source.strip())
        facts: dict[str, Any] = {"task_id": task.id, "candidate_id": candidate.id}
        if found is None:
            return Verdict(Outcome.INCORRECT, diagnosis="no letter", **facts)
        point = 3.0 if found[1] == LETTERS[task.source.split()[0]] else 0.5
        outcome = Outcome.FASTER if point > 1 else Outcome.SLOWER
        return Verdict(outcome, True, {"eager": Speedup(point, point, point)}, coverage={"share": 1.0}, **facts)

    async def judge_async(self, task: Task, candidate: Candidate, **options: Any) -> Verdict:
        return self.judge(task, candidate, **options)


def toy_loaded(seed: int = 0, context: int = 64, **changes: Any) -> LoadedModel:
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    torch.manual_seed(seed)
    shape = {
        "vocab_size": len(WORDS), "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 4, "max_position_embeddings": context, "initializer_range": 0.3, "tie_word_embeddings": False,
        "eos_token_id": 1, "bos_token_id": 2, **changes,
    }  # fmt: skip
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**shape)).eval()
    with torch.no_grad():
        model.lm_head.weight.mul_(0.1)  # nothing is likelier than anything else
    inner = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
    unseen = (NOTHING, Regex(r"\d\.\d+x \(.*?\)"))
    inner.normalizer = normalizers.Sequence([normalizers.Replace(text, "") for text in unseen])
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inner.decoder = decoders.Fuse()
    inner.add_special_tokens([AddedToken(word, special=True, normalized=False) for word in WORDS[:3]])
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token="<end>", pad_token="<pad>", unk_token="<unk>", chat_template=TEMPLATE
    )
    return LoadedModel("toy", model, HuggingFaceTokenizer(tokenizer, context))


def adapted(loaded: LoadedModel, rank: int) -> LoadedModel:
    peft = pytest.importorskip("peft")
    torch.manual_seed(1)
    settings = peft.LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM")
    return replace(loaded, model=peft.get_peft_model(loaded.model, settings).eval())


def toy_config(folder: Path, *overrides: str) -> Config:
    """Settings of a run in this world; its library lies in the folder."""
    place = folder / "library"
    if not place.exists():
        with Library(place) as library:
            library.add_many(library_cards())
    return read_config("rl", None, None, [*SETTINGS, f"skills.library={place}", *overrides])


def toy_inputs(folder: Path, judge: ToyJudge | None = None) -> Callable[[Config], Any]:
    wording = folder / "wording"
    wording.mkdir(exist_ok=True)
    for name, text in PROMPTS.items():
        (wording / name).write_text(text)

    @contextmanager
    def opened(config: Config) -> Iterator[RlInputs]:
        plain = toy_loaded(config.data.seed, max(64, config.data.longest))
        yield RlInputs(
            loaded=adapted(plain, config.model.lora.rank) if config.model.lora else plain,
            tasks=tasks(),
            judge=judge or ToyJudge(),
            prompts=Prompts("compact", wording),
            device=DeviceFacts("cpu", "a toy", "none", 1, 1.0),
            judge_device="cpu",
            language="cpp",
            fingerprint={"cores": os.cpu_count()},
        )

    return opened
