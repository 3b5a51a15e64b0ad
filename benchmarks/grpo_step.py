"""A GRPO step without the judge, ours beside TRL's trainer: draw answers, score them, learn; by parts, for models of any shape with random weights.

What the judge takes is measured by rl_step.py. Here both sides get the same prompts, draw the same number of answers of the same length (random
weights do not end theirs), and score them by the same rule: the share of even tokens. TRL draws by transformers' generate, or by vLLM where it is
installed.

    PYTHONPATH=src python3 benchmarks/grpo_step.py --shape tiny --ways ours,trl
    PYTHONPATH=src python3 benchmarks/grpo_step.py --device cuda --shape 8b --lora --ways ours,vllm,trl
"""

from __future__ import annotations

import asyncio
import itertools
import random
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from figure import Device, launch, show, where

from bottega.backbone.chat import Sampling, TokenRequest
from bottega.backbone.loading import LoadedModel
from bottega.backbone.tokenizer import HuggingFaceTokenizer
from bottega.backbone.weights import save_config
from bottega.core.trace import Trace
from bottega.core.turn import Turn
from bottega.train.advantages.grpo import grpo
from bottega.train.config import read_config
from bottega.train.learner import Learner
from bottega.train.policy import with_logprobs
from bottega.train.rollout_engine import open_engine
from bottega.train.rows import policy_rows

SHAPES: dict[str, dict[str, Any]] = {
    "tiny": {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
             "head_dim": 32, "vocab_size": 512, "tie_word_embeddings": False},
    "135m": {"hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3,
             "head_dim": 64, "vocab_size": 49152, "tie_word_embeddings": True},
    "0.6b": {"hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8,
             "head_dim": 128, "vocab_size": 151936, "tie_word_embeddings": True},
    "8b": {"hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8,
           "head_dim": 128, "vocab_size": 151936, "tie_word_embeddings": False},
}  # fmt: skip
"""SmolLM2-135M as a Llama; Qwen3-0.6B and Qwen3-8B."""
CONTEXT = 8192
PARTS = ("weights", "generation", "sleep", "log-probs", "update")


