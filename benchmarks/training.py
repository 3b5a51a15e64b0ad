"""Training tokens a second of the packed trainer beside a plain transformers loop and TRL's SFTTrainer, on the same rows in one run.

Rows of `mixed` have unequal lengths and an answer that is half of them, as in training; rows of `full` fill the length, and every token
counts. All compute the same step: forward, backward, a bound on the gradient, AdamW. Tokens are counted without padding.

    PYTHONPATH=src python3 benchmarks/training.py --device cuda --model random
    PYTHONPATH=src python3 benchmarks/training.py --device cpu --quick
"""

from __future__ import annotations

import importlib.util
import itertools
import random
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import torch
import torch.nn.functional as F
import typer
from figure import Device, launch, show, where
from generation import drawn

from bottega.backbone.loading import LoadedModel, load
from bottega.train.optimiser import Optimiser, update
from bottega.train.packing import plan
from bottega.train.policy import Policy
from bottega.train.rows import TrainRow, imitation_row
from bottega.train.settings import LossSettings, OptimiserSettings

LOSS, OPTIMISER = LossSettings(normalise="tokens"), OptimiserSettings(lr=1e-5, schedule="constant")


@dataclass(frozen=True)
class Size:
    length: int
    """Tokens of the longest row."""
    batch: int
    """Tokens of a step."""
    pack: int
    """Tokens of one of our forward passes."""
    rows: int
    """Rows of one forward pass of the plain loop."""
    steps: int


SIZES = {
    ("cpu", False): Size(length=512, batch=2048, pack=1024, rows=2, steps=4),
    ("cpu", True): Size(length=128, batch=512, pack=256, rows=2, steps=3),
    ("cuda", False): Size(length=2048, batch=65536, pack=65536, rows=16, steps=12),
    ("cuda", True): Size(length=2048, batch=65536, pack=65536, rows=16, steps=6),
}


def main(
    device: Device = "cpu",
    model: Annotated[str, typer.Option(help="embedded, a folder, a hub name, or random: SmolLM2-135M's shape.")] = "embedded",
    ways: Annotated[str, typer.Option(help="Some of plain,trl,packed,lora, by commas.")] = "plain,trl,packed",
    quick: Annotated[bool, typer.Option("--quick/--full", help="Fewer and smaller steps.")] = False,
) -> None:
    size = SIZES[device.partition(":")[0], quick]
    named: dict[str, Callable[[str, str, Size, str], Measured]] = {
        "plain": plain, "trl": trl, "packed": packed, "lora": partial(packed, lora=True),
    }  # fmt: skip
    found = []
    for kind in ("mixed", "full"):
        for way in ways.split(","):
            if way == "trl" and (importlib.util.find_spec("trl") is None or importlib.util.find_spec("datasets") is None):
                print("trl: not installed, left out", file=sys.stderr)
                continue
            try:
                found.append(named[way](device, model, size, kind))
            except Exception as error:  # out of memory, or a package that does not fit: the other rows stand
                print(f"{way}, {kind}: {type(error).__name__}: {str(error).splitlines()[0]}", file=sys.stderr)
                continue
            finally:
                if device != "cpu":
                    torch.cuda.empty_cache()
            print(f"{found[-1].name}, {kind}: {found[-1].rate:,.0f} tokens/s", file=sys.stderr, flush=True)
    first = {row.kind: row.rate for row in reversed(found)}
    table = [
        [row.name, row.kind, f"{row.rate:,.0f}", f"{row.rate / first[row.kind]:.2f}x", f"{row.seconds * 1000:,.0f}",
         f"{row.loss:.3f}", f"{row.peak / 2**30:.2f}", f"{row.before:.0f}"]
        for row in found
    ]  # fmt: skip
    columns = ("", "rows", "tokens/s", "ratio", "ms a step", "first loss", "peak GiB", "s before")
    remarks = [
        where(device),
        f"{model}; rows of at most {size.length} tokens, steps of about {size.batch}; ours {size.pack} a pass, plain {size.rows} rows a pass; "
        f"median of {size.steps} steps; peak: of the device, or of the process on a CPU; s before: loading and compiling",
    ]
    show(f"training on {device}", columns, table, remarks)


