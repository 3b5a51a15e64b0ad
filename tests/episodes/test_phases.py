"""A model in this process and the judge take turns on their device; other processes that time something come in between."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from bottega.backbone import engine as place
from bottega.backbone.engine import Engine
from bottega.episodes.phases import Phases, share_device
from bottega.judge.device_lock import Lease, open_lease


@pytest.fixture(autouse=True)
def leases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Of our own: other tests time kernels on this machine."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(place, "LEAST_STAY", 0.0)
    yield


class Stays:
    """When sections were entered and left."""

    def __init__(self) -> None:
        self.of: dict[str, list[tuple[float, float]]] = {"generate": [], "judge": []}

    def add(self, kind: str, begun: float) -> None:
        self.of[kind].append((begun, time.monotonic()))

    def overlap(self) -> bool:
        return any(a < d and c < b for a, b in self.of["generate"] for c, d in self.of["judge"])

    def phases(self) -> list[str]:
        """Kinds in the order in which they came, runs of one kind as one."""
        every = sorted((begun, kind) for kind, stays in self.of.items() for begun, _ in stays)
        return [kind for number, (_, kind) in enumerate(every) if not number or every[number - 1][1] != kind]


async def lane(phases: Phases, stays: Stays, turns: int, seed: int) -> None:
    luck = random.Random(seed)
    for _ in range(turns):
        for kind in ("generate", "judge"):
            async with phases.generating() if kind == "generate" else phases.judging("cuda"):
                begun = time.monotonic()
                await asyncio.sleep(luck.random() / 100)
                stays.add(kind, begun)


def test_lanes_draw_together_and_are_judged_together() -> None:
    phases, stays = Phases("cuda:0"), Stays()

    async def all_lanes() -> None:
        await asyncio.gather(*(lane(phases, stays, 3, seed) for seed in range(20)))

    asyncio.run(all_lanes())
    assert not stays.overlap() and stays.phases() == ["generate", "judge"] * 3
    assert len(stays.of["generate"]) == len(stays.of["judge"]) == 60 and phases.now.phase is None


def test_threads_and_loops_share_the_phases() -> None:
    phases, stays = Phases("cpu"), Stays()

    def work(seed: int) -> None:
        luck = random.Random(seed)
        for _ in range(5):
            for kind in ("generate", "judge"):
                with phases.generating() if kind == "generate" else phases.judging():
                    begun = time.monotonic()
                    time.sleep(luck.random() / 200)
                    stays.add(kind, begun)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    loops = [threading.Thread(target=lambda seed=seed: asyncio.run(lane(phases, Stays(), 1, seed))) for seed in range(2)]
    for thread in threads + loops:
        thread.start()
    for thread in threads + loops:
        thread.join(60)
        assert not thread.is_alive()
    assert not stays.overlap() and len(stays.of["judge"]) == 30


@pytest.mark.parametrize("busy", ["generate", "judge"])
def test_nobody_starves(busy: str) -> None:
    """The one kind comes and goes without a gap; the other still gets its turn."""
    phases = Phases("cpu", patience=0.05)
    section: dict[str, Callable[[], Any]] = {"generate": phases.generating, "judge": phases.judging}

    async def run() -> None:
        stop = asyncio.Event()

        async def again() -> None:
            while not stop.is_set():
                async with section[busy]():
                    await asyncio.sleep(0.01)

        async def stagger(delay: float) -> None:
            await asyncio.sleep(delay)
            await again()

        crowd = [asyncio.ensure_future(stagger(number / 300)) for number in range(6)]
        await asyncio.sleep(0.1)
        for _ in range(3):
            async with asyncio.timeout(30):
                async with section["judge" if busy == "generate" else "generate"]():
                    assert phases.now.phase != busy
        stop.set()
        await asyncio.gather(*crowd)

    asyncio.run(run())


def test_errors_and_cancelled_waits_leave_nobody_locked_out() -> None:
    phases = Phases("cpu")

    async def run() -> None:
        async with phases.generating():
            waiting = [asyncio.ensure_future(lane(phases, Stays(), 0, 0))]
            for _ in range(3):

                async def judge() -> None:
                    async with phases.judging():
                        raise ValueError("a judge that fails")

                waiting.append(asyncio.ensure_future(judge()))
            await asyncio.sleep(0.02)
            assert phases.now.waiting == 3
            waiting[1].cancel()
            await asyncio.sleep(0.02)
            assert phases.now.waiting == 2
        found = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(one).__name__ for one in found] == ["NoneType", "CancelledError", "ValueError", "ValueError"]
        with pytest.raises(KeyboardInterrupt), phases.generating():
            raise KeyboardInterrupt
        assert phases.now.phase is None
        async with asyncio.timeout(10), phases.judging():
            pass

    asyncio.run(run())


def test_devices_that_differ_need_no_turns() -> None:
    async def run(phases: Phases, device: str) -> None:
        async with phases.generating(), asyncio.timeout(10), phases.judging(device):
            pass

    asyncio.run(run(Phases("cuda:0"), "cuda:1"))
    asyncio.run(run(Phases("cuda:0"), "cpu"))
    asyncio.run(run(Phases(), "cpu"))
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(run(Phases("cuda:0"), "cuda"), 0.2))


class Busy:
    """A runner that draws a token in a hundredth of a second, and remembers when it worked and when it gave its cache back."""

    slots, lag, draws = 64, 1, 1

    def __init__(self) -> None:
        self.drafts: list[Any] = []
        self.under_way = self.windows = self.handed_back = self.reserved = 0
        self.stays = Stays()

    def session(self) -> Any:
        return nullcontext()

    def reserve(self, lengths: Sequence[int]) -> None:
        self.reserved = max(self.reserved, sum(lengths))

    def hand_back(self) -> None:
        assert not self.under_way and not self.drafts
        self.handed_back += 1

    def take(self, draft: Any) -> bool:
        self.drafts.append(draft)
        return True

    def prefill(self, drafts: object) -> None: ...

    def drop(self, draft: Any) -> None:
        self.drafts.remove(draft)

    def reset(self) -> None:
        self.drafts, self.under_way = [], 0

    def launch(self) -> Busy:
        self.under_way += 1
        self.begun = time.monotonic()
        return self

    def collect(self) -> list[Any]:
        from bottega.backbone.runner import Sampled

        time.sleep(0.01)
        self.under_way -= 1
        self.windows += 1
        self.stays.add("generate", self.begun)
        return [Sampled(draft, [1], [0.0]) for draft in self.drafts]


class Asked:
    """What an engine needs of a draft."""

    cancelled, launched, version, length = False, 0, 0, 100

    def __init__(self, limit: int) -> None:
        self.limit, self.drawn = limit, 0
        self.future: Future[str] = Future()

    def extend(self, ids: list[int], *_: object) -> str | None:
        self.drawn += len(ids)
        return "length" if self.drawn >= self.limit else None

    def completion(self, reason: str) -> str:
        return reason


class Local:
    """A backbone in this process."""

    device = "cpu"

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def share(self, lock: Callable[[], place.DeviceLock]) -> place.DeviceLock:
        return self.engine.lock or self.engine.share(lock())


class Speaks:
    def __init__(self, backbone: Any) -> None:
        self.backbone = backbone


@pytest.fixture
def busy() -> Iterator[tuple[Busy, Engine, Phases]]:
    runner = Busy()
    engine = Engine(runner, ())  # type: ignore[arg-type]
    client = Speaks(Local(engine))
    phases = share_device(client)  # type: ignore[arg-type]
    assert share_device(client) is phases  # type: ignore[arg-type]
    yield runner, engine, phases
    engine.close()


def test_the_engine_never_works_in_a_phase_of_judging(busy: tuple[Busy, Engine, Phases]) -> None:
    runner, engine, phases = busy
    luck = random.Random(0)

    async def one(number: int) -> None:
        for _ in range(2):
            async with phases.generating():
                await asyncio.sleep(luck.random() / 20)
                for _ in range(2):  # drawn again, after a look at the first answer
                    draft = Asked(luck.randrange(1, 8))
                    engine.submit([draft])  # type: ignore[list-item]
                    await asyncio.wrap_future(draft.future)
            async with phases.judging("cpu"):
                begun = time.monotonic()
                await asyncio.sleep(luck.random() / 50)
                runner.stays.add("judge", begun)

    async def every() -> None:
        await asyncio.wait_for(asyncio.gather(*(one(number) for number in range(8))), 60)

    asyncio.run(every())
    assert not runner.stays.overlap() and runner.stays.phases() == ["generate", "judge"] * 2
    assert runner.handed_back == 2, "the cache goes back before the judge begins, and only then"
    assert runner.reserved == 800, "room for all who are in the phase, from the first request on"


def test_requests_outside_of_a_section_wait_for_the_judge_all_the_same(busy: tuple[Busy, Engine, Phases]) -> None:
    runner, engine, phases = busy
    draft = Asked(3)
    with phases.judging():
        engine.submit([draft])  # type: ignore[list-item]
        time.sleep(0.1)
        assert runner.windows == 0
    assert draft.future.result(20) == "length" and runner.windows
    with phases.judging():
        assert runner.handed_back == 1


def test_an_engine_that_is_closed_or_whose_request_is_gone_blocks_nobody(busy: tuple[Busy, Engine, Phases]) -> None:
    _, engine, phases = busy
    with phases.judging():
        draft = Asked(3)
        engine.submit([draft])  # type: ignore[list-item]
        time.sleep(0.05)
        engine.cancel([draft])  # type: ignore[list-item]
    passed = threading.Event()

    def judge() -> None:
        with phases.judging():
            passed.set()

    threading.Thread(target=judge, daemon=True).start()
    assert passed.wait(20)
    with phases.judging():
        engine.submit([Asked(3)])  # type: ignore[list-item]
        engine.close()
    assert phases.now.phase is None


def test_a_timer_of_another_process_finds_the_device_quiet_and_the_model_goes_on(busy: tuple[Busy, Engine, Phases]) -> None:
    runner, engine, _ = busy
    engine.submit([Asked(10**9)])  # type: ignore[list-item]
    timer = Lease(open_lease("cpu"))
    for _ in range(5):
        with timer.exclusive():
            assert runner.under_way == 0
            done = runner.windows
            time.sleep(0.05)
            assert runner.windows == done
        deadline = time.monotonic() + 20
        while runner.windows <= done:
            assert time.monotonic() < deadline
            time.sleep(0.005)
    engine.close()
    assert not timer.wanted() and runner.handed_back == 0
    with timer.exclusive():
        pass


def test_an_idle_model_keeps_no_other_process_waiting(busy: tuple[Busy, Engine, Phases]) -> None:
    _, engine, _ = busy
    assert engine.between(lambda: 7) == 7
    passed = threading.Event()

    def time_something() -> None:
        with Lease(open_lease("cpu")).exclusive():
            passed.set()

    threading.Thread(target=time_something, daemon=True).start()
    assert passed.wait(20)


def test_a_model_elsewhere_needs_no_phases() -> None:
    class Server:
        backbone = object()

    assert share_device(Server()).device == ""  # type: ignore[arg-type]
    assert Phases("cuda").device == "cuda:0"


def test_a_real_model_answers_alike_before_and_after_a_phase_of_judging() -> None:
    """Drawn on the CPU by transformers' weights in our own decoder, and in transformers' own for a make that it does not know."""
    from backbone.small_models import loaded, small_model, unequal

    from bottega.backbone.client import TokenClient
    from bottega.backbone.local import LocalBackbone

    for kind in ("llama", "gpt2"):
        backbone = LocalBackbone(loaded(small_model(kind)), slots=3)
        phases = share_device(TokenClient(backbone))
        assert phases.device == "cpu" and share_device(TokenClient(backbone)) is phases

        async def rounds(backbone: LocalBackbone = backbone, phases: Phases = phases) -> list[Any]:
            found = []
            for _ in range(3):
                async with phases.generating():
                    found.append(await backbone.complete(unequal(5, longest=20, most=6, temperature=0.7)))
                async with phases.judging("cpu"):
                    assert backbone.load_now == (0, 0) and backbone.memory.cache == 0 and phases.now.phase == "judge"
            await backbone.close()
            return found

        first, *others = asyncio.run(asyncio.wait_for(rounds(), 120))
        assert all(other == first for other in others)
