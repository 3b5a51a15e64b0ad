"""Losses: predictions and targets in, one number or one number for each sample out.

A mean over many elements hardly changes between inputs, and then a part of the work would pass for all of it. So predictions of a loss that is one
number come with a scale that is drawn anew each time.
"""

from __future__ import annotations

from typing import Any

from bottega.tasks.synth.operator import Operand, Operator, first, forms, operand, roles


def loss(name: str, text: str, *, target: str = "normal", **more: Any) -> Operator:
    given: dict[str, Any] = {
        "others": (Operand("targets", lambda s: s.shape, target),),
        "first": first("batch_size@1 dim:64-4096"),
        "contents": "scaled",
    } | more
    made = forms(text, "loss_fn")
    return Operator(name, "losses", made, ("rows",), roles=roles("alone"), dtypes=("float32",), **given)


CLASSES = first("batch_size@16 num_classes:10-1000")
LABELS = (operand("targets", "batch_size", "integers", lambda s: s.shape[1]),)

LOSSES = (
    loss(
        "mse_loss",
        "F.mse_loss({x}, {y}) | torch.mean(({x} - {y}) ** 2) | (({x} - {y}) ** 2).mean()",
        target="scaled",
        often=1.5,
    ),
    loss(
        "mse_by_sample",
        "F.mse_loss({x}, {y}, reduction='none').mean(dim=1) | ({x} - {y}).pow(2).mean(dim=-1)",
        contents="normal",
    ),
    loss("l1_loss", "F.l1_loss({x}, {y}) | torch.mean(torch.abs({x} - {y}))", target="scaled"),
    loss(
        "smooth_l1_loss",
        "F.smooth_l1_loss({x}, {y}) | F.smooth_l1_loss({x}, {y}, beta={beta})",
        target="scaled",
        parameters={"beta": (0.5, 1.0, 2.0)},
    ),
    loss(
        "huber_loss",
        "F.huber_loss({x}, {y}, delta={delta}) | F.huber_loss({x}, {y}, reduction='mean', delta={delta})",
        target="scaled",
        parameters={"delta": (0.5, 1.0, 1.5)},
    ),
    loss("log_cosh_loss", "torch.mean(torch.log(torch.cosh({x} - {y})))", target="scaled"),
    loss("cross_entropy", "F.cross_entropy({x}, {y})", first=CLASSES, others=LABELS, often=2.0, contents="scaled_wide"),
    loss(
        "cross_entropy_by_sample",
        ("F.cross_entropy({x}, {y}, reduction='none') | -torch.log_softmax({x}, dim=1).gather(1, {y}.unsqueeze(1)).squeeze(1)"),
        first=CLASSES,
        others=LABELS,
        contents="normal",
    ),
    loss(
        "cross_entropy_smoothed",
        "F.cross_entropy({x}, {y}, label_smoothing={label_smoothing})",
        first=CLASSES,
        others=LABELS,
        parameters={"label_smoothing": (0.05, 0.1, 0.2)},
        contents="scaled_wide",
    ),
    loss(
        "nll_by_sample",
        "F.nll_loss(F.log_softmax({x}, dim=1), {y}, reduction='none')",
        first=CLASSES,
        others=LABELS,
        contents="normal",
    ),
    loss(
        "bce_with_logits",
        (
            "F.binary_cross_entropy_with_logits({x} * {temperature}, {y}) | "
            "F.binary_cross_entropy(torch.sigmoid({x} * {temperature}), {y})"
        ),
        target="zero_one",
        parameters={"temperature": (8.0, 10.0)},
    ),
    loss(
        "bce_by_sample",
        (
            "F.binary_cross_entropy_with_logits({x}, {y}, reduction='none').mean(dim=-1) | "
            "F.binary_cross_entropy_with_logits({x}, {y}, reduction='none').sum(dim=1)"
        ),
        first=first("batch_size@16 num_labels:16-256"),
        target="zero_one",
        contents="wide",
    ),
    loss(
        "focal_by_sample",
        (
            "{=ce} = F.binary_cross_entropy_with_logits({x}, {y}, reduction='none')\n"
            "((1 - torch.exp(-{=ce})) ** {gamma} * {=ce}).mean(dim=1)"
        ),
        first=first("batch_size@16 num_labels:16-256"),
        target="zero_one",
        contents="wide",
        parameters={"gamma": (1.5, 2.0, 3.0)},
    ),
    loss(
        "kl_div",
        (
            "F.kl_div(torch.log_softmax({x}, dim=-1), {y}, reduction='batchmean') | "
            "F.kl_div(F.log_softmax({x}, dim=1), {y}, reduction='batchmean')"
        ),
        first=first("batch_size@4 dim:64-1024"),
        target="probabilities",
    ),
    loss(
        "kl_by_sample",
        "({y} * (torch.log({y} + 1e-8) - F.log_softmax({x}, dim=-1))).sum(dim=-1)",
        first=first("batch_size@4 dim:16-128"),
        target="probabilities",
        contents="wide",
    ),
    loss(
        "squared_hinge",
        ("torch.mean(F.relu({margin} - {x} * {y}) ** 2, dim=1) | F.relu({margin} - {x} * {y}).square().mean(dim=-1)"),
        first=first("batch_size@16 dim:32-512"),
        target="plus_minus",
        parameters={"margin": (0.5, 1.0, 1.5)},
        contents="wide",
    ),
    loss(
        "hinge_scaled",
        "torch.mean(torch.clamp({margin} - {x} * {y}, min=0)) | F.relu({margin} - {x} * {y}).mean()",
        target="plus_minus",
        parameters={"margin": (0.25, 0.5)},
    ),
    loss(
        "cosine_loss",
        "1 - F.cosine_similarity({x}, {y}, dim=1) | 1 - F.cosine_similarity({x}, {y}, dim=-1)",
        first=first("batch_size@16 dim:16-400"),
        contents="normal",
    ),
    loss(
        "cosine_embedding",
        (
            "F.cosine_embedding_loss({x}, {y}, {z}, margin={margin}, reduction='none') | "
            "F.cosine_embedding_loss({x}, {y}, {z}, reduction='none')"
        ),
        first=first("batch_size@16 dim:16-400"),
        others=(Operand("y", lambda s: s.shape), operand("labels", "batch_size", "plus_minus")),
        contents="normal",
        parameters={"margin": (0.0, 0.1)},
    ),
    loss(
        "triplet_margin",
        (
            "F.triplet_margin_loss({x}, {y}, {z}, margin={margin}, reduction='none') | "
            "F.relu((({x} - {y}) ** 2).sum(dim=1) - (({x} - {z}) ** 2).sum(dim=1) + {margin})"
        ),
        first=first("batch_size@16 dim:16-512"),
        others=(Operand("positive", lambda s: s.shape), Operand("negative", lambda s: s.shape)),
        contents="normal",
        parameters={"margin": (0.5, 1.0, 2.0)},
    ),
    loss(
        "margin_ranking",
        (
            "F.margin_ranking_loss({x}, {y}, {z}, margin={margin}, reduction='none').mean(dim=1) | "
            "F.relu(-{z} * ({x} - {y}) + {margin}).mean(dim=1)"
        ),
        first=first("batch_size@16 dim:16-512"),
        others=(Operand("y", lambda s: s.shape), Operand("labels", lambda s: s.shape, "plus_minus")),
        contents="normal",
        parameters={"margin": (0.2, 0.5)},
    ),
    loss(
        "poisson_nll", "F.poisson_nll_loss({x}, {y}, log_input=True) | torch.mean(torch.exp({x}) - {y} * {x})", target="uniform"
    ),
    loss(
        "gaussian_nll",
        (
            "0.5 * (torch.log({z}) + ({x} - {y}) ** 2 / {z}).mean(dim=1) | "
            "F.gaussian_nll_loss({x}, {y}, {z}, reduction='none').mean(dim=1)"
        ),
        first=first("batch_size@16 dim:16-512"),
        others=(Operand("targets", lambda s: s.shape), Operand("variance", lambda s: s.shape, "positive")),
        contents="normal",
    ),
    loss(
        "soft_margin",
        ("F.soft_margin_loss({x}, {y}, reduction='none').mean(dim=-1) | torch.log1p(torch.exp(-{y} * {x})).mean(dim=-1)"),
        first=first("batch_size@16 dim:16-512"),
        target="plus_minus",
        contents="wide",
    ),
    loss(
        "multi_margin",
        "F.multi_margin_loss({x}, {y}, margin={margin}, reduction='none')",
        first=first("batch_size@16 num_classes:10-200"),
        others=LABELS,
        contents="normal",
        parameters={"margin": (0.5, 1.0)},
    ),
    loss(
        "dice_by_sample",
        ("{=p} = torch.sigmoid({x})\n1 - (2 * ({=p} * {y}).sum(dim=1) + 1) / ({=p}.sum(dim=1) + {y}.sum(dim=1) + 1)"),
        first=first("batch_size@16 pixels:32-200"),
        target="zero_one",
        contents="wide",
    ),
)
