"""RL steps on 8, 64 and 512 GPUs, simulated: where it stops scaling, and what would help.

    PYTHONPATH=src python3 benchmarks/cluster_simulation.py
    PYTHONPATH=src python3 benchmarks/cluster_simulation.py --model 8B --gpus 8,64,512 --tasks-per-gpu 2

An event simulation of one step: every rollout is a row of turns, each drawn by a server and judged by a judge, through one driver that writes
prompts and reads answers; then the trainer. The times are in cluster_simulation_times.json, each with its source: measured, by arithmetic, or
assumed. The batch grows with the GPUs (weak scaling), since a step of 16 tasks cannot fill 512. GPUs are split among servers, judges and trainer in
the way that comes out best. Left out: failures, the summariser and its gate, checkpoints, and that the answers to a task share their prompt.
"""

from __future__ import annotations

import heapq
import itertools
import json
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

TIMES = json.loads(Path(__file__).with_name("cluster_simulation_times.json").read_text(encoding="utf-8"))
CHUNK = 128
"""Tokens after which a server's load is looked at again."""
LARGE = 64
NODE = 8
"""GPUs of a machine."""


@dataclass(frozen=True)
class Cluster:
    model: str
    servers: int
    judges: int
    trainers: int
    drivers: int = 1
    ahead: bool = False
    """`rollout.staleness` = 1: the next step is drawn while this one is learned."""

    @property
    def gpus(self) -> int:
        return self.servers + self.judges + self.trainers


@dataclass(frozen=True)
class Step:
    rollout_s: float
    train_s: float
    sync_s: float
    deal_s: float
    busy: dict[str, float]
    """Share of the rollouts' time in which servers, judges and the driver worked."""
    answers: int
    ahead: bool

    @property
    def learn_s(self) -> float:
        return self.train_s + self.deal_s

    @property
    def seconds(self) -> float:
        return (max(self.rollout_s, self.learn_s) if self.ahead else self.rollout_s + self.learn_s) + self.sync_s


def simulate(cluster: Cluster, tasks: int, rollouts: int, turns: int, seed: int = 0) -> Step:
    """One step of `tasks` tasks, `rollouts` rollouts of each, one after the other `turns` times."""
    source = random.Random(seed)
    generation, verdict, answer = TIMES["generation"][cluster.model], TIMES["verdict"], TIMES["answer"]
    slots = cluster.judges * verdict["workers"]
    driver_free = [0.0] * cluster.drivers
    device_free = [0.0] * cluster.judges
    load = [0] * cluster.servers
    judged_by = [0.0] * slots
    heapq.heapify(judged_by)
    worked = dict.fromkeys(("servers", "judges", "driver"), 0.0)
    tokens = 0
    count = itertools.count()
    events: list[tuple[float, int, Callable[[float], None]]] = []

    def at(moment: float, do: Callable[[float], None]) -> None:
        heapq.heappush(events, (moment, next(count), do))

    def driven(now: float, seconds: float) -> float:
        """Python of the driver, one thing at a time."""
        number = min(range(len(driver_free)), key=driver_free.__getitem__)
        driver_free[number] = max(now, driver_free[number]) + seconds
        worked["driver"] += seconds
        return driver_free[number]

    def ask(turn: int) -> Callable[[float], None]:
        def begin(now: float) -> None:
            nonlocal tokens
            length = min(math.ceil(answer["tokens"] * source.lognormvariate(0, answer["spread"])), answer["most"])
            tokens += answer["prompt_tokens"] + length
            server = min(range(cluster.servers), key=load.__getitem__)
            load[server] += 1
            at(driven(now, TIMES["driver_answer_s"]["value"] / 2), draw(server, length, turn))

        return begin

    def draw(server: int, left: int, turn: int) -> Callable[[float], None]:
        def go_on(now: float) -> None:
            if left <= 0:
                load[server] -= 1
                at(driven(now, TIMES["driver_answer_s"]["value"] / 2), judge(turn))
                return
            part = min(left, CHUNK)
            took = part * (generation["step_s"] + load[server] * generation["row_s"])
            worked["servers"] += took / max(1, load[server])
            at(now + took, draw(server, left - part, turn))

        return go_on

    def judge(turn: int) -> Callable[[float], None]:
        def begin(now: float) -> None:
            begun = max(now, heapq.heappop(judged_by)) + TIMES["ray_verdict_s"]["value"]
            lost = source.random() < TIMES["lost_to_timeouts"]["share"]
            took = (
                TIMES["lost_to_timeouts"]["seconds"]
                if lost
                else verdict["median_s"] * source.lognormvariate(0, verdict["spread"])
            )
            device = min(range(cluster.judges), key=device_free.__getitem__)
            device_free[device] = max(begun, device_free[device]) + verdict["device_s"]
            done = max(begun + took, device_free[device])
            worked["judges"] += done - begun
            heapq.heappush(judged_by, done)
            if turn + 1 < turns:
                at(done, ask(turn + 1))
            else:
                at(done, lambda now: None)

        return begin

    for _ in range(tasks * rollouts):
        at(0.0, ask(0))
    now = 0.0
    while events:
        now, _, do = heapq.heappop(events)
        do(now)
    busy = {
        "servers": worked["servers"] / now / cluster.servers,
        "judges": worked["judges"] / now / slots,
        "driver": worked["driver"] / now / cluster.drivers,
    }
    return Step(now, *learned(cluster, tokens), busy, tasks * rollouts * turns, cluster.ahead)


