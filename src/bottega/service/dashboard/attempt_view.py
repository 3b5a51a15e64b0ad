"""One task of a benchmark with all attempts at it, and one attempt with its kernel, its verdict and what changed since the turn before."""

from __future__ import annotations

import re

from bottega.service.dashboard.html import Html, badge, code, el, facts, folded, joined, link, seconds, section, speed, table
from bottega.service.dashboard.open_run import OpenRun
from bottega.service.dashboard.page import Asked, Links, pages, raw
from bottega.service.dashboard.reading import list_at, object_at, read_text, text_at
from bottega.service.dashboard.verdict_view import kernel_html, verdict_html

KERNEL_NAME = re.compile(r"[0-9A-Za-z_-]{1,100}")
"""What may be the name of a file in kernels/."""


def task_view(run: OpenRun, asked: Asked, links: Links) -> Html:
    assert run.bench is not None
    found, wanted = run.bench.table(), asked.text("task")
    task = next((each for each in found.tasks if each.id == wanted), None)
    if task is None:
        return el("p", "No such task is in this run.")
    line = next((line for line in reversed(run.bench.tasks.lines) if line.row.id == wanted), None)
    source = text_at(run.bench.tasks.body(line), "source") if line is not None else ""
    rows, targets = [], []
    lines = found.lines.get(task.id, [])
    part, others = pages(len(lines), asked, lambda **query: links.run(run.id, **query))
    for each in lines[part]:
        row, where = each.row, links.run(run.id, view="attempt", line=each.number)
        speeds = "; ".join(f"{name} {speed(span)}" for name, span in row.verdict.speedup.items()) if row.verdict else ""
        rows.append((link(where, f"{row.sample}.{row.turn}"), badge(row.ending), speeds, row.language, f"{row.tokens:,}", seconds(row.seconds),
                     el("span", row.said, cls="said")))  # fmt: skip
        targets.append(where)
    return joined(
        facts((("task", task.name), ("id", task.id), ("level", task.level), ("family", task.family), ("note", task.trouble))),
        section(
            "Attempts",
            others,
            table(("sample.turn", "outcome", "speedup", "language", "tokens", "took", "said"), rows, "grid", targets),
        ),
        folded("The task", code(source), open_=False) if source else "",
    )


def attempt_view(run: OpenRun, asked: Asked, links: Links) -> Html:
    assert run.bench is not None
    line = run.bench.attempts.numbered(asked.whole("line"))
    if line is None:
        return el("p", "No such attempt is in this run.")
    row, body = line.row, run.bench.attempts.body(line)
    found = run.bench.table().lines.get(row.task, [])
    place = next((number for number, each in enumerate(found) if each.number == line.number), 0)
    around = [
        link(links.run(run.id, view="attempt", line=found[at].number), word)
        for at, word in ((place - 1, "previous"), (place + 1, "next"))
        if 0 <= at < len(found)
    ]
    before = next((each.row for each in found if each.row.sample == row.sample and each.row.turn == row.turn - 1), None)
    verdict = object_at(body, "verdict")
    told = facts(
        (
            ("task", link(links.run(run.id, view="task", task=row.task), row.task)),
            ("sample and turn", f"{row.sample}.{row.turn}"),
            ("language", row.language),
            ("tokens", f"{row.tokens:,}"),
            ("took", seconds(row.seconds)),
            ("skills shown", ", ".join(each for each in list_at(body, "skills") if isinstance(each, str))),
            ("no kernel", text_at(body, "junk", longest=4000)),
        )
    )
    return joined(
        el("p", *(joined(each, " ") for each in around), cls="pages"),
        told,
        verdict_html(verdict) if verdict else "",
        kernel_html(
            _kernel(run, row.candidate),
            _kernel(run, before.candidate) if before and before.candidate else None,
            "this turn",
            "the turn before",
        ),
        raw({name: value for name, value in body.items() if name != "verdict"}, "The rest of the attempt"),
    )


def _kernel(run: OpenRun, candidate: str) -> str:
    if not KERNEL_NAME.fullmatch(candidate):
        return ""
    found = read_text(run.folder / "kernels" / f"{candidate}.py")
    return found.text if found is not None else "(the file is missing)"