@dataclass(frozen=True)
class Work:
    device: str
    shape: str
    lora: bool
    tasks: int
    answers: int
    """To each task."""
    prompt: int
    answer: int
    """Tokens."""
    steps: int

    @property
    def vocabulary(self) -> int:
        return int(SHAPES[self.shape]["vocab_size"])

    def prompts(self, step: int) -> list[tuple[int, ...]]:
        source = random.Random(step)
        lengths = [source.randint(self.prompt // 2, self.prompt * 3 // 2) for _ in range(self.tasks)]
        return [tuple(source.randrange(4, self.vocabulary) for _ in range(length)) for length in lengths]


@dataclass(frozen=True)
class Figures:
    name: str
    seconds: float
    """Median of a step."""
    parts: dict[str, float]
    drawn: float
    """Tokens of a step."""
    peak: int


def main(
    device: Device = "cpu",
    shape: Annotated[str, typer.Option(help=f"{', '.join(SHAPES)}: random weights.")] = "tiny",
    lora: Annotated[bool, typer.Option(help="Rank 16 on all linear layers instead of all weights.")] = False,
    ways: Annotated[str, typer.Option(help="Some of ours,vllm,trl,trl-vllm, by commas.")] = "ours,trl",
    tasks: Annotated[int, typer.Option(help="Prompts of a step.")] = 4,
    answers: Annotated[int, typer.Option(help="To each prompt.")] = 8,
    prompt: Annotated[int, typer.Option(help="Tokens on average.")] = 64,
    answer: Annotated[int, typer.Option(help="Tokens of each.")] = 32,
    steps: Annotated[int, typer.Option(min=1, help="Beside two that are not counted.")] = 3,
) -> None:
    work = Work(device, shape, lora, tasks, answers, prompt, answer, steps)
    known: dict[str, Callable[[Work], Figures]] = {
        "ours": ours, "vllm": lambda work: ours(work, "vllm"), "trl": trl, "trl-vllm": lambda work: trl(work, vllm=True),
    }  # fmt: skip
    found = []
    for way in ways.split(","):
        try:
            found.append(known[way](work))
        except Exception as error:  # out of memory, or a package that is not there: the other rows stand
            print(f"{way}: {type(error).__name__}: {(str(error).splitlines() or [''])[0]}", file=sys.stderr)
            continue
        finally:
            if device != "cpu":
                torch.cuda.empty_cache()
        print(f"{way}: {found[-1].seconds:.2f} s a step", file=sys.stderr, flush=True)
    table = [
        [row.name, f"{row.seconds:.2f}", *(f"{row.parts.get(part, 0.0):.2f}" for part in PARTS),
         f"{row.drawn / row.seconds:,.0f}", f"{row.drawn / max(1e-9, row.parts.get('generation', 0.0)):,.0f}", f"{row.peak / 2**30:.1f}"]
        for row in found
    ]  # fmt: skip
    columns = ("", "s a step", *(f"{part} s" for part in PARTS), "tokens/s of a step", "tokens/s drawn", "peak GiB")
    remarks = [
        where(device),
        f"{shape}, random weights, {'LoRA rank 16' if lora else 'all weights'}; {tasks} prompts of about {prompt} tokens x {answers} answers "
        f"of {answer}; median of {steps} steps; peak: of the device, or of the process on a CPU, with those before it",
    ]
    show(f"a GRPO step without a judge on {device}", columns, table, remarks)
    if not found:
        raise typer.Exit(1)


def reward(ids: Any) -> float:
    return sum(int(token) % 2 == 0 for token in ids) / max(1, len(ids))


def tokenizer(vocabulary: int) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.WordLevel({f"w{number}": number for number in range(vocabulary)}, unk_token="w0"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="w0", eos_token="w1", padding_side="left")


def random_model(shape: str, device: str, dtype: torch.dtype, least_vocabulary: int = 0) -> Any:
    """Drawn on the device itself: of 8B parameters that takes seconds there and minutes elsewhere."""
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM
    from transformers.initialization import no_init_weights

    options = {
        **SHAPES[shape],
        "vocab_size": max(least_vocabulary, SHAPES[shape]["vocab_size"]),
        "max_position_embeddings": CONTEXT,
        "eos_token_id": 1,
        "bos_token_id": None,
        "pad_token_id": 0,
    }
    large = shape in ("0.6b", "8b")
    torch.manual_seed(0)
    with torch.device(device), no_init_weights():
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        try:
            model = Qwen3ForCausalLM(Qwen3Config(**options)) if large else LlamaForCausalLM(LlamaConfig(**options))
        finally:
            torch.set_default_dtype(before)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.fill_(1.0) if "norm" in name else parameter.normal_(std=0.02)
    model.tie_weights()
    return model.eval()


def adapted(model: Any) -> Any:
    import peft

    settings = peft.LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")
    return peft.get_peft_model(model, settings).eval()


def peak_of(device: str) -> int:
    if device != "cpu":
        return int(torch.cuda.max_memory_allocated())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def ours(work: Work, engine: str = "own") -> Figures:
    """As the RL loop does it: weights shown, answers drawn, log-probs by the trainer for the mismatch rule, one update."""
    cuda = work.device != "cpu"
    longest = work.prompt * 3 // 2 + work.answer
    overrides = [
        f"model.device={work.device}", f"data.longest={longest}", f"data.pack_tokens={max(longest, 32768 if cuda else 2048)}",
        f"rollout.engine={engine}", f"rollout.slots={work.tasks * work.answers}", f"model.recompute={str(work.shape == '8b').lower()}",
        "advantage.name=grpo", "optimiser.lr=1e-6",
    ]  # fmt: skip
    if engine == "own":
        overrides.append(f"rollout.cache_tokens={work.tasks * work.answers * (longest + 64)}")
    config = read_config("rl", None, None, overrides + (["model.lora.rank=16"] if work.lora else []))
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    model = random_model(work.shape, work.device, torch.bfloat16 if work.lora and cuda else torch.float32)
    loaded = LoadedModel(
        work.shape, adapted(model) if work.lora else model, HuggingFaceTokenizer(tokenizer(work.vocabulary), CONTEXT)
    )
    loaded = replace(loaded, tokenizer=_endless(loaded.tokenizer))
    learner = Learner.begin(config, loaded.model)
    with tempfile.TemporaryDirectory() as folder:
        backbone = open_engine(config, loaded, learner, Path(folder))
        try:
            timed = [one_step(work, learner, backbone, number) for number in range(work.steps + 2)][2:]
        finally:
            asyncio.run(backbone.close())
    parts = {part: statistics.median(each[part] for each in timed) for part in PARTS}
    seconds = statistics.median(sum(each[part] for part in PARTS) for each in timed)
    drawn = statistics.mean(each["drawn"] for each in timed)
    return Figures("ours" if engine == "own" else f"ours, {engine}", seconds, parts, drawn, peak_of(work.device))


def _endless(found: HuggingFaceTokenizer) -> HuggingFaceTokenizer:
    """No token ends an answer: all are of the length that was asked for."""
    found.ends = ()
    return found


def one_step(work: Work, learner: Learner, backbone: Any, number: int) -> dict[str, float]:
    seconds: dict[str, float] = {}

    def took(part: str, work_: Callable[[], Any]) -> Any:
        begun = time.perf_counter()
        made = work_()
        if work.device != "cpu":
            torch.cuda.synchronize()
        seconds[part] = time.perf_counter() - begun
        return made

    size = learner.config.data.pack_tokens
    took("weights", lambda: backbone.weights_changed(number, learner.show))
    sampling = Sampling(work.answer)
    asked = [TokenRequest(prompt, sampling) for prompt in work.prompts(number) for _ in range(work.answers)]
    drawn = took("generation", lambda: asyncio.run(backbone.complete(asked)))
    traces, advantages = [], {}
    for task in range(work.tasks):
        group = range(task * work.answers, (task + 1) * work.answers)
        (gains,) = zip(*grpo([[reward(drawn[place].output_ids)] for place in group]))
        for place, gain in zip(group, gains, strict=True):
            found = drawn[place]
            turn = Turn("write", "", prompt_ids=asked[place].prompt_ids, output_ids=found.output_ids, logprobs=found.logprobs)
            traces.append(Trace(str(place), "write", (turn,)))
            advantages[str(place), 0] = gain or 0.0
    rows = policy_rows(traces, advantages, learner.config.data.longest).rows
    took("sleep", getattr(backbone, "rest", lambda: None))  # vLLM alone: its memory is the trainer's meanwhile
    rows = took("log-probs", lambda: with_logprobs(rows, learner.row_logprobs(rows, size), "old"))
    took("update", lambda: learner.update(learner.policy.packs(rows, size), number, 10**6))
    return {**seconds, "drawn": float(sum(len(each.output_ids) for each in drawn))}


def trl(work: Work, vllm: bool = False) -> Figures:
    """Its trainer with the same batch; the whole step is timed, and what its rollouts took of it."""
    from datasets import Dataset
    from datasets.table import InMemoryTable
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    cuda = work.device != "cpu"
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    model = random_model(work.shape, work.device, torch.bfloat16 if work.lora and cuda else torch.float32)
    asked = [" ".join(f"w{token}" for token in prompt) for step in range(work.steps + 2) for prompt in work.prompts(step)]
    data = Dataset(InMemoryTable.from_pydict({"prompt": asked}), fingerprint="prompts")
    ends: list[float] = []
    drawing: list[float] = []

    class Clock(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, *_: Any, **__: Any) -> None:
            if cuda:
                torch.cuda.synchronize()
            ends.append(time.perf_counter())

    class Timed(GRPOTrainer):  # type: ignore[misc]
        def _generate(self, *given: Any, **options: Any) -> Any:
            begun = time.perf_counter()
            made = super()._generate(*given, **options)
            if cuda:
                torch.cuda.synchronize()
            drawing.append(time.perf_counter() - begun)
            return made

    rows = work.tasks * work.answers
    whole_length = {"ignore_eos": True} if vllm else {"min_new_tokens": work.answer}  # as ours, whose answers no token ends
    with tempfile.TemporaryDirectory() as folder:
        if vllm:
            without_weights(model, work, Path(folder))
        config = GRPOConfig(
            output_dir=folder, per_device_train_batch_size=min(rows, 16), gradient_accumulation_steps=max(1, rows // 16),
            num_generations=work.answers, max_completion_length=work.answer, temperature=1.0, beta=0.0, learning_rate=1e-6,
            max_steps=work.steps + 2, logging_steps=1000, report_to=[], save_strategy="no", bf16=cuda, use_cpu=not cuda,
            gradient_checkpointing=work.shape == "8b", generation_kwargs=whole_length, shuffle_dataset=False,
            **({"use_vllm": True, "vllm_mode": "colocate", "vllm_gpu_memory_utilization": 0.3, "vllm_enable_sleep_mode": True,
                "vllm_max_model_length": CONTEXT} if vllm else {}),
        )  # fmt: skip
        trainer = Timed(
            adapted(model) if work.lora else model, args=config, train_dataset=data, processing_class=tokenizer(work.vocabulary),
            reward_funcs=lambda completion_ids, **_: [reward(ids) for ids in completion_ids], callbacks=[Clock()],
        )  # fmt: skip
        trainer.train()
    between = [later - earlier for earlier, later in itertools.pairwise(ends[1:])]
    seconds, generation = statistics.median(between), statistics.median(drawing[2:] or drawing)
    parts = {"generation": generation, "update": seconds - generation}
    name = "TRL, vLLM" if vllm else "TRL, generate"
    return Figures(name, seconds, parts, float(rows * work.answer), peak_of(work.device))


def without_weights(model: Any, work: Work, folder: Path) -> None:
    """TRL's vLLM opens the model's folder. It begins without weights there, as ours does, and is given the trainer's before the first answer."""
    from functools import partial

    from trl.generation import vllm_generation

    save_config(model, folder)
    tokenizer(work.vocabulary).save_pretrained(folder)
    model.config._name_or_path = model.name_or_path = str(folder)
    vllm_generation.LLM = partial(
        vllm_generation.LLM, load_format="dummy", dtype="float32" if work.device == "cpu" else "bfloat16"
    )


if __name__ == "__main__":
    launch(main)
