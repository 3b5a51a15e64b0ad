"""Typed inputs as the words of a prompt: a device, a language, a precision, a goal, a skill. The templates hold the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bottega.agents.answers.fences import fenced
from bottega.core.device import DeviceFacts
from bottega.core.skill import NOTHING_MORE, Relations, Skill
from bottega.languages import language_named
from bottega.skills.relations import relations_text

BASELINES = {
    "eager": "PyTorch eager",
    "compile": "torch.compile",
    "autotune": "torch.compile with max-autotune",
    "best": "PyTorch eager and torch.compile, tuned or not",
}

_EXACT = "Compute in the task's own data types; tf32, fp16 and bf16 shortcuts fail."
_PRECISIONS = {
    "fp32": _EXACT,
    "tf32": "tf32 matrix products are allowed; fp16 and bf16 shortcuts fail.",
    "fp16": "fp16 arithmetic is allowed; sums stay in fp32.",
    "bf16": "bf16 arithmetic is allowed; sums stay in fp32.",
}


def precision_rule(precision: str) -> str:
    return _PRECISIONS.get(precision, _EXACT)


def goal(baseline: str, target: float | None) -> str:
    against = BASELINES.get(baseline, baseline)
    return f"as much faster than {against} as possible" if target is None else f"at least {target:g}x the speed of {against}"


def device_text(device: DeviceFacts) -> str:
    """One line; what is unknown is left out."""
    on_cpu = device.kind == "cpu"
    memory = f"{device.memory_gib:.4g} GiB" + (f" at {device.bandwidth_gbs:.4g} GB/s" if device.bandwidth_gbs else "")
    parts = [
        device.name,
        device.arch,
        f"{device.cores} {'threads' if on_cpu else 'SMs'}" if device.cores else "",
        f"{memory} memory" if device.memory_gib else "",
        f"{device.cache_mib:.4g} MiB {'shared cache' if on_cpu else 'L2'}" if device.cache_mib else "",
        f"{device.shared_kib:.4g} KiB {'cache a core' if on_cpu else 'shared memory a block'}" if device.shared_kib else "",
        f"{device.registers} registers an SM" if device.registers else "",
    ]
    return f"{device.kind}: " + ", ".join(part for part in parts if part)


def skill_values(skill: Skill, language: str, example: bool = True) -> dict[str, str]:
    """A card as the values of a template's `skill` part."""
    asked = [f"{kind.replace('_', ' ')}: {text}" for kind, text in skill.stated if text != NOTHING_MORE]
    asked += [f"It {text}." for text in [relations_text(skill.relations)] if text]
    shown = language if language in skill.languages else skill.languages[0]
    return {
        "name": skill.name,
        "intent": skill.intent,
        "anchor": skill.anchor,
        "conditions": " ".join(asked),
        "technique": skill.technique.strip(),
        "example": fenced(skill.example, language_named(shown).fence) if example else "",
        "effect": skill.effect,
        "failures": bullets(skill.failures),
    }


def header_values(header: Mapping[str, Any]) -> dict[str, str]:
    """What a selector sees of a card."""
    relations = relations_text(Relations(**header.get("relations", {})))
    return {
        "name": str(header["name"]),
        "intent": str(header.get("intent", "")) + (f" ({relations})" if relations else ""),
        "scope": str(header.get("scope", "")),
        "tags": ", ".join(str(tag) for tag in header.get("tags", ())),
    }


def bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
