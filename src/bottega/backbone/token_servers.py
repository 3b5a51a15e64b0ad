"""Several token servers as one backbone: every request goes to one that has the newest weights, and from one that dies to another.

Requests are sent on an event loop of their own, in a thread of their own, so that any number of callers' loops may ask. A server that does not
answer for its health, was started anew, or sends what is no answer while others do better, is left out until the next change of weights, or until
no other is left; before it draws again it is given the weights that the others have. A request that has taken two servers with it is given up: it,
not they, is likely at fault.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import httpx

from bottega.backbone.chat import TokenCompletion, Tokenizer, TokenRequest
from bottega.backbone.reply import BusyError, ForgottenError, GarbageError, NoServerError, UnreachableError
from bottega.backbone.token_server import TokenServer
from bottega.backbone.tokenizer import HuggingFaceTokenizer
from bottega.core.errors import BackboneError

SILENT_S = 1800.0
"""Seconds without a byte of an answer."""
PATIENCE = 120.0
"""Seconds that are waited for a server to come back when none is left."""
TRIES = 3
"""Servers that one request is sent to in all, where they fail it."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 15.0
"""Between two rounds, where every server is well and takes no more requests (429, 503). After `PATIENCE` that counts as a failure."""
LOSSES = 2
"""Servers that may be lost with one request."""
WATCH_SECONDS = 30.0
"""How often a server is asked for its health while it owes an answer; one that says nothing twice in a row hangs."""
SPREAD = 8
"""Requests by which a server may be ahead of others to be given those whose prompts it likely has in its cache."""


class WeightTransfer(Protocol):
    def send(self, servers: Sequence[TokenServer], version: int) -> dict[TokenServer, str]:
        """Have these servers draw by the weights as they are now; those that could not be brought to it, and why."""
        ...


