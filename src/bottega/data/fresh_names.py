"""Words that may stand for a name: those that people use, and invented ones, so that a model also meets names that it never saw."""

from __future__ import annotations

import builtins
import hashlib
import keyword

ARGUMENTS = (
    "x", "a", "b", "u", "v", "z", "h", "s", "t", "w", "q", "k", "inp", "inputs", "data", "feats", "features", "tensor",
    "signal", "image", "images", "batch", "tokens", "hidden", "state", "states", "query", "keys", "vals", "value", "values",
    "left", "right", "base", "index", "idx", "mask", "residual", "gate", "logits", "target", "targets", "pred", "labels",
    "src", "tgt", "mat", "first", "second", "other", "frames", "audio", "seq", "memory", "context", "points", "coords",
    "series", "table", "rows", "xs", "ys", "img", "video", "latents", "noise", "anchor", "positive",
)  # fmt: skip
ATTRIBUTES = (
    "fc", "lin", "proj", "layer", "op", "module", "net", "head", "body", "stem", "inner", "outer", "block", "core", "trunk",
    "branch", "first", "second", "last", "pre", "post", "mix", "expand", "reduce", "squeeze", "gain", "offset", "shift",
    "factor", "scale_param", "alpha", "beta", "theta", "coef", "norm_layer", "bn", "ln", "gn", "act", "nonlin",
    "activation_fn", "pool_layer", "drop", "conv_a", "conv_b", "conv_op", "dense", "affine", "mixing", "gate_proj",
    "out_proj", "in_proj", "up", "down", "kernel_op", "table", "emb", "filters", "taps", "branch1x1", "branch3x3", "conv1x1",
    "reduce3", "b5x5", "fc1", "fc2", "conv2_1", "bn2a", "layer3_0", "w1", "w2",
)  # fmt: skip
CONSTANTS = (
    "B", "N", "C", "D", "E", "M", "T", "L", "K", "bs", "n", "c", "dim", "dims", "size", "length", "width_in", "depth_in",
    "rows", "cols", "n_batch", "n_feat", "feat_dim", "inner_dim", "channels_in", "num_rows",
)  # fmt: skip
ONSETS = (
    "b",
    "br",
    "d",
    "dr",
    "f",
    "fl",
    "g",
    "gr",
    "h",
    "k",
    "kl",
    "l",
    "m",
    "n",
    "p",
    "pr",
    "r",
    "s",
    "st",
    "t",
    "tr",
    "v",
    "w",
    "z",
)
VOWELS = ("a", "e", "i", "o", "u", "ai", "ou")
ENDS = ("", "", "", "n", "r", "l", "x", "m", "k")
C_WORDS = frozenset(("goto", "volatile", "virtual", "signed", "default", "inline", "double", "float"))
"""Of C++, what syllables may come to."""


def draw(key: str, what: str, among: int) -> int:
    """From 0 to `among` - 1, always the same for the same key."""
    return int.from_bytes(hashlib.sha256(f"{key}/{what}".encode()).digest()[:4], "big") % max(1, among)


def invented(key: str, what: str) -> str:
    """Two or three syllables, now and then in two words or with a number."""
    count = 2 + draw(key, f"{what}/syllables", 2)
    word = "".join(_syllable(key, f"{what}/{number}") for number in range(count))
    form = draw(key, f"{what}/form", 8)
    if form == 0:
        return f"{word}_{_syllable(key, f'{what}/more')}{_syllable(key, f'{what}/most')}"
    return f"{word}_{draw(key, f'{what}/number', 10)}" if form == 1 else word


def usable(word: str) -> bool:
    """Whether it may be a name in Python and in C++."""
    return not keyword.iskeyword(word) and not hasattr(builtins, word) and word not in C_WORDS


def _syllable(key: str, what: str) -> str:
    onset, vowel, end = (
        options[draw(key, f"{what}/{number}", len(options))] for number, options in enumerate((ONSETS, VOWELS, ENDS))
    )
    return onset + vowel + end
