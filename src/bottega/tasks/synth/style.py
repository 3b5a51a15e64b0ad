"""Code style of one task: sampled once for each task, so that a file is consistent and files differ."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from bottega.tasks.synth.catalogue.words import FIRST_NAMES


@dataclass(frozen=True)
class Style:
    forms: dict[str, float]
    """Liking for each kind of form."""
    arguments: str
    """What the constructor takes: `all`, `sizes` or `none`."""
    defaults: bool
    constants: str
    """Sizes of inputs: `after` or `before` the class, or `inline`."""
    capitals: bool
    """Module constants in capitals."""
    docstring: str
    """`none`, `short`, `long` or `module`."""
    comments: str
    """`none`, `some` or `every`."""
    hints: bool
    inline: float
    reuse: float
    """How often a value takes the name of the one it was made of."""
    sequential: bool
    old_super: bool
    keyword_inputs: bool
    """Inputs are assigned to variables before they are returned."""
    always_f: bool
    functional: str
    """How torch.nn.functional is called: `F` or `nn.functional` or `torch.nn.functional`."""
    main: str
    """Name of the first input."""
    bare_init: bool


def draw_style(rng: Random) -> Style:
    favourite = rng.choice(("module", "module", "functional", "torch", "method", "mixed"))
    forms = dict.fromkeys(("module", "functional", "torch", "method", "expression"), 1.0)
    if favourite != "mixed":
        forms[favourite] = 6.0
    forms["expression"] = rng.choice((0.3, 1.0, 3.0))
    return Style(
        forms=forms,
        arguments=rng.choices(("all", "sizes", "none"), (5, 3, 2))[0],
        defaults=rng.random() < 0.25,
        constants=rng.choices(("after", "before", "inline"), (6, 2, 3))[0],
        capitals=rng.random() < 0.15,
        docstring=rng.choices(("none", "short", "long", "module"), (4, 4, 2, 1))[0],
        comments=rng.choices(("none", "some", "every"), (6, 2, 1))[0],
        hints=rng.random() < 0.4,
        inline=rng.choice((0.0, 0.0, 0.25, 0.6)),
        reuse=rng.choice((1.0, 1.0, 0.8, 0.2)),
        sequential=rng.random() < 0.2,
        old_super=rng.random() < 0.3,
        keyword_inputs=rng.random() < 0.3,
        always_f=rng.random() < 0.15,
        functional=rng.choices(("F", "nn.functional", "torch.nn.functional"), (8, 1, 1))[0],
        main=rng.choice(FIRST_NAMES),
        bare_init=rng.random() < 0.7,
    )


SYNONYMS: dict[str, tuple[str, ...]] = {
    "batch_size": ("batch_size", "batch_size", "batch_size", "batch", "n", "bs"),
    "features": ("features", "num_features", "in_features", "hidden_size", "dim", "d_model"),
    "cols": ("cols", "columns", "width", "n_cols"),
    "rows": ("rows", "n_rows", "num_rows"),
    "seq_len": ("seq_len", "seq_len", "sequence_length", "num_tokens", "length", "T"),
    "dim": ("dim", "dim", "hidden_dim", "embed_dim", "d_model", "hidden_size"),
    "channels": ("channels", "num_channels", "in_channels", "c"),
    "height": ("height", "height", "h", "H"),
    "width": ("width", "width", "w", "W"),
    "depth": ("depth", "depth", "d", "D"),
    "length": ("length", "length", "seq_len", "signal_length", "L"),
    "num_heads": ("num_heads", "num_heads", "n_heads", "heads"),
    "head_dim": ("head_dim", "head_dim", "dim_head", "d_head"),
    "out_features": ("out_features", "out_features", "output_size", "hidden_size", "out_dim"),
    "out_channels": ("out_channels", "out_channels", "out_channels", "out_ch", "num_filters"),
    "kernel_size": ("kernel_size", "kernel_size", "kernel_size", "k"),
    "num_groups": ("num_groups", "num_groups", "groups"),
}
"""Names for one thing; the first is torch's own, or ours."""
