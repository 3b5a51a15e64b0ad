"""The same kernels through our judge and through the plain loop that everyone uses: verdicts a minute, and what each gets wrong.

Kernels: honest ones (`tests/honest`), attacks that are safe to run beside an evaluator (a list by name; each runs in a sandbox all the
same, and the plain loop with it), and kernels of known speed. An attack is *called faster* by the judge when that is the outcome, by
the loop when it passes its comparisons and the quotient of means is above 1.05. A known ratio is *missed* when the point is off by
more than 3 %.

    PYTHONPATH=src python3 benchmarks/peer_evaluators.py --device cuda --workers 8
    PYTHONPATH=src python3 benchmarks/peer_evaluators.py --device cpu --count 3 --seconds 120
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from figure import Device, launch, percentile, show, spread, where
from known_ratios import CONTRACT, CPP, CUDA, RATIOS, STEPS, filled

from bottega.core.candidate import Candidate
from bottega.core.errors import BottegaError, UsageError
from bottega.core.task import Task
from bottega.judge.device_facts import is_here
from bottega.judge.judge import Judge
from bottega.languages import candidate_from
from bottega.sandbox.fork_server import ForkServer, Limits

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "tests"))

from corpus import ACCEPTED, Specimen, specimens  # noqa: E402

FASTER_ABOVE = 1.05
OFF_BY = 0.03
NUMERICS = "computes something else or less of it, in plain arithmetic"
REPLAY = "remembers answers within its own process"
PUT_OFF = "puts work off to a thread or a stream of its own that ends by itself"
PATCHES = "changes names of its own interpreter, which ends with the kernel"
SAFE = {
    **dict.fromkeys(
        ("assume_unit_gain", "assume_zero_bias", "bf16_downgrade", "cheaper_activation", "constant_output", "decoy_never_called",
         "decoy_on_one_element", "decoy_triton_kernel", "expanded_row", "fp16_tensor_cores", "half_precision_weights",
         "identity_on_nonnegative", "inherit_the_reference", "library_only", "low_precision_flag", "narrower_dtype", "partial_mean",
         "pass_through_when_nonnegative", "skip_the_compensation", "textbook_variance", "tf32_flag", "tf32_rounding", "triton_tf32_dot",
         "unwritten_tail", "zeros_under_tolerance"),
        NUMERICS,
    ),
    **dict.fromkeys(
        ("batch_and_skip", "cheat_now_and_then", "graph_with_stale_pointers", "hard_coded_seed", "precise_until_timed", "replay_by_content",
         "replay_by_identity", "replay_by_pointer", "replay_by_shape", "replay_last_call", "skip_after_warm_up", "stale_memory"),
        REPLAY,
    ),
    **dict.fromkeys(
        ("deferred_copy", "driver_side_stream", "late_kernel", "lazy_container", "lazy_tensor_subclass", "short_side_stream",
         "side_stream_not_joined", "thread_finishes_late", "thread_launches_late", "leave_another_stream_current"),
        PUT_OFF,
    ),
    **dict.fromkeys(
        ("global_flags", "override_tensor_methods", "patch_perf_counter", "patch_statistics", "patched_comparator",
         "patched_events_and_synchronize", "patched_manual_seed", "read_expected_from_frames", "zero_the_inputs"),
        PATCHES,
    ),
}  # fmt: skip
"""Attacks that may run beside an evaluator, with the reason. Left out by not being named: whatever deletes or fills files, forks, kills, fills
memory, scans other processes, or breaks a device; and whatever speaks to a part that only our judge has."""


@dataclass(frozen=True)
class Kernel:
    group: str
    """`honest`, `attack`, `wrong` (an attack that must be found incorrect) or `ratio`."""
    name: str
    task: Task
    candidate: Candidate
    truth: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of our judge, as the file's header asks for, such as a share of the work that kernels must do."""


@dataclass(frozen=True)
class Finding:
    kernel: str
    group: str
    accepted: bool
    """Called right (and honest, where the evaluator knows such a thing)."""
    faster: bool
    point: float | None
    truth: float | None
    seconds: float
    said: str

    @property
    def missed(self) -> bool:
        """Of a known ratio: no figure, or one that is off."""
        return self.truth is not None and (self.point is None or abs(self.point / self.truth - 1) > OFF_BY)


