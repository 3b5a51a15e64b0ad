"""`report.md`: what was found and how, for people and for whoever reads Markdown. Foreign text stands in fences that it cannot close."""

from __future__ import annotations

import re

from bottega.core.foreign_text import markdown_code, markdown_text
from bottega.episodes.delivery.result import BEATS_EAGER
from bottega.episodes.delivery.story import Chapter, Story

GUARD = "Looking at the arguments adds about {:.0f} µs to each call; the measurement is of the kernel alone."
NOT_HANDED_OVER = "Looked faster, and was not handed over"


def markdown(story: Story) -> str:
    parts = [f"# {markdown_text(story.title)}: {headline(story)}", *_summary(story)]
    if story.found:
        parts += ["## Use it", *_use(story)]
    parts += ["## Check it again", _fence(story.check, "sh")] if story.found else []
    parts += ["## The path there", _table(story), *(_chapter(chapter) for chapter in story.chapters)]
    if story.retrials:
        told = "\n".join(f"- {markdown_code(node)}: {markdown_text(why)}" for node, why in story.retrials)
        parts += [f"## {NOT_HANDED_OVER}", told]
    if story.proposals:
        told = "\n".join(f"- {markdown_code(name)}: {markdown_text(intent)}" for name, intent in story.proposals)
        parts += [
            "## Skills that were proposed",
            told,
            "They are in proposed.jsonl; `bottega skills import` takes them into a library.",
        ]
    parts += [
        "## What it took",
        _took(story),
        "## Where",
        "\n".join(f"- {markdown_text(name)}: {markdown_text(value)}" for name, value in story.fingerprint),
    ]
    parts += [_fence(story.command, "sh")] if story.command else []
    return "\n\n".join(part for part in parts if part) + "\n"


def headline(story: Story) -> str:
    """What a title says was found, and against what."""
    if story.found:
        return f"a kernel that beats {story.baseline}"
    return f"no kernel beats {story.baseline}" + ("; one beats eager" if story.kept else "")


def _summary(story: Story) -> list[str]:
    told = [f"- **{text}** against {name}, with its 99 % interval" for name, text in story.speedups]
    told += [f"- **{markdown_text(story.missed)}**"] if story.missed else []
    told += [f"- `{BEATS_EAGER}`: {text} against {name}, with its 99 % interval" for name, text in story.kept]
    told += [f"- written by {markdown_text(story.author)}"] if story.found else []
    verdict = story.verdict
    if verdict is not None:
        told += [f"- {name}: {ms:.4g} ms" for name, ms in verdict.times_ms.items()]
        told += [f"- {markdown_text(note)}" for note in verdict.notes]
    told += [f"- ended: {markdown_text(story.ended)}"]
    told += [f"- **stopped by an error:** {markdown_text(story.error)}"] if story.error else []
    told += [f"- drafts: {markdown_text(story.drafting)}"] if story.drafting else []
    told += [f"- about the module: {markdown_text(problem)}" for problem in story.problems]
    return ["\n".join(told)]


def _use(story: Story) -> list[str]:
    if story.refused:
        return [f"`{story.load}(original)` refuses: {markdown_text(story.refused)}"]
    return [_fence(f"import optimized\n\nmodule = optimized.{story.load}(original)", "python"), GUARD.format(story.guard_us)]


def _table(story: Story) -> str:
    rows = [
        f"| # | kernel | by | from | outcome | against {story.baseline} | tokens | s |",
        "|---:|---|---|---|---|---|---:|---:|",
    ]
    for chapter in story.chapters:
        outcome = f"**{chapter.outcome}**" if chapter.best else chapter.outcome
        parent = markdown_code(chapter.parent) if chapter.parent else ""
        cells = (chapter.number, markdown_code(chapter.node), markdown_text(chapter.author), parent, outcome, chapter.speedup)
        rows.append(f"| {' | '.join(map(str, cells))} | {chapter.tokens} | {chapter.seconds:.1f} |")
    counted = ", ".join(f"{count} {outcome}" for outcome, count in story.outcomes.items()) or "no attempt was made"
    return counted + "\n\n" + "\n".join(rows) if story.chapters else counted


def _chapter(chapter: Chapter) -> str:
    parts = [
        f"### {chapter.number}. {markdown_text(chapter.node)} by {markdown_text(chapter.author)}: {chapter.outcome} {chapter.speedup}".rstrip()
    ]
    parts += [f"skills: {markdown_text(', '.join(chapter.skills))}"] if chapter.skills else []
    parts += [markdown_text(chapter.summary)] if chapter.summary else []
    parts += [_fence(chapter.diagnosis, "text")] if chapter.diagnosis else []
    parts += [_fence(chapter.changed, "diff" if chapter.is_diff else "python")] if chapter.changed else []
    return "\n\n".join(parts)


def _took(story: Story) -> str:
    totals = story.totals
    cost = f", {totals.cost:.4f} in money" if totals.cost else ""
    return f"{totals.told}{cost}, {totals.seconds:.0f} s."


def _fence(text: str, language: str) -> str:
    """A fence longer than any run of its own sign in the text."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    sign = "`" * max(3, longest + 1)
    return f"{sign}{language}\n{text.rstrip()}\n{sign}"
