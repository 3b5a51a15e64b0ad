"""What pages show, and what they answer to what should not be asked."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the dashboard needs the extra `service`")

from made_runs import HOSTILE, attempt, bench, library, lineage, search, training
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient
from test_reads_only import everything

from bottega.bench.figures import share
from bottega.bench.metrics import summary
from bottega.bench.run_directory import Recorder, read_run
from bottega.episodes.journal import EpisodeJournal
from bottega.service.dashboard.app import dashboard_app


def served(folder: Path) -> Any:
    return TestClient(dashboard_app([folder]), raise_server_exceptions=False)


def test_a_search_is_a_tree_with_diffs_profile_and_roofline(tmp_path: Path) -> None:
    search(tmp_path / "search")
    client = served(tmp_path / "search")
    page = client.get("/run/search").text
    assert '<span class="d1"><a href="/run/search?view=node&amp;node=s0p1">s0p1</a> ★</span>' in page
    assert '<span class="d2"><a href="/run/search?view=node&amp;node=s0p2">' in page
    assert "3.20× (2.88 to 3.52)" in page and "Time of each kernel against the roofline" in page
    node = client.get("/run/search?view=node&node=s0p1").text
    assert '<span class="cut">-b = 3</span>' in node and '<span class="add">+b = 4</span>' in node
    assert "40% of the roofline" in node and "97.0%" in node and "[user]\nwrite it" in node


def test_a_bench_has_the_figures_of_its_report_and_filters(tmp_path: Path) -> None:
    folder = bench(tmp_path / "bench")
    client = served(folder)
    page = client.get("/run/bench").text
    every = summary(read_run(folder)).every
    for p in (1.0, 1.5, 2.0):
        told = every.fast[p]
        assert f"fast_{p:g}</td><td>{share(told)}" in page
    assert page.count('class="cell good"') == 6 and page.count('class="cell bad"') == 6
    assert client.get("/run/bench?level=2").text.count('class="cell good"') == 3
    assert "Tasks × attempts (1)" in client.get("/run/bench?q=task_4").text
    assert "Tasks × attempts (0)" in client.get("/run/bench?outcome=timeout").text
    shown = client.get("/run/bench?view=attempt&line=1").text
    assert "kernel = 0, 0" in shown and "1.50× (1.35 to 1.65)" in shown


def test_a_lineage_is_a_tree_of_steps_with_what_was_refused_and_done_again(tmp_path: Path) -> None:
    client = served(lineage(tmp_path / "line"))
    assert "2 steps, 1 done again" in client.get("/").text
    page = client.get("/run/line").text
    assert page.index("unrolling") < page.index("× tiling") < page.index("vectors") and "element 3 is wrong" in page
    assert '<span class="d2">× tiling</span>' in page and "2.00× (1.90 to 2.10)" in page and "it is plain" in page
    assert "<td>done again</td>" in page and "<td>not done again</td>" in page and "<script>window" not in page
    step = client.get("/run/line?view=lineage_step&line=3").text
    assert '<span class="add">+with unrolling</span>' in step and '<span class="cut">-without unrolling</span>' in step
    for line in (1, 2, 99):
        assert "No such step" in client.get(f"/run/line?view=lineage_step&line={line}").text


def test_a_lineage_is_shown_as_far_as_it_goes(tmp_path: Path) -> None:
    folder = lineage(tmp_path / "line", ended=False)
    with (folder / "lineage.jsonl").open("a") as log:
        log.write('{"key": "trip/1", "trip": {"number": [1]}}\n{"key": "step/3", "step": {"number": 1, "atte')
    page = served(folder).get("/run/line").text
    assert "goes on, or was killed" in page and "vectors" in page and "damaged" in page and "half written" in page
    search(tmp_path / "search")
    assert served(tmp_path / "search").get("/run/search?view=lineage_step&line=1").status_code == 200


def test_training_goes_down_to_tokens(tmp_path: Path) -> None:
    client = served(training(tmp_path / "rl"))
    assert "view=step&amp;step=4" in client.get("/run/rl").text
    step = client.get("/run/rl?view=step&step=4").text
    assert "decay" in step and "<td>17</td>" in step and "2.812" in step
    episode = client.get("/run/rl?view=episode&step=4&episode=000004/000-task-1").text
    assert "<td>0.8125</td><td>-1.75</td>" in episode and "<td>1.562</td><td>0.3125</td>" in episode
    pages = [each for each in everything(client) if "view=turn" in each]
    told = [client.get(each).text for each in pages]
    assert len(told) == 4
    second = next(text for text in told if "<dd>2.812</dd>" in text)
    assert "<dd>1.75</dd>" in second and 'title="token 3, log-prob -3.000, p 0.05" class="token p4"' in second
    assert "[user]\nwrite it" in second and "<dt>library version</dt><dd>17</dd>" in second


def test_what_is_not_recorded_is_said(tmp_path: Path) -> None:
    client = served(training(tmp_path / "rl", credited=False))
    assert "are not in this log" in client.get("/run/rl?view=step&step=4").text
    assert "step_logs=all" in client.get("/run/rl?view=step&step=1").text


def test_a_library_shows_its_cards(tmp_path: Path) -> None:
    client = served(library(tmp_path / "cards"))
    found = everything(client)
    assert "Cards (3)" in found["/run/cards"]
    card = next(text for address, text in found.items() if "view=card" in address)
    assert "Evidence" in card and "Its lineage" in card


def test_two_runs_are_compared(tmp_path: Path) -> None:
    bench(tmp_path / "one")
    bench(tmp_path / "two", samples=1)
    training(tmp_path / "rl")
    search(tmp_path / "first")
    search(tmp_path / "second")
    client = served(tmp_path)
    name = tmp_path.name
    assert "Over 6 tasks that both have" in client.get(f"/compare?a={name}/one&b={name}/two").text
    assert "no figures in common" in client.get(f"/compare?a={name}/one&b={name}/rl").text
    assert "Best kernels" in client.get(f"/compare?run={name}/first&run={name}/second").text
    assert "Pick two runs" in client.get("/compare?a=nothing").text


def test_a_kind_that_is_not_known_is_listed_and_shown_as_its_events(tmp_path: Path) -> None:
    lines = [
        {"type": "run_started", "command": "bottega future x", "at": 1e9},
        {"type": "grew", "size": 3, "at": 1e9, "odd": {"deep": [1]}},
    ]
    (tmp_path / "later").mkdir()
    (tmp_path / "later" / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    client = served(tmp_path / "later")
    assert "<td>log</td>" in client.get("/").text
    page = client.get("/run/later").text
    assert "grew" in page and "size 3" in page
    assert "deep" in client.get("/run/later?view=event&line=2").text


def test_broken_and_half_written_runs_are_shown_as_far_as_they_go(tmp_path: Path) -> None:
    folder = bench(tmp_path / "runs" / "bench")
    with open(folder / "attempts.jsonl", "ab") as file:
        file.write(b'{"task":"id0","sample":99999999999,"turn":-1,"verdict":7}\nnot json\n{"task": ["id1"]}\n{"half')
    (folder / "tasks.jsonl").open("ab").write(b'{"id":5}\n\x00\n')
    log = search(tmp_path / "runs" / "search", ended=False) / "events.jsonl"
    odd = {"type": "wrote", "node": "loop", "parent": "loop", "episode": "task-1", "turn": "none", "seconds": "x"}
    judged = {
        "type": "judged",
        "node": "loop",
        "episode": "task-1",
        "verdict": {"outcome": 5, "speedup": [], "times_ms": {"candidate": "1e999"}},
    }
    circle = [{**odd, "node": "one", "parent": "two"}, {**odd, "node": "two", "parent": "one"}, {"type": 5, "at": "soon"}]
    with open(log, "ab") as file:
        file.write(b"".join(json.dumps(line).encode() + b"\n" for line in (odd, judged, *circle)) + b'{"type": "run_en')
    (training(tmp_path / "runs" / "rl") / "config.json").write_text('{"stage": "rl", "config": 5}')
    client = served(tmp_path / "runs")
    found = everything(client)
    assert "line 20 is damaged" in found["/run/runs/bench"] and "half written" in found["/run/runs/bench"]
    assert "half written" in found["/run/runs/search"] and "loop" in found["/run/runs/search"]


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    search(tmp_path / "runs" / "search", hostile=True)
    folder = bench(tmp_path / "runs" / "<img src=x onerror=1>")
    with Recorder(folder) as recorder:
        written, _ = attempt(0, 3)
        recorder.add(replace(written, candidate="0" * 16, language=HOSTILE, junk=HOSTILE, verdict=None), HOSTILE)
    for address, text in everything(served(tmp_path / "runs")).items():
        assert "<script>window" not in text and "<img" not in text and "\x1b" not in text and "\u202e" not in text, address


def test_only_reading_is_answered_and_only_what_was_found(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    search(tmp_path / "runs" / "search")
    client = served(tmp_path / "runs")
    answer = client.get("/")
    assert (
        "script-src 'self'" in answer.headers["content-security-policy"]
        and "unsafe" not in answer.headers["content-security-policy"]
    )
    assert answer.headers["x-content-type-options"] == "nosniff"
    for address in ("/run/../secret", "/run/runs/%2e%2e/%2e%2e/secret", "/run/etc/passwd", "/static/..%2fapp.py", "/nothing"):
        assert client.get(address).status_code == 404, address
    for log in ("../..", "steps/../../search", "/etc", "steps/1\n"):
        assert "No such log" in client.get("/run/runs/search", params={"view": "events", "log": log}).text
    assert client.post("/").status_code == 405 and client.delete("/run/runs/search").status_code == 405


def test_a_page_that_has_not_changed_is_not_sent_again(tmp_path: Path) -> None:
    folder = search(tmp_path / "search")
    client = served(folder)
    for address in ("/", "/run/search", "/run/search?view=events"):
        tag = client.get(address).headers["etag"]
        assert client.get(address, headers={"If-None-Match": tag}).status_code == 304
    with EpisodeJournal(folder) as journal:
        journal.write(journal.events[0])
    assert client.get("/run/search", headers={"If-None-Match": tag}).status_code == 200


def test_it_can_be_mounted_below_another_address(tmp_path: Path) -> None:
    search(tmp_path / "search")
    client = TestClient(Starlette(routes=[Mount("/look", dashboard_app([tmp_path / "search"]))]))
    page = client.get("/look/").text
    assert 'href="/look/run/search"' in page and 'href="/look/static/dashboard.css"' in page
    assert client.get("/look/run/search").status_code == 200


def test_a_long_text_is_cut_and_said(tmp_path: Path) -> None:
    with EpisodeJournal(search(tmp_path / "search")) as journal:
        event = next(each for each in journal.events if getattr(each, "node", "") == "s0p1")
        journal.write(replace(event, key="long", node="long", turn=replace(event.turn, source="x = 1\n" * 700_000)))
    page = served(tmp_path / "search").get("/run/search?view=node&node=long").text
    assert len(page) < 3_000_000 and "more characters are in the file" in page and "too long to be compared" in page
