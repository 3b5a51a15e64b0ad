"""Can a model choose, where nothing but the choice is asked of it? The compiler's answer stands; the model picks one of the sweep's variants or keeps
the rule's choice. A pick's speed is in the sweep's table, so that nothing is timed anew and a wrong kernel cannot be written.

Two ways to learn from the same tasks and for the same number of steps: imitation of the winner, and policy gradient with the measured gain as the
reward, over all options of a task at once (the expectation that samples would estimate). Controls: the rule, a random option, the model before, and
rewards that were shuffled among a task's options.

    PYTHONPATH=src python3 benchmarks/choice_policy.py rows benchmarks/choice_sweep_h200 policy
    PYTHONPATH=src python3 benchmarks/choice_policy.py learn policy imitation --device cuda
    PYTHONPATH=src python3 benchmarks/choice_policy.py learn policy gradient --device cuda
    PYTHONPATH=src python3 benchmarks/choice_policy.py learn policy shuffled --device cuda
    PYTHONPATH=src python3 benchmarks/choice_policy.py report policy
"""

from __future__ import annotations

import math
import random
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from choice_distil import KINDS, MODULES, ends, is_held_out, write_rows
from choice_places import places_of
from choice_sweep import RESULTS, SURE, Row, geometric_mean, rows_of, tasks_of
from choice_tasks import SweepTask
from figure import Device, where
from torch import Tensor

from bottega.agents.prompts import Prompts
from bottega.agents.writer import WriterInput, messages
from bottega.backbone.loading import load
from bottega.compiler.callgraph_names import recorded
from bottega.core.device import DeviceFacts

WAYS = ("imitation", "gradient", "shuffled")
BEFORE = "before"
RULE = "rule"
WORST = -0.7
"""Log of the gain of an option that is much slower, or wrong: how much slower it is teaches nothing."""
BATCH, AT_ONCE, LONGEST = 16, 8, 1536
ROWS = "rows.jsonl"
FACTS = ("task", "name", "family", "dtype", "structure")

app = typer.Typer(add_completion=False, help=__doc__)
Folder = Annotated[Path, typer.Argument(help="Where rows and picks are kept.")]


@app.command()
def rows(
    sweep: Annotated[Path, typer.Argument(help="The sweep's folder.")],
    folder: Folder,
    split: Annotated[str, typer.Option(help=f"What is set aside: {MODULES}, or whole {KINDS} of them.")] = MODULES,
    processes: Annotated[int, typer.Option(min=1)] = 12,
) -> None:
    """Write every task's prompt and options with what they gain. Needs no GPU."""
    folder.mkdir(parents=True, exist_ok=True)
    tasks = {one.id: one for one in tasks_of(sweep)}
    found = [row for row in rows_of(sweep / RESULTS) if row.get("rule_ms") and row["task"] in tasks]
    with ProcessPoolExecutor(processes, get_context("forkserver")) as pool:
        made = list(pool.map(asked, [tasks[row["task"]] for row in found], found, [split] * len(found), chunksize=4))
    write_rows(folder / ROWS, made)
    aside = sum(row["held_out"] for row in made)
    print(f"{len(made) - aside} tasks to learn from, {aside} set aside; {sum(len(row['options']) for row in made)} options")


def asked(task: SweepTask, row: Row, split: str) -> Row:
    """Prompt, options, and the log of what each gains; the rule is the first option."""
    places = places_of(task)
    options, gains = [RULE], [0.0]
    for variant in row["variants"]:
        place = places.get(variant["place"])
        sizes = " ".join(f"{name} {size}" for name, size in place.sizes.items()) if place else ""
        name = place.function if place else variant["place"].split(" ")[0]
        options.append(f"{name}{' (' + sizes + ')' if sizes else ''}: {variant['label']}")
        gains.append(max(WORST, math.log(row["rule_ms"] / variant["ms"])) if variant["ms"] else WORST)
    facts = {key: row[key] for key in (*FACTS, "gain")}
    return {
        **facts,
        "held_out": is_held_out(row, split),
        "prompt": prompt_text(task, options),
        "options": options,
        "gains": gains,
    }


def prompt_text(task: SweepTask, options: Sequence[str]) -> str:
    graph = recorded(task.source)
    given = WriterInput(
        task.task, "triton", DeviceFacts("cuda", "NVIDIA H200", "sm_90", 132, 0.0), callgraph=graph if graph.calls else None
    )
    written = messages(given, Prompts("terse"))[-1].content.rstrip()
    return f"{written}\n\n{task.dtype}\n" + "\n".join(options) + "\nFastest:"


