"""The modules of a whole model, or of a captured program, that are worth a search: one for each kind, the costliest first, while time allows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bottega.app.optimize_run import search
from bottega.app.settings.optimize import OptimizeSettings
from bottega.core.errors import BottegaError
from bottega.episodes.delivery.result import FILE as RESULT
from bottega.episodes.delivery.result import Result, read_result
from bottega.tasks.capture_calls import CapturedCall, shortened
from bottega.tasks.module import ModuleTask, Wanted, open_module

LARGEST_PARTS = 120
"""Modules in one that is searched as a whole: a larger one is searched by its parts."""
STACK_SHARE = 0.8
"""Of a module's time in layers of one kind: then it is these that are searched, once, and not all of them in one."""
LEAST_SHARE = 0.02
FINAL_SHARE, LONGEST_FINAL_S = 1 / 3, 30.0
"""Of a search's time is left to the last verdicts on what it found."""
LATEST_S = 60.0
"""For which these may go on when the time is over."""
LEAST_S = 90.0
"""What a search is taken to need before one is over: processes start, baselines compile, drafts are judged."""


@dataclass(frozen=True)
class Searched:
    """One search of several."""

    call: CapturedCall
    result: Result | None
    folder: Path
    error: str = ""
    interrupted: bool = False
    """Then no further search begins."""

    @property
    def text(self) -> str:
        return f"{_shown(self.call)}: {self.outcome}"

    @property
    def outcome(self) -> str:
        if self.result is None:
            return self.error
        claims = ", ".join(f"{claim.point:.2f}× {name}" for name, claim in self.result.claim.items())
        return claims or (self.result.missed if self.result.attempts else self.result.ended)


