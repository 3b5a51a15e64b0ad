"""Limits of tokens at a running server: what was judged stays counted, and a token that is gone has nothing judged any more."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from scripted import OWN, ScriptedJudge, served
from waiting import until

from bottega.service import dispatcher, tokens
from bottega.service.limits import TokenLimits
from bottega.service.usage import SecondsUsed


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(tokens, "RELOAD_SECONDS", -1.0)


def test_what_failed_and_was_sent_again_is_counted_twice(tmp_path: Path) -> None:
    with served(tmp_path, {"alice": OWN}) as running:
        for _ in range(2):
            assert running.post("crash 0.1 x", "alice")[1]["state"] == "failed"
        assert running.dispatcher.usage.seconds("alice") >= 0.2


def test_a_request_that_waits_is_not_begun_without_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(tmp_path, {"alice": TokenLimits(own_tasks=True, seconds_per_hour=0.2), "bob": OWN}) as running:
        running.post("judge 0.4 first", "alice", wait=0)
        until(lambda: running.judge.asked)
        _, second = running.post("judge 0 second", "alice", wait=0)
        assert second["state"] == "queued"
        assert running.post("judge 0 other", "bob")[1]["state"] == "done", "nobody else waits for alice"
        _, _, found = running.ask("GET", f"/v1/verdicts/{second['id']}", token="alice")
        assert found["state"] == "queued" and "0.2 s of judging an hour" in found["note"]
        monkeypatch.setattr(SecondsUsed, "used_up", lambda *_: "")  # as an hour later
        _, _, found = running.ask("GET", f"/v1/verdicts/{second['id']}?wait=20", token="alice")
        assert found["state"] == "done" and running.judge.asked[-1] == "judge 0 second"


def test_a_restart_gives_no_seconds_back(tmp_path: Path) -> None:
    limits = TokenLimits(own_tasks=True, seconds_per_hour=0.2)
    with served(tmp_path, {"alice": limits}) as running:
        running.post("judge 0.3 x", "alice")
    (tmp_path / "tokens.toml").unlink()
    with served(tmp_path, {"alice": limits}) as running:
        status, found = running.post("judge 0 y", "alice")
        assert status == 429 and "seconds" not in found and "an hour" in found["error"]


def test_a_revoked_token_has_its_requests_cancelled_with_the_reason(tmp_path: Path) -> None:
    with served(tmp_path, {"alice": OWN, "bob": OWN}) as running:
        _, runs = running.post("hang 0 runs", "alice", wait=0)
        until(lambda: running.judge.asked)
        _, waits = running.post("judge 0 waits", "alice", wait=0)
        file = tmp_path / "tokens.toml"
        text = file.read_text()
        file.write_text(text[text.index("[bob]") :])
        store = running.dispatcher.store
        for one in (runs, waits):
            until(lambda one=one: store.get(one["id"]).state == "cancelled")
            assert "token file" in store.get(one["id"]).error
        assert running.post("judge 0 after", "bob")[1]["state"] == "done"
        assert running.judge.asked == ["hang 0 runs", "judge 0 after"]


def test_while_the_token_file_is_gone_nobody_is_let_in_and_nothing_is_lost(tmp_path: Path) -> None:
    with served(tmp_path, {"alice": OWN}) as running:
        file, away = tmp_path / "tokens.toml", tmp_path / "away"
        _, first = running.post("hang 0 first", "alice", wait=0)
        until(lambda: running.judge.asked)
        _, waits = running.post("judge 0 waits", "alice", wait=0)
        file.rename(away)
        assert running.ask("GET", "/v1/devices", token="alice")[0] == 401
        assert "cannot be read" in running.dispatcher.withheld("alice")
        away.rename(file)
        running.ask("DELETE", f"/v1/verdicts/{first['id']}", token="alice")
        assert running.ask("GET", f"/v1/verdicts/{waits['id']}?wait=20", token="alice")[2]["state"] == "done"


def test_one_that_is_cancelled_while_it_begins_is_not_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(tmp_path, judge=ScriptedJudge()) as running:
        store, begun, go_on = running.dispatcher.store, threading.Event(), threading.Event()
        start = store.start

        def slow(*arguments: Any) -> Any:
            found = start(*arguments)
            begun.set()
            assert go_on.wait(20)
            return found

        monkeypatch.setattr(store, "start", slow)
        _, found = running.post("hang 0 x", wait=0)
        assert begun.wait(20)
        assert running.ask("DELETE", f"/v1/verdicts/{found['id']}")[2]["state"] == "cancelled"
        monkeypatch.setattr(store, "start", start)
        go_on.set()
        assert running.post("judge 0 next")[1]["state"] == "done"
        assert running.judge.asked == ["judge 0 next"]
