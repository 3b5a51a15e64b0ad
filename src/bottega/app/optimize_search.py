"""A search in a thread with an event loop of its own, so that a script, a notebook or another search may start it; and what it left, opened again."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bottega.app.display import display_for
from bottega.app.optimize_display import OptimizeProgress
from bottega.app.optimize_run import request_for, run_request
from bottega.app.settings.optimize import OptimizeSettings
from bottega.episodes.delivery.check import ClaimCheck, compared, open_result
from bottega.episodes.delivery.result import OPTIMIZED, Result
from bottega.judge.judge import Judge
from bottega.tasks.module import ModuleTask

if TYPE_CHECKING:
    from bottega.episodes.optimise import OptimizeFinished


def search(subject: ModuleTask, folder: Path, settings: OptimizeSettings) -> OptimizeFinished:
    """The search in a thread; Ctrl-C ends it with the best so far, a second time at once."""
    from bottega.episodes.optimise import Stop

    request = request_for(settings, subject)
    display = display_for(
        OptimizeProgress(request.caps, request.settings.baseline), f"optimizing {subject.title}", settings.quiet
    )
    done: list[OptimizeFinished | None] = []
    failed: list[BaseException] = []
    started = threading.Event()
    running: list[tuple[asyncio.AbstractEventLoop, Stop]] = []

    async def work() -> None:
        stop = Stop()
        running.append((asyncio.get_running_loop(), stop))
        started.set()
        done.append(await run_request(request, folder, settings, display, stop))

    def run() -> None:
        try:
            asyncio.run(work())
        except BaseException as error:
            failed.append(error)
            started.set()

    with script_left_alone():
        thread = threading.Thread(target=run, name="bottega.optimize")
        thread.start()
        started.wait()
        while thread.is_alive():
            try:
                thread.join(0.2)
            except KeyboardInterrupt:
                for loop, stop in running:
                    loop.call_soon_threadsafe(stop.ring)
    if failed:
        raise failed[0]
    if not done or done[0] is None:
        raise KeyboardInterrupt
    return done[0]


@contextlib.contextmanager
def script_left_alone() -> Iterator[None]:
    """Processes that multiprocessing starts would import the user's script, and run it once more: here they do not know it."""
    main = sys.modules["__main__"]
    kept: dict[str, Any] = {name: main.__dict__.pop(name) for name in ("__file__", "__spec__") if name in main.__dict__}
    main.__dict__["__spec__"] = None
    try:
        yield
    finally:
        main.__dict__.update(kept)


def loaded(folder: Path, result: Result) -> Any:
    """The delivered file's `load`. It is imported under a name of its own, so that what it makes can be pickled."""
    name = f"bottega_optimized_{result.files[OPTIMIZED][:16]}"
    spec = importlib.util.spec_from_file_location(name, folder / OPTIMIZED)
    assert spec is not None and spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, result.load)


def check(folder: Path, result: Result) -> ClaimCheck:
    """Judge a finished result again, from its files alone."""
    opened = open_result(folder)
    judging: dict[str, Any] = {"precision": result.precision, "training": result.training}
    with Judge(result.device, baselines=tuple(result.baselines), **judging) as judge:
        return compared(opened, judge.judge(opened.subject.task, opened.candidate), result.device)