@dataclass
class SharedMinutes:
    """Time that several searches share: spent on as many as it is enough for, and what one leaves the next ones have."""

    minutes: float | None
    clock: Callable[[], float] = time.monotonic
    begun: float = field(init=False)
    _whole: float = math.inf
    """The shortest search that ended by itself."""
    _cut: float = 0.0
    """The longest time that was not enough for one."""

    def __post_init__(self) -> None:
        self.begun = self.clock()

    @property
    def left(self) -> float:
        """Seconds."""
        return math.inf if self.minutes is None else self.minutes * 60 - (self.clock() - self.begun)

    @property
    def needed(self) -> float:
        """Seconds of one search, as far as is known."""
        return max(self._cut, self._whole if self._whole < math.inf else LEAST_S)

    def share(self, searches: int, first: bool) -> float | None:
        """Seconds for the next of so many; None where there are too few for one. The first has what there is."""
        enough_for = min(searches, max(1, int(self.left // self.needed))) if self.left < math.inf else 1
        least = min(self.needed, LEAST_S)  # what was cut off may have been the largest: time that is left is for the next one
        return self.left / enough_for if self.left > 0 and (first or self.left >= least) else None

    def spent(self, seconds: float, given: float) -> None:
        if seconds < given:
            self._whole = min(self._whole, seconds)
        else:
            self._cut = max(self._cut, given)

    def wanted(self, searches: int) -> int:
        """`minutes` that would have been enough for so many more."""
        return math.ceil((self.clock() - self.begun + searches * self.needed) / 60)


def search_costliest(
    calls: Sequence[CapturedCall],
    folder: Path,
    settings: OptimizeSettings,
    say: Callable[[str], None],
    roots: Collection[str] = (),
    source: Path | None = None,
) -> Iterator[Searched]:
    """A search for each kind of call that is worth one; one that cannot be judged, or that the compiler has no draft for, is not counted. It ends
    when `minutes` are over, or at most `LATEST_S` after that. What stands inside of a module that was found is left out, and so are the `roots`: they
    are measured, not searched. What there is no time for comes last, with what would be enough."""
    total = max((call.seconds for call in calls), default=0.0)
    found = set[str]()
    for call in calls if settings.resume else ():  # whatever the times of this capture make of them
        if (earlier := _earlier(call, folder)) is not None and not is_inside(call, found, calls):
            found.add(call.key)
            say(earlier.text)
            yield earlier
    worth = [
        call for call in calls
        if call.searchable and call.key not in roots and call.parts <= LARGEST_PARTS and call.light_seconds > LEAST_SHARE * total
        and not _is_stack(call, calls) and call.key not in found and not is_inside(call, found, calls)
    ]  # fmt: skip
    time_there_is, tried, first, interrupted = SharedMinutes(settings.minutes), len(found), True, False
    while worth and tried < settings.modules:
        seconds = time_there_is.share(min(len(worth), settings.modules - tried), first)
        if seconds is None:
            break
        first = False
        call = worth.pop(0)
        tried += 1
        say(f"{_shown(call)}: {call.count} calls, {_share(call, total)}")
        begun = time_there_is.clock()
        searched = _searched(call, folder, settings, None if math.isinf(seconds) else seconds, source or folder)
        if searched.result is None or not searched.result.attempts:  # which tells nothing of what a search needs
            tried -= 1
        else:
            time_there_is.spent(time_there_is.clock() - begun, seconds)
        say(searched.text)
        if searched.result is not None and searched.result.outcome == "faster":
            found.add(call.key)
            worth = [other for other in worth if not is_inside(other, found, calls)]
        yield searched
        if interrupted := searched.interrupted:
            break
    in_time = worth[: max(0, settings.modules - tried)]
    for call in worth:
        if call not in in_time:
            more = f"modules={settings.modules + len(worth)} would take it in"
        elif interrupted:
            more = "--resume goes on with it"
        else:
            more = f"minutes={time_there_is.wanted(len(in_time))} would take it in"
        left_out = Searched(call, None, _place(folder, call), f"not searched ({_share(call, total)}); {more}")
        say(left_out.text)
        yield left_out


def _searched(call: CapturedCall, folder: Path, settings: OptimizeSettings, seconds: float | None, source: Path) -> Searched:
    place = _place(folder, call)
    final = 0.0 if seconds is None else min(LONGEST_FINAL_S, seconds * FINAL_SHARE)
    minutes = None if seconds is None else (seconds - final) / 60
    own = settings.model_copy(update={"minutes": minutes, "resume": (place / "events.jsonl").exists()})
    try:
        opened = open_module(str(source / call.task), Wanted())
        finished = search(
            ModuleTask(opened.original, opened.task, call.name), place, own, None if seconds is None else final + LATEST_S
        )
        return Searched(call, finished.result, place, interrupted=finished.interrupted)
    except BottegaError as error:
        return Searched(call, None, place, str(error))
    except KeyboardInterrupt:
        return Searched(call, None, place, "interrupted before there was anything to report", interrupted=True)


def _earlier(call: CapturedCall, folder: Path) -> Searched | None:
    """What an earlier session has found for it."""
    place = _place(folder, call)
    if not (place / RESULT).exists():
        return None
    try:
        result = read_result(place)
    except BottegaError:  # of another version, or cut off
        return None
    return Searched(call, result, place) if result.outcome == "faster" else None


def _place(folder: Path, call: CapturedCall) -> Path:
    return folder / "modules" / f"{call.name}_{call.key}"


def _shown(call: CapturedCall) -> str:
    return f"{call.name}({shortened(call.shapes)})"


def _share(call: CapturedCall, total: float) -> str:
    return f"{call.light_seconds / total:.0%} of the time outside of what the library does well"


def _is_stack(call: CapturedCall, calls: Sequence[CapturedCall]) -> bool:
    """Whether it only calls layers one after the other."""
    return any(
        call.key in layer.inside
        and layer.searchable
        and layer.parts > 1
        and layer.count > call.count
        and layer.light_seconds > STACK_SHARE * call.light_seconds
        for layer in calls
    )


def is_inside(call: CapturedCall, found: Collection[str], calls: Sequence[CapturedCall]) -> bool:
    """Whether all that call it are found already, or inside of what is. The shape that a layer is called with while it reads a text may have a
    kernel, and the one that it is called with for each new token none: what both call is worth a search then."""
    above = {each.key: each.inside for each in calls}
    pending, seen = [call.key], set[str]()
    while pending:
        key = pending.pop()
        if not above.get(key):
            return False
        for caller in above[key]:
            if caller not in found and caller not in seen:
                seen.add(caller)
                pending.append(caller)
    return True
