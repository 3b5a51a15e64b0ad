"""Where a worker of the bench begins: kept apart so that the bench's own process needs no torch."""

from __future__ import annotations

from multiprocessing.connection import Connection

from bottega.data.trusted.orders import Orders


def begin(pipe: Connection, parent: int, orders: Orders, name: str) -> None:
    from bottega.data.trusted.worker import work

    work(pipe, parent, orders, name)
