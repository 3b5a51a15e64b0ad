"""Small models with random weights, of every make that the decoder knows and one that it does not."""

from __future__ import annotations

import random
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers", reason="a model in this process needs transformers")

from bottega.backbone.chat import Sampling, TokenRequest  # noqa: E402
from bottega.backbone.loading import LoadedModel  # noqa: E402
from bottega.backbone.tokenizer import HuggingFaceTokenizer  # noqa: E402

VOCABULARY = 61
END = 7
CONTEXT = 256


def small_model(kind: str = "llama", seed: int = 0, **changes: Any) -> Any:
    """Norms and biases are random, too: at their defaults a decoder could forget them unnoticed."""
    torch.manual_seed(seed)
    shape = {
        "vocab_size": VOCABULARY,
        "hidden_size": 96,
        "intermediate_size": 160,
        "num_hidden_layers": 2,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "max_position_embeddings": CONTEXT,
        "initializer_range": 0.2,
        **changes,
    }
    if kind == "gpt2":
        config = transformers.GPT2Config(
            vocab_size=VOCABULARY, n_embd=48, n_layer=2, n_head=4, n_positions=CONTEXT, bos_token_id=0, eos_token_id=END
        )
        return transformers.GPT2LMHeadModel(config).eval()
    name = {"llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3", "mistral": "Mistral"}[kind]
    if kind == "mistral":
        shape.setdefault("sliding_window", None)
    if kind == "qwen3":
        shape["head_dim"] = 32
    model = getattr(transformers, f"{name}ForCausalLM")(getattr(transformers, f"{name}Config")(**shape)).eval()
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if "norm" in parameter_name:
                parameter.uniform_(0.5, 1.5)
            elif parameter_name.endswith("bias"):
                parameter.normal_()
    return model


def with_lora(model: Any, seed: int = 0) -> Any:
    peft = pytest.importorskip("peft", reason="LoRA needs peft")
    adapted = peft.get_peft_model(model, peft.LoraConfig(r=4, lora_dropout=0.5, target_modules="all-linear"))
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.1)
    return adapted.eval()


def word_tokenizer(context: int = CONTEXT) -> HuggingFaceTokenizer:
    """Each id is one word and a space, but for a few that are letters, so that stop strings can begin and end anywhere."""
    from tokenizers import Tokenizer, decoders, models

    words = {f"w{i} ": i for i in range(VOCABULARY)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="w0 "))
    tokenizer.decoder = decoders.Fuse()
    inner = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="w0 ", eos_token=f"w{END} ")
    return HuggingFaceTokenizer(inner, context)


def loaded(model: Any, context: int = CONTEXT) -> LoadedModel:
    return LoadedModel("small", model, word_tokenizer(context))


def unequal(count: int, seed: int = 0, longest: int = 40, most: int = 24, **sampling: Any) -> list[TokenRequest]:
    """Requests of unequal prompts and answers; every third prompt begins like the one before it."""
    source = random.Random(seed)
    found: list[TokenRequest] = []
    for number in range(count):
        prompt = tuple(source.randrange(VOCABULARY) for _ in range(source.randint(1, longest)))
        if number % 3 == 2:
            prompt = found[-1].prompt_ids + prompt[: source.randint(0, 3)]
        chosen = {"max_tokens": source.randint(1, most), "seed": number, **sampling}
        found.append(TokenRequest(prompt, Sampling(**chosen)))
    return found
