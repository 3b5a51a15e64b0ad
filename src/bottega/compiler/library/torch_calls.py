"""Lines of a call graph that were not fused and that torch computes as they stand: library functions that only pass on what they get."""

from __future__ import annotations

FUNCTIONS = {
    "torch": (
        *(
            "mean",
            "var",
            "std",
            "amax",
            "amin",
            "exp",
            "log",
            "sqrt",
            "rsqrt",
            "sin",
            "cos",
            "erf",
            "square",
            "reciprocal",
            "neg",
        ),
        *(
            "clamp",
            "where",
            "maximum",
            "minimum",
            "lerp",
            "flatten",
            "transpose",
            "unsqueeze",
            "squeeze",
            "cat",
            "stack",
            "chunk",
        ),
        *("narrow", "logsumexp", "tril", "triu", "zeros_like", "outer", "norm"),
    ),
    "torch.nn.functional": (
        *(
            "normalize",
            "pad",
            "interpolate",
            "dropout",
            "pixel_shuffle",
            "logsigmoid",
            "softshrink",
            "hardshrink",
            "tanhshrink",
        ),
        *("celu", "cosine_similarity", "mse_loss", "smooth_l1_loss", "huber_loss", "kl_div", "triplet_margin_loss", "l1_loss"),
        *("binary_cross_entropy_with_logits", "embedding", "glu"),
    ),
}
METHODS = ("permute", "flip", "masked_fill")
"""Which take as methods what the functions of these names do not."""


def torch_calls_source() -> str:
    """A file of these functions."""
    calls = {name: (module, f"{module}.{name}(input, ") for module, names in FUNCTIONS.items() for name in names}
    calls |= {name: ("torch", f"input.{name}(") for name in METHODS}
    texts = [
        f'def {name}(input, *options, **more):\n    """{module}.{name}."""\n    return {call}*options, **more)'
        for name, (module, call) in calls.items()
    ]
    return "\n\n\n".join(["import torch", *texts]) + "\n"