def main(
    device: Device = "cpu",
    count: Annotated[int, typer.Option(min=1, help="Kernels of each group at most; attacks twice as many.")] = 12,
    workers: Annotated[
        int, typer.Option(min=1, help="Of our judge, which times one at a time; the loop has the device alone.")
    ] = 1,
    seconds: Annotated[float, typer.Option(min=1, help="Begin no further kernel after so long, for each evaluator.")] = 240.0,
    timeout: Annotated[float, typer.Option(min=1, help="Of one kernel.")] = 60.0,
    quick: Annotated[bool, typer.Option("--quick/--full", help="Our judge's mode.")] = True,
) -> None:
    if not is_here(device):
        raise UsageError(f"--device {device}: no NVIDIA GPU is visible here; use --device cpu")
    kernels = chosen_kernels(device.partition(":")[0], count)
    loop, loop_seconds = plain_loop(kernels, device, seconds, timeout)
    ours, our_seconds = judged(kernels, device, workers, seconds, timeout, quick)
    _told(device, {"our judge": (ours, our_seconds), "plain loop": (loop, loop_seconds)}, len(kernels), workers, quick)


def chosen_kernels(kind: str, count: int) -> list[Kernel]:
    """Group by group in turn, so that an evaluator that is stopped early has seen of each."""
    honest = [_of("honest", each) for each in spread(specimens(f"honest/{kind}"), count)]
    safe = [each for each in specimens(f"attacks/{kind}") if each.id in SAFE and not each.placeholders]
    attacks = [
        _of("attack" if each.expect & ACCEPTED or "rejected" in each.expect else "wrong", each)
        for each in spread(safe, 2 * count)
    ]
    template, steps = (CPP, STEPS["cpu"]) if kind == "cpu" else (CUDA, STEPS["cuda"])
    task = Task(filled(template, "Model", steps) + CONTRACT, name="passing_time", origin="known ratios")
    ratios = []
    for place in range(count):
        mine = round(steps * RATIOS[place % len(RATIOS)])
        text = filled(template, "ModelNew", mine) + f"\n# {place}\n"
        ratios.append(Kernel("ratio", f"{RATIOS[place % len(RATIOS)]:g}", task, candidate_from(text), steps / mine))
    queues = [honest, attacks[::2], attacks[1::2], ratios]
    return [queue[place] for place in range(max(map(len, queues))) for queue in queues if place < len(queue)]


def judged(
    kernels: list[Kernel], device: str, workers: int, seconds: float, timeout: float, quick: bool
) -> tuple[list[Finding], float]:
    found: list[Finding] = []
    begun = time.monotonic()
    with Judge(device, workers=workers, quick=quick, timeout=timeout) as judge, ThreadPoolExecutor(workers) as pool:

        def judge_one(kernel: Kernel) -> Finding | None:
            if time.monotonic() - begun > seconds:
                return None
            started = time.monotonic()
            try:
                verdict = judge.judge(kernel.task, kernel.candidate, **kernel.options)
            except BottegaError as error:
                return Finding(
                    kernel.name,
                    kernel.group,
                    False,
                    False,
                    None,
                    kernel.truth,
                    time.monotonic() - started,
                    f"no verdict: {error}",
                )
            point = verdict.speedup["eager"].point if "eager" in verdict.speedup else None
            said = ", ".join([verdict.outcome.value, *(violation.name for violation in verdict.violations)])
            return Finding(
                kernel.name, kernel.group, verdict.outcome.accepted, verdict.outcome.value == "faster", point, kernel.truth,
                time.monotonic() - started, said,
            )  # fmt: skip

        for future in as_completed([pool.submit(judge_one, kernel) for kernel in kernels]):
            finding = future.result()
            if finding is not None:
                found.append(finding)
                _progress("our judge", found, len(kernels))
        took = time.monotonic() - begun
    return found, took


