"""Tokens a second of the in-process backbone beside plain `model.generate`, in one run.

Requests have unequal prompts and unequal answers, as in training; the backbone fills a slot again when its answer is over,
`generate` waits for the longest of each batch. Only tokens that were asked for are counted.

    PYTHONPATH=src python3 benchmarks/generation.py --device cuda --model random
    PYTHONPATH=src python3 benchmarks/generation.py --device cpu --quick
"""

from __future__ import annotations

import asyncio
import random
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import torch
import typer
from figure import Device, launch, show, where

from bottega.backbone.chat import Sampling, TokenRequest
from bottega.backbone.loading import LoadedModel, cast, load
from bottega.backbone.local import LocalBackbone
from bottega.backbone.tokenizer import HuggingFaceTokenizer


@dataclass(frozen=True)
class Size:
    slots: int
    requests: int
    prompt: int
    """Tokens of a prompt on average; they spread from half to one and a half of it."""
    answer: int
    """Tokens of an answer on average; they spread from an eighth to nearly twice of it."""
    plain: int
    """Requests that `generate` gets, in one batch, their answers cut to `cut`."""
    cut: int


SIZES = {
    ("cpu", False): Size(slots=32, requests=64, prompt=96, answer=64, plain=32, cut=64),
    ("cpu", True): Size(slots=16, requests=24, prompt=48, answer=24, plain=16, cut=24),
    ("cuda", False): Size(slots=512, requests=3072, prompt=320, answer=416, plain=256, cut=64),
    ("cuda", True): Size(slots=512, requests=1024, prompt=320, answer=200, plain=256, cut=16),
}

GROUP = 16
"""Answers to each prompt in the last row."""


