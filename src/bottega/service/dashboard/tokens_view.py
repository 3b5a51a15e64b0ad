"""One answer in training: what was asked, what was answered, what it was worth, and each token with the probability that it was drawn with."""

from __future__ import annotations

import math
from typing import Any

from bottega.core.foreign_text import printable
from bottega.service.dashboard.html import Html, badge, el, facts, folded, joined, link, number, section, words
from bottega.service.dashboard.open_run import OpenRun
from bottega.service.dashboard.page import Asked, Links, pages, raw
from bottega.service.dashboard.reading import list_at, object_at, stamp, text_at
from bottega.service.dashboard.search_tree import kernel_nodes
from bottega.service.dashboard.search_view import exchange
from bottega.service.dashboard.training_view import NO_LOG, step_log
from bottega.service.dashboard.verdict_view import kernel_html, verdict_html
from bottega.train.run_directory import MODEL, TOKENIZER

TOKENS_A_PAGE = 3000
LARGEST_TOKENIZER = 64 << 20
STEPS = (0.9, 0.6, 0.3, 0.1)
"""Probabilities that part the five shades."""


def turn_view(run: OpenRun, asked: Asked, links: Links) -> Html:
    step = asked.whole("step")
    log = step_log(run, step)
    line = log.index.numbered(asked.whole("line")) if log is not None else None
    if log is None or line is None:
        return el("p", NO_LOG)
    body = log.index.body(line)
    turn, row = object_at(body, "turn"), line.row
    started = next(
        (each.row for each in log.index.lines if each.row.type == "episode_started" and each.row.episode == row.episode), None
    )
    nodes = kernel_nodes(log.index.lines, row.episode)
    node = next((each for each in nodes if each.wrote.number == line.number), None)
    credit = (log.of_node(nodes, node) if node is not None else log.of_key(row.key)) or (None, None)
    verdict = object_at(log.index.body(node.judged), "verdict") if node is not None and node.judged is not None else {}
    parent = next((each for each in nodes if node is not None and each.name == node.parent), None)
    before = text_at(log.index.body(parent.wrote), "turn", "source") if parent is not None else None
    told = facts(
        (
            ("episode", link(links.run(run.id, view="episode", step=step, episode=row.episode), row.episode)),
            ("role", {"wrote": "write", "selected": "select", "summarised": "summarise"}.get(row.type, row.type)),
            ("reward", number(credit[0])),
            ("advantage", number(credit[1])),
            ("library version", str(started.facts.get("library_version")) if started else ""),
            ("policy version", str(row.facts.get("policy_version", ""))),
            ("stopped by", row.facts.get("stop_reason", "")),
            ("fault", row.facts.get("fault", "")),
            ("outcome", badge(node.outcome) if node is not None else ""),
        )
    )
    name, above = (node.name, node.parent) if node is not None else ("", "")
    asked_text = exchange(turn) if text_at(turn, "prompt") else joined(_decoded_prompt(run, turn), exchange(turn))
    return joined(
        told,
        asked_text,
        _tokens(run, turn, asked, links),
        section("Verdict", verdict_html(verdict)) if verdict else "",
        kernel_html(text_at(turn, "source"), before, name, above),
        raw({key: value for key, value in body.items() if key != "turn"}, "The rest of the event"),
    )


def _decoded_prompt(run: OpenRun, turn: dict[str, Any]) -> Html:
    ids = [each for each in list_at(turn, "prompt_ids") if isinstance(each, int)]
    decode = tokenizer_of(run)
    if not ids or decode is None:
        return el("p", "The prompt's text is not in this log.", cls="note")
    return folded("Prompt, decoded from its tokens", words("".join(decode(each) for each in ids)), id_="prompt")


def _tokens(run: OpenRun, turn: dict[str, Any], asked: Asked, links: Links) -> Html:
    ids, drawn = list_at(turn, "output_ids"), list_at(turn, "logprobs")
    if not ids:
        return el("p", "The answer's tokens are not in this log: a chat server gave only its text.", cls="note")
    decode = tokenizer_of(run)
    part, others = pages(len(ids), asked, lambda **query: links.run(run.id, **query), TOKENS_A_PAGE)
    spans = []
    for place in range(*part.indices(len(ids))):
        identity = ids[place] if isinstance(ids[place], int) else -1
        value = drawn[place] if place < len(drawn) else None
        known = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        chance = math.exp(min(0.0, float(value))) if known and value is not None else None
        text = decode(identity) if decode is not None else f"{identity} "
        told = f"token {identity}" + (f", log-prob {value:.3f}, p {chance:.2f}" if chance is not None else "")
        spans.append(el("span", printable(text).replace("\n", "⏎\n"), title=told, cls=f"token p{shade(chance)}"))
    how = "Shaded by the probability with which each token was drawn: the darker, the less likely."
    how += "" if decode is not None else " Ids alone: the run directory has no tokenizer."
    whole = [
        float(each) for each in drawn if isinstance(each, int | float) and not isinstance(each, bool) and math.isfinite(each)
    ]
    mean = f" Mean log-prob {sum(whole) / len(whole):.3f}." if whole else ""
    return section(
        f"Tokens of the answer ({len(ids):,})",
        el("p", how + mean, cls="note"),
        others,
        el("pre", *spans, cls="tokens words"),
        id_="tokens",
    )


def shade(chance: float | None) -> int:
    return 0 if chance is None else sum(chance < step for step in STEPS)


def tokenizer_of(run: OpenRun) -> Any:
    """From an id to its text, by the tokenizer in the run's folder; None where there is none."""
    places = (run.folder / name / "tokenizer.json" for name in (TOKENIZER, MODEL))
    path = next((place for place in places if stamp(place) is not None), run.folder / "tokenizer.json")
    state = stamp(path)
    if state is None or state.size > LARGEST_TOKENIZER:
        return None
    known = run.cache.get("tokenizer")
    if known is None or known[0] != state:
        known = run.cache["tokenizer"] = (state, _opened(str(path)))
    return known[1]


def _opened(path: str) -> Any:
    try:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(path)
    except Exception:  # not installed, or a file that is none: of the library's own kinds
        return None

    def decode(identity: int) -> str:
        try:
            text = tokenizer.decode([identity], skip_special_tokens=False)
        except (OverflowError, TypeError, ValueError):
            return f"⟨{identity}⟩"
        return text or tokenizer.id_to_token(identity) or f"⟨{identity}⟩"

    return decode
