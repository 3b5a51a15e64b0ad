"""One server for the tests of a module that need nothing special of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from scripted import OWN, Running, served

from bottega.service.limits import TokenLimits


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with served(tmp_path_factory.mktemp("server"), {"alice": OWN, "bob": OWN, "guest": TokenLimits(source_kib=1)}) as running:
        yield running
