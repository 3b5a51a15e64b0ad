"""A small model that reads letters, in place of the one that is loaded."""

from __future__ import annotations

from typing import Any

import torch
from choice_learning import Chooser


def letters(text: str) -> dict[str, list[int]]:
    return {"input_ids": [ord(letter) % 128 for letter in text]}


def small_chooser(*_: Any) -> Chooser:
    import transformers

    torch.manual_seed(0)
    torch.set_num_threads(1)
    shape = {"vocab_size": 128, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    return Chooser(transformers.LlamaModel(transformers.LlamaConfig(**shape, num_key_value_heads=2)), letters, "cpu")
