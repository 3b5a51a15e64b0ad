"""A small Llama with random weights and a tokenizer that knows a few words and how to write a conversation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers", reason="a model in this process needs transformers")

from bottega.train.rows import TrainRow, imitation_row  # noqa: E402

WORDS = ["<pad>", "<end>", "<user>", "<assistant>", "<unk>", *(f"w{number}" for number in range(45))]
TEMPLATE = (
    "{% for m in messages %}{{ '<user> ' if m.role != 'assistant' else '<assistant> ' }}{{ m.content }} <end> {% endfor %}"
    "{% if add_generation_prompt %}<assistant> {% endif %}"
)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """A second thread only waits at matrices this small, and on a busy machine it waits long. To be imported where it is to act."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def tiny_llama(seed: int = 0, **changes: Any) -> Any:
    torch.manual_seed(seed)
    shape = {
        "vocab_size": len(WORDS), "hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 128, "initializer_range": 0.1, "tie_word_embeddings": True,
        "eos_token_id": 1, "bos_token_id": 2, **changes,
    }  # fmt: skip
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**shape))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.uniform_(0.5, 1.5)
    return model.eval()


def tiny_tokenizer() -> Any:
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

    inner = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inner.add_special_tokens([AddedToken(word, special=True, normalized=False) for word in WORDS[:4]])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token="<end>", pad_token="<pad>", unk_token="<unk>", chat_template=TEMPLATE
    )


def saved_tiny(folder: Path, **changes: Any) -> Path:
    """A folder that `loading.load` opens."""
    tiny_llama(**changes).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def counting_talks(folder: Path) -> Path:
    """Rows for SFT: of six words that follow each other three are asked and three answered."""
    rows = [[f"w{number}" for number in range(at, at + 6)] for at in range(38)]
    talks = [
        [{"role": "user", "content": " ".join(row[:3])}, {"role": "assistant", "content": " ".join(row[3:])}] for row in rows
    ]
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps({"messages": talk}) + "\n" for talk in talks))
    return path


def random_rows(count: int, seed: int = 0, longest: int = 20) -> list[TrainRow]:
    source = np.random.default_rng(seed)

    def some(most: int) -> list[int]:
        return [int(number) for number in source.integers(0, len(WORDS), int(source.integers(1, most)))]

    return [imitation_row(some(longest // 2), some(longest // 2), key=str(number)) for number in range(count)]


def gradients(model: Any) -> dict[str, Any]:
    return {name: value.grad.clone() for name, value in model.named_parameters() if value.grad is not None}


def weights(folder: Path) -> dict[str, Any]:
    """Of the model that a run has left."""
    from safetensors.torch import load_file

    return load_file(folder / "model" / "model.safetensors")
