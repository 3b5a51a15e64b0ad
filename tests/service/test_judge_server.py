"""The HTTP interface against a scripted judge: real HTTP, real SQLite. Each test says what a client may rely on."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from scripted import OWN, TASK, Running, served

from bottega.tasks.load import load_task


def test_a_verdict_is_given_at_once_or_by_its_id(server: Running) -> None:
    status, found = server.post("judge 0 a", "alice")
    assert status == 200 and found["state"] == "done" and found["verdict"]["diagnosis"] == "judge 0 a"
    status, _, again = server.ask("GET", f"/v1/verdicts/{found['id']}", token="alice")
    assert status == 200 and again["verdict"] == found["verdict"]
    status, found = server.post("judge 0.3 b", "alice", wait=0)
    assert status == 202 and found["state"] in ("queued", "running") and "verdict" not in found
    status, _, found = server.ask("GET", f"/v1/verdicts/{found['id']}?wait=20", token="alice")
    assert status == 200 and found["verdict"]["diagnosis"] == "judge 0.3 b" and found["seconds"] >= 0.3


def test_the_same_request_is_judged_once_and_with_another_label_again(server: Running) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: server.post("judge 0.2 once", "alice")[1], range(8)))
    assert len({each["id"] for each in found}) == 1 and server.judge.asked.count("judge 0.2 once") == 1
    assert all(each["verdict"]["diagnosis"] == "judge 0.2 once" for each in found)
    assert server.post("judge 0.2 once", "alice", settings={"quick": False})[1]["id"] == found[0]["id"], (
        "said or not, it is the same"
    )
    for other in ({"run": "2"}, {"settings": {"quick": True}}):
        assert server.post("judge 0.2 once", "alice", **other)[1]["id"] != found[0]["id"]
    assert server.post("judge 0.2 once", "bob")[1]["id"] != found[0]["id"]


def test_settings_reach_the_judge_as_they_are(server: Running) -> None:
    chosen = {
        "quick": True,
        "baselines": ["best", "eager"],
        "precision": "bf16",
        "timeout": 7,
        "training": False,
        "require_kernel": 0.5,
    }
    _, found = server.post("judge 0 settings", "alice", settings=chosen)
    told = found["verdict"]["fingerprint"]["settings"]
    assert {name: told[name] for name in chosen} == chosen
    assert "checks" not in told and "device" not in told


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        (b"{", 422, "JSON"),
        (b"[" * 100_000, 400, "body"),
        (b"null", 422, "the body: must be a JSON object"),
        (b"7", 422, "the body: must be a JSON object"),
        ({}, 422, "task: is missing; candidate: is missing"),
        ({"task": {}, "candidate": {"source": "x"}}, 422, "either source or id"),
        ({"task": {"source": TASK, "id": "x"}, "candidate": {"source": "x"}}, 422, "either source or id"),
        ({"task": {"source": TASK}, "candidate": {"source": 7}}, 422, "candidate.source: must be a text"),
        ({"task": {"source": TASK}, "candidate": {"source": "x"}, "speed": 9}, 422, "speed: there is no such field; allowed are task, settings,"),
        ({"task": {"source": TASK}, "candidate": {"source": "x"}, "settings": {"checks": ["os:system"]}}, 422, "allowed are baselines, quick"),
        ({"task": {"source": TASK}, "candidate": {"source": "x"}, "settings": {"memory_gb": 1}}, 422, "memory_gb"),
        ({"task": {"source": TASK}, "candidate": {"source": "x"}, "settings": {"own_code": True}}, 422, "own_code"),
        ({"task": {"source": TASK}, "candidate": {"source": "x"}, "settings": {"timeout": -1}}, 422, "settings.timeout: must be above 0"),
        ({"task": {"source": TASK}, "candidate": {"source": "x"}, "settings": {"precision": "fp1"}}, 422, "precision"),
        ({"task": {"source": TASK}, "candidate": {"source": "x", "language": "os:system"}}, 422, "language"),
        ({"task": {"source": TASK}, "candidate": {"source": "x"}, "device": "tpu"}, 422, "device"),
        ({"task": {"id": "../../etc/passwd"}, "candidate": {"source": "x"}}, 422, "no task"),
        ({"task": {"id": "builtin:star_rel"}, "candidate": {"source": "x"}}, 422, "star_relu"),
    ],
)  # fmt: skip
def test_what_cannot_be_judged_is_refused_with_the_reason(server: Running, body: object, status: int, word: str) -> None:
    given, _, found = server.ask("POST", "/v1/verdicts", body, "alice")
    assert given == status and word in found["error"], found


def test_tasks_of_ones_own_need_permission_and_known_ones_do_not(server: Running) -> None:
    status, _, found = server.ask("POST", "/v1/verdicts", {"task": {"source": TASK}, "candidate": {"source": "x"}}, "guest")
    assert status == 403 and "own_tasks" in found["error"]
    known = load_task("builtin:star_relu")
    ids = []
    for task in (
        {"id": "builtin:star_relu"},
        {"id": "star_relu"},
        {"id": known.id},
        {"source": known.source, "name": "builtin:star_relu"},
    ):
        status, _, found = server.ask(
            "POST", "/v1/verdicts?wait=20", {"task": task, "candidate": {"source": "judge 0 k"}}, "guest"
        )
        assert status == 200 and found["verdict"]["task_id"] == known.id, found
        ids.append(found["id"])
    assert len(set(ids)) == 1


def test_a_task_that_was_sent_is_known_by_its_id_to_its_sender(server: Running) -> None:
    body = {"task": {"source": TASK + "mine = 1\n"}}
    status, _, found = server.ask("POST", "/v1/tasks/check?wait=20", body, "alice")
    assert status == 200 and found["report"]["fit"] and found["task_id"]
    by_id = {"task": {"id": found["task_id"]}, "candidate": {"source": "judge 0 by id"}}
    assert server.ask("POST", "/v1/verdicts?wait=20", by_id, "alice")[2]["verdict"]["task_id"] == found["task_id"]
    assert server.ask("POST", "/v1/verdicts?wait=20", by_id, "bob")[0] == 422


def test_a_task_that_cannot_be_run_has_a_report_that_says_so(server: Running) -> None:
    _, _, found = server.ask("POST", "/v1/tasks/check?wait=20", {"task": {"source": "broken", "name": "mine.py"}}, "alice")
    assert found["report"] == {"fit": False, "problems": [{"name": "unusable", "detail": "mine.py: is broken"}], "facts": {}}
    assert server.ask("GET", f"/v1/tasks/check/{found['id']}", token="alice")[2]["report"] == found["report"]
    assert server.ask("GET", f"/v1/verdicts/{found['id']}", token="alice")[0] == 404


def test_events_tell_every_state_and_end_with_the_verdict(server: Running) -> None:
    _, found = server.post("judge 1.5 events", "alice", wait=0)
    status, headers, text = server.ask("GET", f"/v1/verdicts/{found['id']}/events", token="alice")
    assert status == 200 and headers["Content-Type"].startswith("text/event-stream")
    told = [dict(line.split(": ", 1) for line in block.splitlines()) for block in text.strip().split("\n\n")]
    assert [each["event"] for each in told][-2:] == ["running", "done"]
    assert json.loads(told[-1]["data"])["verdict"]["diagnosis"] == "judge 1.5 events"


def test_skills_devices_metrics_and_docs(server: Running) -> None:
    _, _, found = server.ask("GET", "/v1/skills?q=softmax%20rows&count=3", token="alice")
    assert 1 <= len(found["skills"]) <= 3 and found["skills"][0]["name"]
    assert server.ask("GET", "/v1/skills", token="alice")[0] == 422
    _, _, found = server.ask("GET", "/v1/devices", token="alice")
    assert (
        found["devices"][0]["name"] == "cpu"
        and found["devices"][0]["queued"] == 0
        and found["devices"][0]["fingerprint"]["judge"]
    )
    _, headers, text = server.ask("GET", "/metrics", token="alice")
    assert headers["Content-Type"].startswith("text/plain") and 'bottega_queue_length{device="cpu"} 0' in text
    assert 'bottega_requests_total{route="/v1/verdicts",status="200"}' in text
    _, _, page = server.ask("GET", "/docs")
    assert "/v1/verdicts/{id}/events" in page and "http" not in page.replace("http://127.0.0.1", ""), (
        "nothing is fetched from elsewhere"
    )


def test_the_front_says_what_this_is_and_where_to_read_on(server: Running) -> None:
    status, headers, text = server.ask("GET", "/")
    assert status == 200 and headers["Content-Type"].startswith("text/plain") and "/docs" in text and "judge" in text


def test_ones_own_verdicts_are_listed_in_pages_the_newest_first(tmp_path: Path) -> None:
    with served(tmp_path, {"alice": OWN, "bob": OWN}) as running:
        ids = [running.post(f"judge 0 {number}", "alice")[1]["id"] for number in range(5)]
        other = running.post("judge 0 other", "bob")[1]["id"]
        running.ask("POST", "/v1/tasks/check?wait=20", {"task": {"source": TASK}}, "alice")
        seen, before = [], ""
        for size in (2, 2, 1):
            _, _, page = running.ask("GET", f"/v1/verdicts?count=2{before}", token="alice")
            assert len(page["verdicts"]) == size
            seen += [row["id"] for row in page["verdicts"]]
            before = f"&before={page['next']}"
        assert seen == ids[::-1] and page["next"] is None
        row = page["verdicts"][0]
        assert row["outcome"] == "incorrect" and row["candidate"] == "candidate" and "verdict" not in row
        assert running.ask("GET", f"/v1/verdicts?before={other}", token="alice")[0] == 404
        status, _, found = running.ask("GET", "/v1/verdicts?count=0", token="alice")
        assert status == 422 and found["error"] == "?count: must be 1 or more"


def test_the_servers_tasks_are_listed_by_names_that_can_be_sent(server: Running) -> None:
    _, _, found = server.ask("GET", "/v1/tasks", token="guest")
    assert len(found["tasks"]) > 20
    for row in (found["tasks"][0], found["tasks"][-1]):
        for name in row.values():
            body = {"task": {"id": name}, "candidate": {"source": "judge 0 listed"}}
            assert server.ask("POST", "/v1/verdicts?wait=20", body, "guest")[0] == 200, row
    assert server.ask("GET", "/v1/tasks?device=tpu", token="guest")[0] == 422