def main(
    device: Device = "cpu",
    model: Annotated[
        str, typer.Option(help="embedded, a folder, a hub name, or random: SmolLM2-135M's shape, drawn anew.")
    ] = "embedded",
    quick: Annotated[bool, typer.Option("--quick/--full", help="Fewer requests.")] = False,
    rounds: Annotated[int, typer.Option(min=1, help="Measure each so often, in turn; the quickest counts.")] = 2,
) -> None:
    kind = device.partition(":")[0]
    size = SIZES[kind, quick]
    loaded = drawn(device) if model == "random" else load(model, device=device)
    vocabulary = loaded.model.get_input_embeddings().weight.shape[0]
    backbone = LocalBackbone(loaded, slots=size.slots)
    print(f"warming up: {backbone.engine}", file=sys.stderr)
    asyncio.run(backbone.warm_up())
    works: dict[str, tuple[Callable[[list[TokenRequest]], int], int]] = {
        f"model.generate, batch {size.plain}": (lambda asked: generated(loaded, asked[: size.plain], size.cut), 1),
        f"backbone, {size.slots} slots": (lambda asked: answered(backbone, asked), 1),
        f"backbone, prompts in groups of {GROUP}": (lambda asked: answered(backbone, asked), GROUP),
    }
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in works}
    first_ones = requests(size, vocabulary, 1, seed=-1)
    answered(backbone, [TokenRequest(each.prompt_ids, Sampling(max_tokens=4)) for each in first_ones[: size.slots // 2]])
    generated(loaded, first_ones[: size.plain], 2)
    for turn in range(rounds):  # in turn, so that a drift of the machine falls on all
        for name, (work, group) in works.items():
            asked = requests(size, vocabulary, group, seed=turn)  # new prompts each time, or the cache would know them
            found[name].append(measured(name, device, lambda work=work, asked=asked: work(asked)))  # type: ignore[misc]
    rows = [max(each, key=lambda row: float(row["rate"])) for each in found.values()]
    memory = backbone.memory
    asyncio.run(backbone.close())
    first = rows[0]["rate"]
    table = [
        [
            row["name"], f"{row['tokens']}", f"{row['seconds']:.2f}", f"{row['rate']:,.1f}" if row["rate"] < 1000 else f"{row['rate']:,.0f}",
            f"{row['rate'] / first:.1f}x", f"{row['peak'] / 2**30:.2f}",
        ]
        for row in rows
    ]  # fmt: skip
    remarks = [
        where(device),
        f"{loaded.name}, {loaded.model.dtype}, log-probs included; prompts of {size.prompt // 2} to {size.prompt * 3 // 2} tokens, "
        f"answers of {size.answer // 8} to {size.answer * 15 // 8} ({size.requests} requests); generate: cut to {size.cut}, no log-probs",
        f"backbone: {backbone.engine}; weights {memory.weights / 2**20:.0f} MiB, joined copies {memory.buffers / 2**20:.0f} MiB, "
        f"cache {memory.cache / 2**20:.0f} MiB",
    ]
    show(f"generation on {device}", ("", "tokens", "seconds", "tokens/s", "ratio", "peak GiB"), table, remarks)


def drawn(device: str) -> LoadedModel:
    """Random weights in the shape of SmolLM2-135M: as fast as the real ones, without a file to carry."""
    from tokenizers import Tokenizer, models
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    config = LlamaConfig(
        vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
        num_key_value_heads=3, max_position_embeddings=8192, tie_word_embeddings=True, initializer_range=0.05,
        rope_parameters={"rope_type": "default", "rope_theta": 100000.0}, eos_token_id=None, bos_token_id=None,
    )  # fmt: skip
    torch.manual_seed(0)
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    model = cast(LlamaForCausalLM(config).to(device), dtype).eval()
    words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(config.vocab_size)}, unk_token="w0"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="w0")
    return LoadedModel("SmolLM2-135M's shape, random", model, HuggingFaceTokenizer(tokenizer, 8192))


def requests(size: Size, vocabulary: int, group: int, seed: int = 0) -> list[TokenRequest]:
    source = random.Random(seed)
    found = []
    for number in range(size.requests):
        if number % group == 0:
            length = source.randint(size.prompt // 2, size.prompt * 3 // 2)
            prompt = tuple(source.randrange(100, vocabulary) for _ in range(length))
        answer = source.randint(max(1, size.answer // 8), size.answer * 15 // 8)
        found.append(TokenRequest(prompt, Sampling(max_tokens=answer, seed=number)))
    return found


def answered(backbone: LocalBackbone, asked: list[TokenRequest]) -> int:
    """Tokens that were drawn."""
    return sum(len(each.output_ids) for each in asyncio.run(backbone.complete(asked)))


def generated(loaded: LoadedModel, asked: list[TokenRequest], cut: int) -> int:
    """Tokens that were drawn and wanted: what a batch draws after a row's own end is not counted."""
    width = max(len(each.prompt_ids) for each in asked)
    ids = torch.zeros((len(asked), width), dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, each in enumerate(asked):
        ids[row, width - len(each.prompt_ids) :] = torch.tensor(each.prompt_ids)
        mask[row, width - len(each.prompt_ids) :] = 1
    limits = [min(cut, each.sampling.max_tokens) for each in asked]
    device = loaded.model.device
    with torch.inference_mode():
        out = loaded.model.generate(
            input_ids=ids.to(device), attention_mask=mask.to(device), max_new_tokens=max(limits), do_sample=True, temperature=1.0,
            top_k=0, top_p=1.0, use_cache=True, pad_token_id=0, eos_token_id=list(loaded.tokenizer.ends) or None,
        )[:, width:].tolist()  # fmt: skip
    return sum(ended(row[:limit], loaded.tokenizer.ends) for row, limit in zip(out, limits))


def ended(row: list[int], ends: tuple[int, ...]) -> int:
    return next((place + 1 for place, token in enumerate(row) if token in ends), len(row))


def measured(name: str, device: str, work: Callable[[], int]) -> dict[str, Any]:
    cuda = device.startswith("cuda")
    if cuda:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    begun = time.perf_counter()
    tokens = work()
    if cuda:
        torch.cuda.synchronize()
    seconds = time.perf_counter() - begun
    peak = torch.cuda.max_memory_allocated() if cuda else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"{name}: {tokens} tokens in {seconds:.1f} s", file=sys.stderr)
    return {"name": name, "tokens": tokens, "seconds": seconds, "rate": tokens / seconds, "peak": peak}


if __name__ == "__main__":
    launch(main)