def plain_loop(kernels: list[Kernel], device: str, seconds: float, timeout: float) -> tuple[list[Finding], float]:
    """One kernel after the other, each in a fresh process inside a sandbox of its own."""
    found: list[Finding] = []
    kind, _, index = device.partition(":")
    environment = {"PYTHONPATH": str(HERE), "CUDA_VISIBLE_DEVICES": "" if kind == "cpu" else index or "0"}
    with ForkServer(device=kind, environment=environment, extra_readonly=(str(HERE),), preload=("numpy", "torch")) as server:
        server.start()
        begun = time.monotonic()
        for kernel in kernels:
            if time.monotonic() - begun > seconds:
                break
            started = time.monotonic()
            told = in_a_sandbox(server, kernel, kind, timeout)
            point = told.get("speedup")
            right = told.get("correct") is True
            faster = right and point is not None and point > FASTER_ABOVE
            said = "right" if right else str(told.get("error") or "wrong")
            found.append(
                Finding(kernel.name, kernel.group, right, faster, point, kernel.truth, time.monotonic() - started, said)
            )
            _progress("plain loop", found, len(kernels))
        took = time.monotonic() - begun
    return found, took


def in_a_sandbox(server: ForkServer, kernel: Kernel, kind: str, timeout: float) -> dict[str, Any]:
    """What the loop says of a kernel. Whoever shares its process may have said it instead."""
    reading, writing = os.pipe()
    try:
        try:
            job = {"task": kernel.task.source, "candidate": kernel.candidate.source, "device": kind, "timeout": timeout}
            limits = Limits(memory_bytes=12 << 30, scratch_bytes=1 << 30, processes=512)
            sandbox = server.spawn("plain_loop:in_sandbox", fds=[writing], arguments=job, limits=limits)
        finally:
            os.close(writing)
        ended = sandbox.wait(timeout + 15)
        sandbox.kill()
        sandbox.control.close()
        os.set_blocking(reading, False)
        try:
            told = json.loads(os.read(reading, 1 << 16))
            return told if isinstance(told, dict) else {"error": "no report"}
        except (OSError, ValueError):
            last = [line for line in (ended.output if ended else "").splitlines() if line.strip()][-1:]
            return {
                "error": "timeout"
                if ended is None or "TimeoutExpired" in (last or [""])[0]
                else f"died: {(last or [''])[0][:200]}"
            }
    finally:
        os.close(reading)


def mistakes(found: list[Finding]) -> dict[str, tuple[list[Finding], int]]:
    """What was got wrong, by kind, and of how many."""
    attacks = [each for each in found if each.group in ("attack", "wrong")]
    wrong, honest, ratios = ([each for each in found if each.group == group] for group in ("wrong", "honest", "ratio"))
    return {
        "attacks called faster": ([each for each in attacks if each.faster], len(attacks)),
        "wrong kernels called right": ([each for each in wrong if each.accepted], len(wrong)),
        "honest kernels refused": ([each for each in honest if not each.accepted], len(honest)),
        "known ratios missed": ([each for each in ratios if each.missed], len(ratios)),
    }


def _of(group: str, specimen: Specimen) -> Kernel:
    return Kernel(group, specimen.id, specimen.task, specimen.candidate(), options=specimen.options)


def _progress(who: str, found: list[Finding], count: int) -> None:
    last = found[-1]
    point = "" if last.point is None else f" {last.point:.3f}"
    print(
        f"[{who} {len(found)}/{count}] {last.group} {last.kernel}: {last.said[:120]}{point} ({last.seconds:.1f} s)",
        file=sys.stderr,
        flush=True,
    )


def _told(device: str, by: dict[str, tuple[list[Finding], float]], count: int, workers: int, quick: bool) -> None:
    rows = [
        ["verdicts a minute", *(f"{60 * len(found) / max(took, 1e-9):.1f}" for found, took in by.values())],
        ["seconds a verdict, p50", *(f"{percentile([each.seconds for each in found], 0.5):.2f}" for found, _ in by.values())],
        ["kernels seen", *(f"{len(found)} of {count}" for found, _ in by.values())],
    ]
    counted = {who: mistakes(found) for who, (found, _) in by.items()}
    for kind in next(iter(counted.values())):
        rows.append([kind, *(f"{len(counted[who][kind][0])} of {counted[who][kind][1]}" for who in by)])
    remarks = [where(device), f"our judge: {'quick' if quick else 'full'}, {workers} workers; the loop: one at a time"]
    for who, kinds in counted.items():
        for kind, (found, _) in kinds.items():
            if found:
                names = ", ".join(each.kernel + (f" {each.point:.2f}" if each.point is not None else "") for each in found[:24])
                remarks.append(f"{who}, {kind}: {names}")
    show(f"the same kernels, two evaluators, on {device}", ("", *by), rows, remarks)


if __name__ == "__main__":
    launch(main)
