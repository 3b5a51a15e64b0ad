"""Cards that belong together, and cards that do not: what a card requires is looked for, and what conflicts is not given to one writer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from bottega.core.skill import Relations, Skill


def feature_name(feature: str) -> str:
    """`num_warps` of `num_warps=8`."""
    return feature.partition("=")[0]


def place_of(feature: str) -> str:
    """`tile=BLOCK_M` of `tile=BLOCK_M=128`, `num_warps` of `num_warps=8`: what a kernel can have once."""
    name, _, value = feature.partition("=")
    place, found, _ = value.partition("=")
    return f"{name}={place}" if found and place.isidentifier() else name


def names_of(features: Iterable[str]) -> set[str]:
    return {feature_name(feature) for feature in features}


def conflicting(one: Skill, other: Skill) -> bool:
    first, second = one.relations, other.relations
    return bool(names_of(first.conflicts) & names_of(second.provides) or names_of(second.conflicts) & names_of(first.provides))


def missing(skill: Skill, beside: Iterable[Skill]) -> list[str]:
    """Features that a card requires and no other card brings."""
    there = {name for other in beside for name in names_of(other.relations.provides)}
    return [name for name in map(feature_name, skill.relations.requires) if name not in there]


def with_required(skills: Sequence[Skill], find: Callable[[str], Sequence[Skill]], most: int) -> list[Skill]:
    """The cards, best first, each with what it requires right behind it; at most so many. `find` looks for cards that bring a feature."""
    found: list[Skill] = []
    for skill in skills:
        if skill.name in {each.name for each in found}:
            continue
        found.append(skill)
        for feature in missing(skill, skills):
            bringing = [each for each in find(feature) if feature in names_of(each.relations.provides)]
            names = {each.name for each in (*found, *skills)}
            found += [each for each in bringing if each.name not in names and not conflicting(each, skill)][:1]
    return found[:most]


def in_order(skills: Sequence[Skill]) -> list[Skill]:
    """Each card behind those that bring what it requires; else in the order given. A circle is left as it stands."""
    left, done = list(skills), list[Skill]()
    while left:
        free = (each for each in left if not _waiting(each, left))
        done.append(left.pop(left.index(next(free, left[0]))))
    return done


def _waiting(skill: Skill, left: Sequence[Skill]) -> bool:
    wanted = names_of(skill.relations.requires)
    return any(wanted & names_of(other.relations.provides) for other in left if other is not skill)


def compatible(skills: Sequence[Skill], most: int) -> list[Skill]:
    """The first so many cards without those that conflict with a better one, or that bring only what better ones bring: of several kernels that
    were mined, each has a card for the same step."""
    taken, there = list[Skill](), set[str]()
    for skill in skills:
        brought = {place_of(feature) for feature in skill.relations.provides}
        if len(taken) < most and not (brought and brought <= there) and not any(conflicting(skill, other) for other in taken):
            taken.append(skill)
            there |= brought
    return taken


def relations_text(relations: Relations) -> str:
    """For prompts and pages; empty where there is nothing to say."""
    told = [f"requires {', '.join(map(feature_name, relations.requires))}"] if relations.requires else []
    told += [f"conflicts with {', '.join(map(feature_name, relations.conflicts))}"] if relations.conflicts else []
    return "; ".join(told)
