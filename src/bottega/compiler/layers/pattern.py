"""The texts of layers, as patterns: one text for every network, in which only what is a matter of taste follows the style."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from bottega.compiler.backends.triton.naming import hand_of
from bottega.compiler.layers.observe import NORMS, Call
from bottega.compiler.style import Style

LARGEST = 2**31 - 1
"""Elements that the kernels' 32-bit places can tell apart."""
CLASSES = ("{}", "{}", "Triton{}", "Own{}")


@dataclass(frozen=True)
class Pattern:
    """One kind of text: kernels and functions first, then classes, each of which stands for one of `torch.nn`."""

    kernel: str
    classes: dict[str, str]
    """By the name of torch's class, the subclass."""


def applies(call: Call) -> bool:
    """Whether a layer computes this call itself; the same conditions stand in the layer's `forward`."""
    if call.dtype != "float32" or call.largest > LARGEST:
        return False
    if call.kind == "Linear":
        return _rows(call) >= 32 and min(call.weight) >= 32
    if call.kind in NORMS:
        return call.plain
    if call.groups != 1 or not call.plain or len(call.shape) != len(call.weight):
        return False
    if call.kind == "ConvTranspose2d" and not call.turnable:
        return False
    return min(call.weight[:2]) >= 16


def _rows(call: Call) -> int:
    rows = 1
    for size in call.shape[:-1]:
        rows *= size
    return rows


def names_of(kinds: Collection[str], taken: Collection[str], style: Style) -> dict[str, str]:
    """What our classes are called: torch's name, or one that says whose it is; never one that the task has."""
    pattern = style.pick("layer class", CLASSES)
    found: dict[str, str] = {}
    for kind in kinds:
        options = [pattern, *CLASSES[1:], "{}Layer"]
        found[kind] = next(option.format(kind) for option in options if option.format(kind) not in taken)
    return found


def worded(text: str, style: Style, names: Mapping[str, str]) -> str:
    """The text in this style's words, with the classes under their names."""
    hand = hand_of(style)
    swap = {"acc": hand.accumulator, "start": hand.start, "BM": hand.tile[0], "BN": hand.tile[1], "BK": hand.tile[2]}
    swap |= {word: hand.kernel.format(word.removesuffix("_kernel")) for word in set(re.findall(r"\b\w+_kernel\b", text))}
    swap |= {word: hand.pointer.format(word.removesuffix("_ptr")) for word in set(re.findall(r"\b\w+_ptr\b", text))}
    swap |= {"tiles": style.pick("tiles", ("tiles", "tile_sizes", "pick_tiles"))}
    swap |= {"across": style.pick("across", ("across", "tiles_n", "columns"))}
    swap |= {"piece": style.pick("piece", ("piece", "part", "slot")), "SPLIT": style.pick("split", ("SPLIT", "SPLIT_K"))}
    swap |= {"packed": style.pick("packed", ("packed", "taps_first", "weights"))}
    for kind, name in names.items():
        text = re.sub(rf"\bclass {kind}\b", f"class {name}", text)
    text = re.sub(r"(?<![\w.])(" + "|".join(map(re.escape, sorted(swap, key=len, reverse=True))) + r")\b",
                  lambda match: swap[match.group(1)], text)  # fmt: skip
    lines = text.strip("\n").split("\n")
    return "\n".join(line for line in lines if hand.comments or not line.lstrip().startswith("#"))
