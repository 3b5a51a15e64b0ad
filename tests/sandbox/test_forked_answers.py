"""Questions that are answered in forks: under the filter of foreign code, and closed to each other's sandbox."""

from __future__ import annotations

import pytest

from bottega.sandbox.forked_answers import ForkingSandbox


@pytest.fixture
def asked(server):
    sandbox = ForkingSandbox(server, "sandbox_entries:answer_what_is_open")
    yield lambda: sandbox.ask({}, 20.0)
    sandbox.end()


def test_a_fork_has_the_filter_of_foreign_code(asked) -> None:
    found = asked().found
    assert found is not None
    assert found["descriptors"] and found["alarm"], "sent, or set"
    assert found["hides"] == 1, "closed to its supervisor"


def test_a_fork_is_seen_by_its_supervisor_and_its_parent_is_not_seen_by_it(asked) -> None:
    for _ in range(2):
        found = asked().found
        assert found is not None
        assert found["own"] == "" and found["parents_memory"] and found["parents_descriptors"]
