"""How well writing and judging overlap when many episodes run side by side: how busy each is, and what the overlap saves.

The judge is the real one, on honest kernels, each with a text of its own. Two generators can stand before it, and neither is a model
that writes those kernels: `delay` waits as long as a server would take, and a model (`embedded`, `random`, a folder) draws its own tokens,
as many as it is told to, for a prompt as an episode makes it; the prepared kernel then takes the place of what it drew.

    PYTHONPATH=src python3 benchmarks/overlap.py --device cpu
    PYTHONPATH=src python3 benchmarks/overlap.py --device cuda --generator random --at-once 64 --workers 4
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from figure import Device, Workers, launch, show, where
from generation import drawn
from pairs import KERNEL_TASKS, LANGUAGES, builtin, kernel

from bottega.agents.prompts import Prompts
from bottega.backbone.chat import Message, Sampling, TokenRequest, Usage
from bottega.backbone.client import Generation
from bottega.backbone.loading import load
from bottega.backbone.local import LocalBackbone
from bottega.core.candidate import Candidate
from bottega.core.task import Task
from bottega.core.verdict import Verdict
from bottega.episodes.context import EpisodeContext
from bottega.episodes.episode import run_episode
from bottega.episodes.journal import EpisodeJournal
from bottega.episodes.settings import EpisodeSettings
from bottega.episodes.stopping import Stopping
from bottega.judge.device_facts import device_facts
from bottega.judge.judge import Judge


@dataclass
class Clock:
    """When somebody was at work. Spans may overlap."""

    spans: list[tuple[float, float]] = field(default_factory=list)

    def timed(self, work: Callable[[], Any]) -> Any:
        begun = time.monotonic()
        try:
            return work()
        finally:
            self.spans.append((begun, time.monotonic()))

    @property
    def total(self) -> float:
        """As if one had come after the other."""
        return sum(end - begin for begin, end in self.spans)

    @property
    def busy(self) -> float:
        """Seconds in which at least one was under way."""
        return sum(end - begin for begin, end in joined(self.spans))


def joined(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    found: list[tuple[float, float]] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return found


def both(first: Clock, second: Clock) -> float:
    """Seconds in which both were at work."""
    pairs = ((a, b) for a in joined(first.spans) for b in joined(second.spans))
    return sum(max(0.0, min(a[1], b[1]) - max(a[0], b[0])) for a, b in pairs)


class Generator:
    """A `Client` whose answers take the time of a real generator and hold prepared kernels, each told apart by a number."""

    name, context = "prepared", 8192

    def __init__(self, language: str, backbone: LocalBackbone | None, tokens: int, delay: float, at_once: int) -> None:
        self.language, self.backbone, self.tokens, self.delay = language, backbone, tokens, delay
        self.places = asyncio.Semaphore(at_once)
        self.clock, self.count, self.drawn = Clock(), 0, 0

    def count_tokens(self, text: str) -> int:
        return len(self.backbone.tokenizer.encode(text)) if self.backbone else len(text) // 3

    async def generate(self, messages: Sequence[Message], sampling: Sampling) -> Generation:
        self.count += 1
        number, task = (
            self.count,
            next(name for name in sorted(KERNEL_TASKS, key=len) if MARK.format(name) in messages[-1].content),
        )
        spread = random.Random(number).uniform(0.5, 1.5)
        async with self.places:
            begun = time.monotonic()
            if self.backbone is None:
                await asyncio.sleep(self.delay * spread)
            else:
                asked = replace(sampling, max_tokens=int(self.tokens * spread))
                (found,) = await self.backbone.complete([TokenRequest(self._ids(messages), asked)])
                self.drawn += len(found.output_ids)
            self.clock.spans.append((begun, time.monotonic()))
        return Generation(f"One pass.\n```python\n{kernel(task, self.language, number).source}\n```", Usage(), "stop")

    def _ids(self, messages: Sequence[Message]) -> tuple[int, ...]:
        assert self.backbone is not None
        tokenizer = self.backbone.tokenizer
        if self.backbone.name.endswith("random"):  # its words are no words: a prompt of the usual length will do
            return tuple(random.Random(self.count).randrange(100, 40_000) for _ in range(800))
        return tuple(tokenizer.conversation(messages))[: tokenizer.context - 2 * self.tokens]

    async def close(self) -> None:
        if self.backbone is not None:
            await self.backbone.close()


MARK = "# task {} of the figure"


class TimedJudge:
    """The judge with a clock that runs while a verdict is made, not while it waits for its turn."""

    def __init__(self, judge: Judge) -> None:
        self.judge, self.clock, self.found = judge, Clock(), Counter[str]()
        self.pool = ThreadPoolExecutor(judge.workers)

    async def judge_async(self, task: Task, candidate: Candidate, **options: Any) -> Verdict:
        work = lambda: self.clock.timed(lambda: self.judge.judge(task, candidate, **options))  # noqa: E731
        verdict: Verdict = await asyncio.get_running_loop().run_in_executor(self.pool, work)
        self.found[verdict.outcome.value] += 1
        return verdict


class Memory:
    """The most that this process and all below it held at one time, shared pages counted once; looked at twice a second."""

    def __init__(self) -> None:
        self.peak, self._over = 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.5):
            self.peak = max(self.peak, sum(map(held, family(os.getpid()))))


def family(root: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents.setdefault(int(place.read_text().rpartition(")")[2].split()[1]), []).append(int(place.parent.name))
        except (OSError, ValueError, IndexError):
            continue
    found = [root]
    for process in found:
        found += parents.get(process, [])
    return found


def held(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def main(
    device: Device = "cpu",
    generator: Annotated[
        str, typer.Option(help="delay, embedded, random (SmolLM2-135M's shape), or a model's folder.")
    ] = "delay",
    episodes: Annotated[int, typer.Option(min=1, help="Side by side.")] = 64,
    turns: Annotated[int, typer.Option(min=1, help="Kernels of each, one after the other.")] = 1,
    workers: Workers = 1,
    at_once: Annotated[
        int, typer.Option(min=1, help="Answers drawn at a time: a server's concurrency, or a model's slots.")
    ] = 8,
    delay: Annotated[float, typer.Option(help="Seconds of an answer where nothing is drawn; they spread by half.")] = 20.0,
    tokens: Annotated[int, typer.Option(help="Of an answer where a model draws; they spread by half.")] = 0,
    raw: Annotated[Path | None, typer.Option("--json", help="Keep the numbers in this file.")] = None,
) -> None:
    language = LANGUAGES[device.partition(":")[0]][0]
    tokens = tokens or (48 if device == "cpu" else 768)
    backbone = None
    if generator != "delay":
        backbone = LocalBackbone(drawn(device) if generator == "random" else load(generator, device=device), slots=at_once)
        asyncio.run(backbone.warm_up())
    settings = EpisodeSettings(device=device, language=language, turns=turns, samples=1, schemes=0, select="none", stopping=Stopping(roofline=0))  # type: ignore[arg-type]  # fmt: skip
    if device != "cpu":
        torch.cuda.reset_peak_memory_stats()
    with Judge(device, workers=workers, quick=True) as judge, tempfile.TemporaryDirectory() as folder, Memory() as memory:
        tasks = [builtin(name, device) for name in KERNEL_TASKS]
        marked = [replace(task, source=f"{task.source.rstrip()}\n\n{MARK.format(task.name)}\n") for task in tasks]
        for task in marked:  # brought up before the clock starts, as in training
            judge.judge(task, kernel(task.name, language, -1))
        client, timed = Generator(language, backbone, tokens, delay, at_once), TimedJudge(judge)
        with EpisodeJournal(Path(folder)) as journal:
            context = EpisodeContext(client, timed, None, Prompts("compact"), device_facts(device), journal)
            begun = time.monotonic()
            try:
                asyncio.run(_all(context, marked, settings, episodes))
            except KeyboardInterrupt:
                print("interrupted: what follows is what there was", file=sys.stderr)
            wall = time.monotonic() - begun
            timed.pool.shutdown(wait=False, cancel_futures=True)
            # told before the judge is closed, which takes its time where a verdict is under way
            report(
                device,
                generator,
                client,
                timed,
                wall,
                memory.peak,
                raw,
                {"episodes": episodes, "turns": turns, "workers": workers, "at_once": at_once},
            )


async def _all(context: EpisodeContext, tasks: Sequence[Task], settings: EpisodeSettings, count: int) -> None:
    work = (run_episode(context, tasks[number % len(tasks)], settings, f"episode-{number}") for number in range(count))
    for episode in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(episode, BaseException):
            print(f"an episode ended in {type(episode).__name__}: {episode}", file=sys.stderr)
    await context.client.close()


def report(
    device: str, generator: str, client: Generator, timed: TimedJudge, wall: float, peak: int, raw: Path | None,
    settings: dict[str, Any],
) -> None:  # fmt: skip
    writing, judging, together = client.clock, timed.clock, both(client.clock, timed.clock)
    what = (
        f"a wait of {client.delay:g} s ± half"
        if client.backbone is None
        else f"{client.backbone.name}, {client.backbone.engine}"
    )
    summary = {
        "wall_s": wall,
        "generator_busy": writing.busy / wall,
        "judge_busy": judging.busy / wall,
        "both_busy": together / wall,
        "one_after_the_other_s": writing.busy + judging.busy,
        "judge_s": judging.total,
        "peak_bytes": peak,
        "tokens": client.drawn,
    }
    rows = [
        ["wall", f"{wall:.1f} s"],
        ["generator at work", f"{writing.busy:.1f} s, {summary['generator_busy']:.0%} of the wall"],
        ["judge at work", f"{judging.busy:.1f} s, {summary['judge_busy']:.0%}"],
        ["both at work", f"{together:.1f} s, {summary['both_busy']:.0%}"],
        ["first all answers, then all verdicts", f"{summary['one_after_the_other_s']:.1f} s, {summary['one_after_the_other_s'] / wall:.2f} walls"],
        ["a verdict", f"{judging.total / max(len(judging.spans), 1):.2f} s, {60 * len(judging.spans) / wall:.0f} a minute"],
        ["memory, all processes", f"{peak / 2**30:.2f} GiB"],
    ]  # fmt: skip
    if client.backbone is None:
        serial = writing.total + judging.total
        rows.insert(5, ["one episode after the other", f"{serial:.0f} s, {serial / wall:.1f} walls"])
    if client.drawn:
        rows.append(["tokens", f"{client.drawn}, {client.drawn / max(writing.busy, 1e-9):,.0f}/s while it is at work"])
    if device != "cpu":
        rows.append(["memory of this process on the GPU", f"{torch.cuda.max_memory_allocated() / 2**30:.2f} GiB"])
    outcomes = ", ".join(f"{count} {word}" for word, count in timed.found.items())
    remarks = [
        where(device),
        f"generator: {what}, {settings['at_once']} at a time; the kernels are prepared. Verdicts: {outcomes}",
    ]
    title = (
        f"{settings['episodes']} episodes of {settings['turns']} turns side by side on {device}, {settings['workers']} workers"
    )
    show(title, ("", ""), rows, remarks)
    if raw:
        raw.write_text(
            json.dumps({"figure": "overlap", "where": where(device), **settings, **summary, "outcomes": timed.found}, indent=1)
            + "\n"
        )


if __name__ == "__main__":
    launch(main)
