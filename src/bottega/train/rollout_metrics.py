"""Metrics of a step's rollouts: a pure function of its episodes, without torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from bottega.core.episode import Episode
from bottega.core.trace import Trace
from bottega.core.turn import Turn
from bottega.core.verdict import Outcome
from bottega.train.rewards.selection import best_turn, turn_rewards
from bottega.train.rewards.verdict_reader import Reward, VerdictReader, judged

FAST = (1.0, 1.2, 1.5, 2.0)
"""fast_p for these p: the share of rollouts whose best kernel is right and at least p times as fast."""


def rollout_metrics(episodes: Sequence[Episode], reward: Reward, reading: VerdictReader) -> dict[str, float]:
    """An agent's steps count as answers; rewards and quality are those of its kernels."""
    traces = [trace for episode in episodes for trace in episode.of("write")]
    turns = [turn for trace in traces for turn in trace.turns]
    lines = [replace(trace, turns=trace.kernels) for trace in traces]
    found = {
        "reward": _mean(value for line in lines for value in turn_rewards(line.turns, reward)),
        "reward_best": _mean(best_turn(turn_rewards(line.turns, reward)) for line in lines),
        **_quality([turn for line in lines for turn in line.turns], reading),
        **{f"fast_{p:g}": _share(_best(line, reading) >= p for line in lines) for p in FAST},
        "junk": _share(bool(turn.fault) for turn in turns),
        "cut": _share(turn.stop_reason == "length" for turn in turns),
        "unjudged": _share(not judged(turn) for line in lines for turn in line.turns),
        "tokens/answer": _mean(turn.output_tokens for turn in turns),
        "tokens/prompt": _mean(turn.prompt_tokens for turn in turns),
        "tokens/drawn": float(sum(turn.output_tokens for e in episodes for trace in e.traces for turn in trace.turns)),
    }
    for number in range(max((len(line.turns) for line in lines), default=0)):
        at = [line for line in lines if len(line.turns) > number]
        found |= {
            f"turn{number + 1}/reward": _mean(turn_rewards(line.turns, reward)[number] for line in at),
            **{
                f"turn{number + 1}/{name}": value
                for name, value in _quality([line.turns[number] for line in at], reading).items()
            },
        }
    return {**found, **_skills(episodes)}


def _quality(turns: Sequence[Turn], reading: VerdictReader) -> dict[str, float]:
    accepted = [turn.verdict for turn in turns if turn.verdict is not None and turn.verdict.outcome.accepted]
    speedups = [reading.speedup(verdict) for verdict in accepted]
    shares = [verdict.coverage.get("share") for verdict in accepted]
    found = {"correct": len(accepted) / len(turns) if turns else 0.0}
    found |= {"speedup": _mean(speedups)} if speedups else {}
    found |= {"coverage": _mean(shares)} if any(share is not None for share in shares) else {}
    rejected = [turn for turn in turns if turn.verdict is not None and turn.verdict.outcome is Outcome.REJECTED]
    return {**found, "dishonest": len(rejected) / len(turns) if turns else 0.0}


def _skills(episodes: Sequence[Episode]) -> dict[str, float]:
    chosen = [names for episode in episodes for names in episode.schemes[1:]]
    faults = [trace for episode in episodes for trace in episode.of("select") if trace.turns[0].fault]
    asked = sum(len(episode.of("select")) for episode in episodes)
    return {
        "skills/retrieved": _mean(len(episode.retrieved) for episode in episodes),
        "skills/selected": _mean(len(names) for names in chosen),
        "skills/used": float(len({name for names in chosen for name in names})),
        "skills/selector_faults": len(faults) / asked if asked else 0.0,
    }


def _best(line: Trace, reading: VerdictReader) -> float:
    return max((reading.speedup(turn.verdict) for turn in line.turns if turn.verdict is not None), default=0.0)


def _mean(values: Iterable[float | None]) -> float:
    known = [float(value) for value in values if value is not None]
    return sum(known) / len(known) if known else 0.0


def _share(values: Iterable[bool]) -> float:
    return _mean(float(value) for value in values)