# learning


@app.command()
def learn(
    folder: Folder,
    way: Annotated[str, typer.Argument(help=" or ".join(WAYS))],
    device: Device = "cuda",
    model: Annotated[str, typer.Option(help="That learns.")] = "embedded",
    epochs: Annotated[int, typer.Option(min=0)] = 6,
    rate: float = 5e-5,
    seed: int = 0,
    limit: Annotated[int, typer.Option(min=0, help="So many tasks; 0 for all.")] = 0,
) -> None:
    """Learn, and write what is picked for every task that is set aside. No epochs: the model before."""
    torch.manual_seed(seed)
    every = rows_of(folder / ROWS)
    train = [row for row in every if not row["held_out"]][: limit or None]
    held = [row for row in every if row["held_out"]][: limit or None]
    loaded = load(model, device=device, dtype="float32")
    chooser = Chooser(loaded.model, loaded.tokenizer.inner, device)
    steps = epochs * -(-len(train) // BATCH)
    optimiser = torch.optim.AdamW(loaded.model.parameters(), lr=rate, weight_decay=0.01, betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: min(1.0, (step + 1) / 10) * (1 - step / (steps + 1)))
    chance, begun, step = random.Random(seed), time.monotonic(), 0
    for epoch in range(epochs):
        chance.shuffle(train)
        told: list[float] = []
        for at in range(0, len(train), BATCH):
            batch = train[at : at + BATCH]
            for first in range(0, len(batch), AT_ONCE):
                rows = batch[first : first + AT_ONCE]
                losses = []
                for row, logprobs in zip(rows, chooser.logprobs(rows)):
                    loss, reward = objective(way, logprobs, torch.tensor(row["gains"], device=device), chance)
                    losses.append(loss)
                    told.append(reward)
                (torch.stack(losses).sum() / len(batch)).backward()
            torch.nn.utils.clip_grad_norm_(loaded.model.parameters(), 1.0)
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
            schedule.step()
            step += 1
        gained = math.exp(sum(told) / len(told))
        print(
            f"[{time.monotonic() - begun:.0f} s] epoch {epoch + 1}, {step} steps: expected {gained:.3f}×",
            file=sys.stderr,
            flush=True,
        )
    name = way if epochs else BEFORE
    picks = [{"task": row["task"], "way": name, "pick": pick, "seed": seed} for row, pick in zip(held, chooser.picks(held))]
    write_rows(folder / f"picks-{name}-{seed}.jsonl", picks)
    print(f"{name}: {len(train)} tasks, {step} steps, {time.monotonic() - begun:.0f} s")


def objective(way: str, logprobs: Tensor, gains: Tensor, chance: random.Random) -> tuple[Tensor, float]:
    """The loss, and the reward that is expected of the policy as it is (in its own table, where rewards are shuffled)."""
    if way == "shuffled":
        gains = gains[torch.tensor(chance.sample(range(len(gains)), len(gains)), device=gains.device)]
    policy = torch.softmax(logprobs, 0)
    expected = (policy * gains).sum()
    if way == "imitation":
        best = int(gains.argmax()) if float(gains.max()) >= math.log(SURE) else int((gains == 0).nonzero()[0])
        return -torch.log_softmax(logprobs, 0)[best], float(expected.detach())
    return -expected / gains.std().clamp(min=0.02), float(expected.detach())


class Chooser:
    """The model as a policy over options: the log-prob of each option's text behind the prompt."""

    def __init__(self, model: Any, tokenizer: Any, device: str) -> None:
        self.model, self.tokenizer, self.device = model, tokenizer, device
        self.model.train()

    def logprobs(self, rows: Sequence[Row]) -> list[Tensor]:
        """Of each row's options. Prompts are read once but for their last token, which begins every option: so no logits of prompts are needed,
        and padding can stand on the right, where no token is without one that it sees."""
        prompts, answers = zip(*map(self._tokens, rows))
        most = max(map(len, answers))
        ids, seen = self._padded([prompt[:-1] for prompt in prompts])
        options, counted = self._padded([answer for each in answers for answer in each + [each[0]] * (most - len(each))])
        with torch.autocast(self.device.split(":")[0], torch.bfloat16, enabled=self.device.startswith("cuda")):
            cache = self.model(input_ids=ids, attention_mask=seen, use_cache=True, logits_to_keep=1).past_key_values
            cache.batch_repeat_interleave(most)
            before = seen.repeat_interleave(most, 0)
            places = before.sum(-1, keepdim=True) + torch.arange(options.shape[1], device=self.device)
            mask = torch.cat([before, counted], -1)
            logits = self.model(
                input_ids=options, attention_mask=mask, position_ids=places, past_key_values=cache, use_cache=True
            ).logits[:, :-1]
        each = torch.log_softmax(logits.float(), -1).gather(-1, options[:, 1:, None])[..., 0]
        sums = (each * counted[:, 1:]).sum(-1).view(len(rows), most)
        return [sums[place, : len(own)] for place, own in enumerate(answers)]

    def _tokens(self, row: Row) -> tuple[list[int], list[list[int]]]:
        """Of the prompt, and of its last token with each option; read once, since a row comes in every epoch."""
        if "tokens" not in row:
            prompt = self.tokenizer(row["prompt"])["input_ids"][-LONGEST:]
            row["tokens"] = prompt, [[*prompt[-1:], *self.tokenizer(f" {option}\n")["input_ids"]] for option in row["options"]]
        return row["tokens"]  # type: ignore[no-any-return]

    def _padded(self, rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """Tokens, and which of them count."""
        ids = torch.zeros((len(rows), max(map(len, rows))), dtype=torch.long)
        counted = torch.zeros_like(ids)
        for line, row in enumerate(rows):
            ids[line, : len(row)], counted[line, : len(row)] = torch.tensor(row), 1
        return ids.to(self.device), counted.to(self.device)

    @torch.no_grad()
    def picks(self, rows: Sequence[Row]) -> list[int]:
        self.model.eval()
        found = [int(each.argmax()) for at in range(0, len(rows), AT_ONCE) for each in self.logprobs(rows[at : at + AT_ONCE])]
        self.model.train()
        return found


# report


@app.command()
def report(folder: Folder) -> None:
    """Print what the picks gain on the tasks that are set aside."""
    picks = [row for path in sorted(folder.glob("picks-*.jsonl")) for row in rows_of(path)]
    print("\n".join(table(rows_of(folder / ROWS), picks)))
    print(f"\n{where('cuda' if torch.cuda.is_available() else 'cpu')}")


def table(every: Sequence[Row], picks: Sequence[Row]) -> Iterable[str]:
    held = {row["task"]: row for row in every if row["held_out"]}
    ways: dict[str, dict[str, list[float]]] = {
        "oracle (by a second pairing)": {task: [math.log(max(1.0, row["gain"]))] for task, row in held.items()},
        "an option at random": {task: [sum(row["gains"]) / len(row["gains"])] for task, row in held.items()},
    }
    controls = [{**row["controls"], "task": task} for task, row in held.items() if "controls" in row]
    chosen = [{"task": one["task"], "way": way, "pick": pick} for one in controls for way, pick in one.items() if way != "task"]
    for one in [*chosen, *picks]:
        if one["task"] in held:
            ways.setdefault(one["way"], {}).setdefault(one["task"], []).append(held[one["task"]]["gains"][one["pick"]])
    yield "| who chose | tasks | over the rule | float32 | bfloat16 | built-in | other than the rule's |"
    yield "|---|---|---|---|---|---|---|"
    gained: dict[str, dict[str, float]] = {}
    for way, found in ways.items():
        gained[way] = {task: math.exp(sum(logs) / len(logs)) for task, logs in found.items()}
        cells = [
            [gain for task, gain in gained[way].items() if wanted(held[task])]
            for wanted in (_is("float32"), _is("bfloat16"), lambda row: row["structure"] == "builtin")
        ]
        means = " | ".join(f"{geometric_mean(cell):.3f}" if cell else "" for cell in cells)
        other = sum(gain != 1.0 for gain in gained[way].values())
        yield f"| {way} | {len(gained[way])} | {ends(list(gained[way].values()))} | {means} | {other} |"
    others = dict.fromkeys(one["way"] for one in chosen)
    for way, control in ((way, control) for way in WAYS[:2] for control in ("imitation", "shuffled", BEFORE, *others)):
        if way != control and way in gained and control in gained:
            both = [gained[way][task] / gained[control][task] for task in gained[way] if task in gained[control]]
            yield f"{way} over {control}: {ends(both)}"


def _is(dtype: str) -> Any:
    return lambda row: row["dtype"] == dtype


if __name__ == "__main__":
    app()
