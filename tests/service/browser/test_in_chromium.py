"""The dashboard as a person uses it: clicks, keys, filters, pages that grow while one looks, and text that would like to be a script."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from made_runs import HOSTILE, attempt, bench, library, search, training, verdict
from playwright_words import expect

from bottega.bench.run_directory import Recorder
from bottega.core.event import Measured
from bottega.core.verdict import Outcome
from bottega.episodes.journal import EpisodeJournal


def test_from_the_list_to_a_kernel_and_back(page: Any, dashboard: str, runs: Path) -> None:
    search(runs / "search")
    page.goto(dashboard)
    page.get_by_role("link", name="runs/search").click()
    expect(page.locator("svg[role=img]").first).to_be_visible()
    page.get_by_role("link", name="s0p1", exact=True).click()
    expect(page.locator("pre.diff .add")).to_contain_text(["+++ s0p1", "+b = 4", "+c = 5"])
    page.get_by_text("Prompt", exact=True).click()
    expect(page.locator("#prompt pre")).to_contain_text("write it")
    page.locator("dd a", has_text="s0p0").click()
    expect(page.locator(".big")).to_contain_text("slower")
    page.get_by_role("navigation", name="Where you are").get_by_role("link", name="runs", exact=True).click()
    expect(page).to_have_url(f"{dashboard}/")


def test_keys(page: Any, dashboard: str, runs: Path) -> None:
    search(runs / "first")
    search(runs / "second")
    page.goto(dashboard)
    page.keyboard.press("?")
    expect(page.locator("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_be_hidden()
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.locator("tr.at")).to_contain_text("first")
    page.keyboard.press("k")
    expect(page.locator("tr.at")).to_contain_text("second")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{dashboard}/run/runs/second")
    page.keyboard.press("u")
    expect(page).to_have_url(f"{dashboard}/")
    page.keyboard.press("/")
    page.keyboard.type("first")
    page.keyboard.press("Enter")
    expect(page.locator("tr[data-row]")).to_have_count(1)
    expect(page).to_have_url(f"{dashboard}/?q=first")


def test_filters_of_a_benchmark(page: Any, dashboard: str, runs: Path) -> None:
    bench(runs / "bench", tasks=120)
    page.goto(f"{dashboard}/run/runs/bench")
    expect(page.get_by_role("heading", name="Tasks × attempts (120)")).to_be_visible()
    expect(page.locator(".grid tbody tr")).to_have_count(50)
    page.get_by_role("navigation", name="Pages").first.get_by_role("link", name="3").click()
    expect(page.locator(".grid tbody tr")).to_have_count(20)
    page.get_by_label("any level").select_option("2")
    expect(page.get_by_role("heading", name="Tasks × attempts (60)")).to_be_visible()
    page.get_by_label("as they came").select_option("best")
    expect(page.locator(".grid tbody tr").first).to_contain_text("task_119")
    page.locator(".grid tbody tr").first.locator(".cell.bad").click()
    expect(page.locator(".big")).to_contain_text("incorrect")
    page.get_by_role("link", name="previous").click()
    expect(page.locator(".big")).to_contain_text("slower")
    expect(page.locator("#kernel")).to_contain_text("kernel = 119, 1")


def test_new_attempts_appear_by_themselves_and_what_was_opened_stays_open(page: Any, dashboard: str, runs: Path) -> None:
    folder = bench(runs / "bench", finished=False)
    page.goto(f"{dashboard}/run/runs/bench")
    page.get_by_text("Settings and machine").click()
    page.get_by_label("Filter").fill("half a wo")
    with Recorder(folder) as recorder:
        recorder.add(*attempt(0, 3, verdict(Outcome.REJECTED)))
        expect(page.locator(".cell.worst")).to_have_count(1)
        expect(page.locator("dd .badge.live")).to_have_text("running")
        expect(page.get_by_label("Filter")).to_be_focused()
        page.keyboard.type("rd")
        expect(page.get_by_label("Filter")).to_have_value("half a word")
        expect(page.locator("details[open] summary")).to_have_text("Settings and machine")
    expect(page.locator("dd .badge").first).to_have_text("stopped")


def test_a_training_run_grows_and_opens_down_to_its_tokens(page: Any, dashboard: str, runs: Path) -> None:
    folder = training(runs / "rl")
    page.goto(f"{dashboard}/run/runs/rl")
    expect(page.locator("table.steps tbody tr")).to_have_count(4)
    with EpisodeJournal(folder) as journal:
        journal.write(Measured("train/5", 5, {"reward": 0.9, "reward_best": 1.0}))
        expect(page.locator("table.steps tbody tr.new")).to_have_count(1)
    page.get_by_role("link", name="4", exact=True).click()
    page.get_by_role("link", name="decay").click()
    page.get_by_role("link", name="s0r0t1").click()
    expect(page.locator("pre.tokens .token")).to_have_count(3)
    expect(page.locator("pre.tokens .p4")).to_have_attribute("title", "token 3, log-prob -3.000, p 0.05")
    expect(page.locator("dl").first).to_contain_text("1.75")


def test_a_run_that_begins_appears_in_the_list(page: Any, dashboard: str, runs: Path) -> None:
    page.goto(dashboard)
    expect(page.locator("main")).to_contain_text("No run lies in")
    search(runs / "late")
    expect(page.get_by_role("link", name="runs/late")).to_be_visible(timeout=15_000)


def test_two_runs_are_picked_and_compared(page: Any, dashboard: str, runs: Path) -> None:
    bench(runs / "one")
    bench(runs / "two", samples=1)
    page.goto(dashboard)
    for box in page.locator("input[type=checkbox]").all():
        box.check()
    page.get_by_role("button", name="Compare the two picked").click()
    expect(page.get_by_role("heading", name="tasks that moved most")).to_be_visible()


def test_hostile_text_is_shown_and_does_nothing(page: Any, dashboard: str, runs: Path) -> None:
    search(runs / "search", hostile=True)
    for address in (
        "/",
        "/run/runs/search",
        "/run/runs/search?view=node&node=s0p2",
        "/run/runs/search?view=events",
        "/run/runs/search?view=event&line=10",
    ):
        page.goto(f"{dashboard}{address}")
        expect(page.locator("main")).to_be_visible()
        for each in page.locator("summary").all():
            each.click()
        assert page.evaluate("window.hit") is None
        assert page.locator("main script, main img, [onerror], [onmouseover]").count() == 0
    assert "<script>window.hit=1" in page.locator("main").inner_text()
    assert "\u202e" not in page.content() and "\x1b" not in page.content()


def test_the_policy_would_stop_a_script_that_slipped_through(browser: Any, dashboard: str, runs: Path) -> None:
    page = browser.new_page()
    page.goto(dashboard)
    refused: list[str] = []
    page.on("console", lambda message: refused.append(message.text))
    page.evaluate(
        "document.getElementById('main').insertAdjacentHTML('beforeend', '<img src=nothing onerror=\"window.hit=1\">')"
    )
    page.wait_for_timeout(500)
    assert page.evaluate("window.hit") is None and any("Content Security Policy" in text for text in refused)
    page.close()


def test_broken_and_half_written_runs_say_so(page: Any, dashboard: str, runs: Path) -> None:
    log = search(runs / "search", ended=False) / "events.jsonl"
    with open(log, "ab") as file:
        file.write(b'no json\n{"type": "wrote", "node": "ha')
        file.flush()
        page.goto(f"{dashboard}/run/runs/search")
        expect(page.locator(".warnings li")).to_contain_text(["line 11 is damaged", "half written"])
        expect(page.locator("table.kernels tbody tr")).to_have_count(4)
        file.write(b'lf", "episode": "task-1", "turn": {}}\n')
    expect(page.locator("table.kernels tbody tr")).to_have_count(5)
    expect(page.locator(".warnings")).not_to_contain_text("half written")


def test_on_a_phone_nothing_is_wider_than_the_screen(browser: Any, dashboard: str, runs: Path) -> None:
    search(runs / "search", hostile=True)
    bench(runs / "bench")
    library(training(runs / "rl") / "library")
    context = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme="dark", is_mobile=True, has_touch=True)
    page = context.new_page()
    views = ["", "runs/search", "runs/bench", "runs/rl", "runs/rl?view=library&of=library", "runs/rl?view=step&step=4"]
    views += ["runs/search?view=node&node=s0p1", "runs/bench?view=attempt&line=2"]
    for view in views:
        page.goto(f"{dashboard}/run/{view}" if view else dashboard)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, view
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
    context.close()


def test_a_run_as_one_file(page: Any, runs: Path, tmp_path: Path) -> None:
    search(runs / "search", hostile=True)
    place = tmp_path / "shared.html"
    subprocess.run(
        [sys.executable, "-m", "bottega.app.cli", "dashboard", str(runs / "search"), "--export", str(place)], check=True
    )
    page.goto(place.as_uri())
    page.get_by_role("link", name="s0p1", exact=True).first.click()
    expect(page.locator("pre.diff .add", has_text="+c = 5")).to_be_visible()
    assert page.evaluate("window.hit") is None and HOSTILE not in page.content()
