"""What every repair and lint rule is worth: answers that end at another source without it, and how both sources were judged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bottega.agents.answers.context import AnswerContext
from bottega.agents.answers.pipeline import DEPLOYMENT, REPAIRS, AnswerPolicy, read
from bottega.compiler.source.check import RULES
from bottega.core.verdict import Outcome, Verdict

Verdicts = Mapping[tuple[str, str], Verdict]
"""By the task's id and the candidate's."""
LEAST = 0.02
"""A rule that helps a smaller share of the answers is not worth its lines."""
WITHOUT = {name: DEPLOYMENT.without(name) for name in (*REPAIRS, *RULES)} | {"all lint": DEPLOYMENT.without(*RULES)}


def chosen(texts: Sequence[str], context: AnswerContext, policy: AnswerPolicy) -> tuple[str, bool]:
    """The source that `bottega.episodes.writing` would judge, and whether it would sample again after these texts."""
    first = ""
    for number, text in enumerate(texts):
        answer = read(text, context, policy)
        if not answer.fails:
            return answer.source, False
        first = first if number else answer.source
    return first, True


def variants(texts: Sequence[str], context: AnswerContext) -> dict[str, tuple[str, bool]]:
    """`chosen` with each rule left out that has a say in these texts, and by the whole policy under the empty name."""
    answers = [read(text, context, DEPLOYMENT) for text in texts]
    active = {name for answer in answers for name in (*answer.repairs, *(finding.rule for finding in answer.findings))}
    if active.intersection(RULES):
        active.add("all lint")
    return {
        name: chosen(texts, context, policy) for name, policy in {"": DEPLOYMENT, **WITHOUT}.items() if name in {"", *active}
    }


def summary(answers: Sequence[tuple[str, Mapping[str, str]]], verdicts: Verdicts) -> dict[str, dict[str, Any]]:
    """Of answers, each its task and the sources' ids by variant: for each rule the answers that it changes, helps and hurts."""
    return {
        name: _counted([row for row in answers if row[1].get(name, row[1][""]) != row[1][""]], name, verdicts)
        for name in WITHOUT
    }


def _counted(changed: Sequence[tuple[str, Mapping[str, str]]], name: str, verdicts: Verdicts) -> dict[str, Any]:
    ends = [(_right(task, ids[""], verdicts), _right(task, ids[name], verdicts)) for task, ids in changed]
    judged = [(whole, without) for whole, without in ends if whole is not None and without is not None]
    helped, hurt = (sum(end == wanted for end in judged) for wanted in ((True, False), (False, True)))
    return {"changed": len(changed), "judged": len(judged), "helped": helped, "hurt": hurt}


def _right(task: str, source: str, verdicts: Verdicts) -> bool | None:
    """None where nobody has judged it, or its task could not be judged. No code is wrong."""
    verdict = verdicts.get((task, source))
    if source and (verdict is None or verdict.outcome is Outcome.INVALID_TASK):
        return None
    return verdict is not None and verdict.outcome.accepted


def table(rows: Mapping[str, Mapping[str, Any]], count: int) -> Iterable[str]:
    """As Markdown; `count`: of all answers. A rule whose unjudged answers could lift it over the limit is undecided."""
    yield f"| rule, of {count} answers | changed (judged) | helped | hurt | helps at most | |"
    yield "|---|---|---|---|---|---|"
    for name, row in rows.items():
        most = (row["helped"] + row["changed"] - row["judged"]) / count
        word = "stays" if row["helped"] / count >= LEAST else "goes" if most < LEAST else "undecided"
        yield f"| {name} | {row['changed']} ({row['judged']}) | {row['helped']} | {row['hurt']} | {most:.1%} | {word} |"