@dataclass(frozen=True)
class Measured:
    name: str
    kind: str
    tokens: float
    """Of a step, on average."""
    seconds: float
    """Median of a step."""
    loss: float
    """Of the first step: the same for all, or they do not compute the same."""
    peak: int
    before: float

    @property
    def rate(self) -> float:
        return self.tokens / self.seconds


def rows_of(kind: str, size: Size, vocabulary: int, steps: int) -> list[list[TrainRow]]:
    """The same rows for every way, step by step."""
    source, found = random.Random(0), []
    lengths: list[int] = []
    while sum(lengths) < size.batch * steps * 1.2:
        lengths.append(size.length if kind == "full" else source.randint(size.length // 8, size.length))
    for step in plan(lengths, size.batch, 1, seed=0)[:steps]:
        rows = []
        for number in step[0]:
            ids = [source.randrange(100, vocabulary) for _ in range(lengths[number])]
            begin = 1 if kind == "full" else lengths[number] // 2
            rows.append(imitation_row(ids[:begin], ids[begin:], key=str(number)))
        found.append(rows)
    return found


def opened(model: str, device: str, dtype: str = "float32", lora: bool = False) -> LoadedModel:
    from bottega.backbone.loading import Lora

    if model == "random":
        loaded = drawn(device)
        loaded.model.to(getattr(torch, dtype))
        if lora:
            import peft

            config = peft.LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")
            return LoadedModel(loaded.name, peft.get_peft_model(loaded.model, config), loaded.tokenizer)
        return loaded
    return load(model, device=device, dtype=dtype, lora=Lora() if lora else None)


def timed(
    name: str, kind: str, device: str, steps: list[list[TrainRow]], step: Callable[[int], float], begun: float
) -> Measured:
    """Three steps are not counted: they compile, and find out what fits where."""
    cuda = device.startswith("cuda")
    seconds, losses = [], []
    for number in range(len(steps)):
        if cuda:
            torch.cuda.synchronize()
            if number == 3:
                torch.cuda.reset_peak_memory_stats()
        start = time.perf_counter()
        losses.append(step(number))
        if cuda:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
        if number == 2:
            before = time.perf_counter() - begun
    peak = torch.cuda.max_memory_allocated() if cuda else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    tokens = statistics.mean(sum(map(len, rows)) for rows in steps[3:])
    return Measured(name, kind, tokens, statistics.median(seconds[3:]), losses[0], peak, before)


def packed(device: str, model: str, size: Size, kind: str, lora: bool = False) -> Measured:
    begun = time.perf_counter()
    loaded = opened(model, device, lora=lora)
    policy = Policy(loaded.model, longest=size.length)
    optimiser = Optimiser(policy.trainable(), OPTIMISER)
    steps = rows_of(kind, size, loaded.model.get_input_embeddings().weight.shape[0], size.steps + 3)
    packs = [
        [policy.pack([rows[number] for number in numbers], numbers, size.pack)
         for numbers in plan([len(row) for row in rows], size.pack, 1, seed=0, rows=len(rows))[0]]
        for rows in steps
    ]  # fmt: skip
    name = "packed, LoRA" if lora else "packed"
    return timed(
        name, kind, device, steps, lambda number: update(policy, optimiser, packs[number], LOSS, number, 10**6).loss, begun
    )


def plain(device: str, model: str, size: Size, kind: str) -> Measured:
    """What one writes in ten minutes: the model in bf16 on a GPU, fp32 on a CPU, rows padded on the right to the longest beside them."""
    begun = time.perf_counter()
    net = opened(model, device, "bfloat16" if device != "cpu" else "float32").model
    net.train()
    optimiser = torch.optim.AdamW(net.parameters(), lr=OPTIMISER.lr, betas=OPTIMISER.betas, fused=device != "cpu")
    steps = rows_of(kind, size, net.get_input_embeddings().weight.shape[0], size.steps + 3)

    def step(number: int) -> float:
        ordered = sorted(steps[number], key=len)
        count, total = sum(int(row.learned.sum()) for row in ordered), torch.zeros((), device=device)
        for begin in range(0, len(ordered), size.rows):
            ids, labels = padded(ordered[begin : begin + size.rows])
            logits = net(input_ids=ids.to(device), use_cache=False).logits[:, :-1]
            loss = F.cross_entropy(logits.flatten(0, 1).float(), labels[:, 1:].flatten().to(device), reduction="sum") / count
            loss.backward()
            total += loss.detach()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        return float(total)

    return timed("plain loop", kind, device, steps, step, begun)


def padded(rows: list[TrainRow]) -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.zeros((len(rows), max(map(len, rows))), dtype=torch.long)
    labels = torch.full_like(ids, -100)
    for line, row in enumerate(rows):
        own = torch.from_numpy(row.ids).long()
        ids[line, : len(row)] = own
        labels[line, : len(row)] = torch.where(torch.from_numpy(row.learned), own, -100)
    return ids, labels


def trl(device: str, model: str, size: Size, kind: str) -> Measured:
    """Its trainer on lines that are full already, rows cut where a line ends (its packing called `wrapped`); in bf16 on a GPU."""
    from datasets import Dataset
    from datasets.table import InMemoryTable
    from transformers import TrainerCallback
    from trl import SFTConfig, SFTTrainer

    begun = time.perf_counter()
    if device != "cpu":
        torch.cuda.reset_peak_memory_stats()
    loaded = opened(model, device)
    steps = rows_of(kind, size, loaded.model.get_input_embeddings().weight.shape[0], size.steps + 3)
    per_step = max(1, size.batch // size.length)
    ids = [int(token) for rows in steps for row in rows for token in row.ids]
    labels = [int(token) if keep else -100 for rows in steps for row in rows for token, keep in zip(row.ids, row.learned)]
    lines = [slice(begin, begin + size.length) for begin in range(0, len(ids) - size.length + 1, size.length)]
    table = InMemoryTable.from_pydict({"input_ids": [ids[line] for line in lines], "labels": [labels[line] for line in lines]})
    data = Dataset(table, fingerprint="rows")  # its own fingerprint would pickle the table, which some versions cannot
    times: list[float] = []
    losses: list[float] = []

    class Clock(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, *_: Any, **__: Any) -> None:
            if device != "cpu":
                torch.cuda.synchronize()
            times.append(time.perf_counter())

        def on_log(self, *_: Any, logs: Any = None, **__: Any) -> None:
            losses.append(float((logs or {}).get("loss", "nan")))

    with tempfile.TemporaryDirectory() as folder:
        config = SFTConfig(
            output_dir=folder, packing=False, max_length=size.length, learning_rate=OPTIMISER.lr,
            per_device_train_batch_size=min(per_step, size.rows), gradient_accumulation_steps=max(1, per_step // size.rows),
            max_steps=size.steps, logging_steps=1, report_to=[], save_strategy="no", bf16=device != "cpu", use_cpu=device == "cpu",
            dataset_kwargs={"skip_prepare_dataset": True}, gradient_checkpointing=False,
        )  # fmt: skip
        trainer = SFTTrainer(
            loaded.model, args=config, train_dataset=data, processing_class=loaded.tokenizer.inner, callbacks=[Clock()]
        )
        trainer.train()
    peak = torch.cuda.max_memory_allocated() if device != "cpu" else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    between = [later - earlier for earlier, later in itertools.pairwise(times)]
    return Measured("TRL SFTTrainer", kind, size.batch, statistics.median(between[1:]), losses[0], peak, times[0] - begun)


if __name__ == "__main__":
    launch(main)