class TokenServers:
    """A `TokenBackbone`; it draws nothing before `weights_changed` was called once."""

    def __init__(
        self, name: str, tokenizer: HuggingFaceTokenizer, servers: Sequence[TokenServer], transfer: WeightTransfer,
        *, vocabulary: int | None = None,
    ) -> None:  # fmt: skip
        """`vocabulary`: ids that the model knows."""
        self.name, self.tokenizer, self.servers = name, tokenizer, list(servers)
        self._ends = tokenizer.ends
        self.policy_version = -1
        self.lost: list[str] = []
        """What became of servers, one line each."""
        self._transfer, self._patience, self._vocabulary = transfer, PATIENCE, vocabulary
        self._gave_up = False
        """No server came back: nobody waits for one again before the weights change."""
        self._changing = threading.RLock()
        self._loop = asyncio.new_event_loop()
        self._reviving: asyncio.Lock | None = None
        self._client: httpx.AsyncClient | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name="token-servers", daemon=True)
        self._thread.start()

    tokenizer: Tokenizer

    @property
    def engine(self) -> str:
        return f"{len(self.servers)} server{'s' * (len(self.servers) != 1)}"

    async def complete(self, requests: Sequence[TokenRequest]) -> list[TokenCompletion]:
        work = asyncio.run_coroutine_threadsafe(self._all(requests), self._loop)
        try:
            return await asyncio.wrap_future(work)
        except BaseException:
            work.cancel()
            raise

    def weights_changed(self, version: int, change: Callable[[], None] = lambda: None) -> int:
        """Have all servers that can be reached draw by the weights as they are after `change`. Nothing may be drawn meanwhile."""
        with self._changing:
            change()
            self.policy_version, self._gave_up = version, False
            up = [server for server in self.servers if server.is_up()]
            for server in self.servers:
                if server not in up:
                    self._lose(server, f"{server.address} does not answer for its health")
            self._bring(up)
            begun = time.monotonic()
            while not self._ready() and time.monotonic() - begun < self._patience:
                time.sleep(1.0)
                self._bring([server for server in self.servers if server.is_up()])
            if not self._ready():
                raise NoServerError(self._none_left())
            return version

    async def close(self) -> None:
        """What is under way is given up."""
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._shut(), self._loop))
        self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.to_thread(self._thread.join, 30)

    # on the loop of our own

    async def _shut(self) -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        if self._client is not None:
            await self._client.aclose()

    async def _all(self, requests: Sequence[TokenRequest]) -> list[TokenCompletion]:
        if self._client is None:
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
            self._client = httpx.AsyncClient(timeout=httpx.Timeout(SILENT_S, connect=10.0), limits=limits)
            self._reviving = asyncio.Lock()
        tasks = [asyncio.ensure_future(self._one(request, self._client)) for request in requests]
        try:
            return list(await asyncio.gather(*tasks))
        except BaseException:  # cancelled, or one of them failed: nobody waits for the others any more
            for task in tasks:
                task.cancel()
            raise

    async def _one(self, request: TokenRequest, client: httpx.AsyncClient) -> TokenCompletion:
        tries, losses, told, lost = 0, 0, "", False
        failed: list[TokenServer] = []
        pause, busy_since = FIRST_PAUSE, 0.0
        while tries < TRIES:
            server = await self._chosen(request, failed)
            brought = server.brought
            tries += 1
            if server.rested and not await server.same(client):
                self._lose(server, f"{server.address} was started anew, or is gone", brought)
                continue
            try:
                return await self._answer(server, client, request)
            except ForgottenError as error:
                told, lost = str(error), True
            except UnreachableError as error:
                told = str(error)
                lost = server.alive and not await server.same(client)
                busy = isinstance(error, BusyError) and not lost
                busy_since = (busy_since or time.monotonic()) if busy else 0.0
                if busy and time.monotonic() - busy_since < self._patience:
                    tries -= 1
                    failed.append(server)
                    if all(other in failed for other in self._ready()):
                        await asyncio.sleep(pause)
                        pause, failed = min(2 * pause, LONGEST_PAUSE), []
                    continue
            except GarbageError as error:
                if all(other is server for other in self._ready()):
                    raise
                told, lost = str(error), True
            failed.append(server)
            if lost:
                self._lose(server, told, brought)
                losses += 1
            if losses == LOSSES:
                raise BackboneError(
                    f"{losses} servers were lost while they answered one request; it is not sent to more: {told}"
                )
        raise UnreachableError(f"{TRIES} attempts at one answer failed: {told}")

    async def _answer(self, server: TokenServer, client: httpx.AsyncClient, request: TokenRequest) -> TokenCompletion:
        """Waits for as long as the server is well."""
        work = asyncio.ensure_future(server.complete(client, request, self._ends, self.tokenizer.context, self._vocabulary))
        silent = 0
        try:
            while not (await asyncio.wait({work}, timeout=WATCH_SECONDS))[0]:
                silent = 0 if await server.healthy(client) else silent + 1
                if silent == 2:
                    raise UnreachableError(f"{server.address} does not answer, neither a request nor for its health")
            return work.result()
        finally:
            work.cancel()

    async def _chosen(self, request: TokenRequest, failed: Sequence[TokenServer]) -> TokenServer:
        """One that has not failed the request, if there is one; of those the least busy."""
        ready = self._ready()
        if not ready:
            assert self._reviving is not None
            async with self._reviving:
                await self._revived()
            ready = self._ready()
        first = hash(request.prompt_ids) % len(self.servers)
        places = {id(server): (number - first) % len(self.servers) for number, server in enumerate(self.servers)}
        return min(ready, key=lambda server: (server in failed, server.in_flight // SPREAD, places[id(server)]))

    async def _revived(self) -> None:
        begun = time.monotonic()
        while not self._ready():
            if not self._gave_up:
                await asyncio.to_thread(self._bring_back)
            self._gave_up = self._gave_up or (not self._ready() and time.monotonic() - begun > self._patience)
            if self._gave_up:
                raise NoServerError(self._none_left())
            await asyncio.sleep(0.0 if self._ready() else 1.0)

    def _bring_back(self) -> None:
        with self._changing:
            self._bring([server for server in self.servers if not server.alive and server.is_up()])

    # from any thread

    def _ready(self) -> list[TokenServer]:
        return [server for server in self.servers if server.alive and server.version == self.policy_version >= 0]

    def _bring(self, servers: list[TokenServer]) -> None:
        for server in servers:
            server.note_start()
            server.brought += 1
        failed = self._transfer.send(servers, self.policy_version) if servers else {}
        for server in servers:
            if server in failed:
                self._lose(server, failed[server])
            else:
                server.alive, server.version = True, self.policy_version

    def _lose(self, server: TokenServer, why: str, brought: int | None = None) -> None:
        """`brought`: how often it had been given weights when it failed; if it was given some since, it is another's matter."""
        if brought not in (None, server.brought):
            return
        if server.alive:
            self.lost.append(why)
        server.alive, server.version = False, -1

    def _none_left(self) -> str:
        told = "; ".join(self.lost[-3:])
        return (
            f"none of the {len(self.servers)} rollout servers answers{f' ({told})' if told else ''}: start them again; the same command "
            "with --resume goes on"
        )