def learned(cluster: Cluster, tokens: int) -> tuple[float, float, float]:
    """Seconds of the update, of bringing servers the weights, and of dealing packs out to the ranks."""
    links, size = TIMES["links"], TIMES["weights"][cluster.model]["gigabytes"]
    rate = links["node_gb_s"] if cluster.trainers <= NODE else links["fabric_gb_s"]
    compute = tokens / TIMES["training"][cluster.model]["tokens_s"] / cluster.trainers
    packs = max(1, math.ceil(tokens / 16384 / cluster.trainers))
    gather = 0.0 if cluster.trainers == 1 else packs * 4 * size / rate  # forward, recompute, backward, and gradients in fp32
    spread = size / (links["node_gb_s"] if cluster.gpus <= NODE else links["fabric_gb_s"])
    deal = (
        tokens * 36e-9 / links["objects_gb_s"] if cluster.trainers > 1 else 0.0
    )  # ids and streams of all packs go to every rank
    return max(compute, gather), spread, deal


def splits(gpus: int) -> Iterator[tuple[int, int, int]]:
    """(servers, judges, trainers), in eighths of the cluster."""
    unit = max(1, gpus // 8)
    for trainers in range(1, 7):
        for judges in range(1, 8 - trainers):
            yield (8 - trainers - judges) * unit, judges * unit, trainers * unit


def best(model: str, gpus: int, tasks: int, rollouts: int, turns: int, **how: Any) -> tuple[Cluster, Step]:
    """The quickest split; of large clusters it is looked for on a smaller one, with as many tasks for each GPU."""
    scale = max(1, gpus // LARGE)
    found: dict[tuple[int, int, int], float] = {}
    for split in splits(gpus // scale):
        found[split] = simulate(Cluster(model, *split, **how), tasks // scale, rollouts, turns).seconds
    servers, judges, trainers = (scale * each for each in min(found, key=found.__getitem__))
    cluster = Cluster(model, servers, judges, trainers, **how)
    return cluster, simulate(cluster, tasks, rollouts, turns)


WAYS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "rollouts ahead": {"ahead": True},
    "rollouts ahead, a driver for each node": {"ahead": True, "drivers": 0},
}


def main(
    model: Annotated[str, typer.Option(help="135M or 8B.")] = "8B",
    gpus: Annotated[str, typer.Option(help="Sizes of clusters, by comma.")] = "8,64,512",
    tasks_per_gpu: Annotated[float, typer.Option(help="Of a step: the batch grows with the cluster.")] = 2.0,
    rollouts: Annotated[int, typer.Option(help="Of a task.")] = 16,
    turns: int = 3,
) -> None:
    sizes = [int(each) for each in gpus.split(",")]
    columns = [
        "way",
        "GPUs",
        "servers, judges, trainers",
        "s a step",
        "answers/s",
        "of linear",
        "rollouts s",
        "update s",
        "deal s",
        "weights s",
    ]
    print("| " + " | ".join([*columns, "servers", "judges", "driver"]) + " |")
    print("|---|---:|---|" + "---:|" * 10)
    for name, how in WAYS.items():
        first = 0.0
        for size in sizes:
            options = {**how, "drivers": max(1, size // NODE)} if how.get("drivers") == 0 else how
            cluster, step = best(model, size, round(tasks_per_gpu * size), rollouts, turns, **options)
            rate = step.answers / step.seconds
            first = first or rate / size
            busy = " | ".join(f"{step.busy[part]:.0%}" for part in ("servers", "judges", "driver"))
            print(
                f"| {name} | {size} | {cluster.servers}, {cluster.judges}, {cluster.trainers} | {step.seconds:.0f} | {rate:.1f} | "
                f"{rate / size / first:.0%} | {step.rollout_s:.0f} | {step.train_s:.1f} | {step.deal_s:.1f} | {step.sync_s:.2f} | {busy} |",
                flush=True,
            )


if __name__ == "__main__":
    typer.run(main)
