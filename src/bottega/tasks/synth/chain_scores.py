"""Attention scores between the steps of two sequences, with or without heads."""

from __future__ import annotations

from math import prod

from bottega.tasks.synth.chain_state import Chain

PRODUCTS = ("torch.matmul({x}, K)", "({x} @ K)", "torch.bmm({x}, K)")
SCALED = ("P * 0.125", "0.1 * P", "P / D ** 0.5", "P * D ** -0.5", "P / (D ** 0.5)", "P / 8.0", "P")
SOFTMAXES = ("F.softmax({x}, dim=-1)", "torch.softmax({x}, dim=-1)", "{x}.softmax(-1)", "F.log_softmax({x}, dim=-1)")
ADDED = ("{x} + M", "{x} + M", "{x} - M", "M + {x}")
HIDDEN = ("{x}.masked_fill(M, -1e9)", "{x}.masked_fill(~M, -10000.0)", "torch.where(M, {x}, -1e4)")
MASKS = ("mask", "mask", "attn_mask", "bias", "causal", "position_bias")


def scores(chain: Chain) -> bool:
    """A product with another sequence, a scale, often a mask, a softmax, and now and then the product with a third input."""
    *heads, length, features = chain.shape
    steps = chain.chance.choice((length, length, 2 * length, 100, 384))
    key = chain.second((*heads, steps, features), names=("k", "key", "keys", "y", "memory"))
    product = chain.chance.choice(PRODUCTS[: 2 if heads else 3])
    turned = chain.chance.choice(("-2, -1", "-1, -2", f"{len(heads) + 1}, {len(heads) + 2}"))
    scaled = chain.chance.choice(SCALED).replace("P", product).replace("D", str(features))
    chain.products += 2.0 * prod(chain.shape) * steps
    chain.write("scores", scaled.replace("K", f"{key}.transpose({turned})"), (*heads, length, steps))
    if chain.flag(0.65):
        _hide(chain)
    if chain.flag(0.85):
        chain.write("softmax", chain.chance.choice(SOFTMAXES))
    if chain.flag(0.35):
        value = chain.second((*heads, steps, features), names=("v", "value", "values", "z"))
        chain.products += 2.0 * prod(chain.shape) * features
        chain.write("matmul", chain.chance.choice(PRODUCTS[:2]).replace("K", value), (*heads, length, features))
    return True


def _hide(chain: Chain) -> None:
    """One mask for all samples, with or without single dimensions in front, or one for each; numbers that are added, or yes and no."""
    *heads, length, steps = chain.shape
    single = [1] * len(heads)
    is_shared = chain.flag(0.6)
    size = (*(single if chain.flag(0.4) else ()), length, steps)
    if not is_shared:
        size = (*single, chain.chance.choice((1, length)), steps)
    if chain.flag(0.6):
        drawn = "" if chain.flag(0.5) else "torch.where(torch.rand({size}) > 0.2, 0.0, -10000.0)"
        text = chain.chance.choice(ADDED)
    else:
        drawn, text = "torch.rand({size}) > 0.4", chain.chance.choice(HIDDEN)
        if chain.flag(0.4):  # one number for each step that is looked at
            name = chain.second((steps,), names=("key_mask", "valid", "padding_mask"), drawn="torch.randint(0, 2, ({size},))")
            spread = f"{name}[:, {'None, ' * (len(heads) + 1)}:]"
            chain.write("mask", text.replace("~M", f"({spread} == 0)").replace("M", f"({spread} == 0)"))
            return
    chain.write("mask", text.replace("M", chain.second(size, is_shared, MASKS, drawn)))
