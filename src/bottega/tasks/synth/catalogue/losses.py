"""Losses: predictions and targets in, one number or one number for each sample out.

A mean over many elements hardly changes between inputs, and then a part of the work would pass for all of it. So predictions of a loss that is one
number come with a scale that is drawn anew each time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bottega.tasks.synth.costs import OperatorCost
from bottega.tasks.synth.draw import Draw
from bottega.tasks.synth.operator import Operand, Operator, OperatorUse, forms, roles
from bottega.tasks.synth.value import Shape, Table, Value, averaged, count

Pair = Callable[[Table, Table], Table]


def _pairs(draw: Draw) -> Shape:
    return (draw.named("batch_size", draw.lead), draw.size("dim", 64, 4096))


def _classes(draw: Draw) -> Shape:
    return (draw.named("batch_size", max(16, draw.lead)), draw.size("num_classes", 10, 1000))


def loss(
    name: str,
    text: str,
    words: str,
    pair: Pair,
    *,
    first: Callable[[Draw], Shape] = _pairs,
    target: str = "normal",
    contents: str = "scaled",
    launches: int = 2,
    weight: float = 6,
    parameters: dict[str, Any] | None = None,
    by_sample: bool = False,
    others: tuple[Operand, ...] | None = None,
    often: float = 1.0,
) -> Operator:
    def law(s: OperatorUse) -> Table:
        with np.errstate(all="ignore"):
            values = pair(s.table, s.others[0].typical)
        return averaged(values, count(s.shape[1:]) if by_sample else count(s.shape), s.draw.rng)

    def work(s: OperatorUse, out: Value) -> OperatorCost:
        return OperatorCost(
            launches * s.x.bytes + sum(other.bytes for other in s.others), weight * s.x.numel, launches=launches
        )

    return Operator(
        name,
        "losses",
        forms(text, "loss_fn"),
        words,
        ("rows",),
        parameters or {},
        others or (Operand("targets", lambda s: s.shape, target),),
        shape=(lambda s: s.shape[:1]) if by_sample else (lambda s: ()),
        layout="vector" if by_sample else "scalar",
        law=law,
        work=work,
        first=first,
        contents=contents,
        roles=roles("alone"),
        dtypes=("float32",),
        often=often,
    )


def _labels(s: OperatorUse) -> Shape:
    return s.shape[:1]


LABELS = (Operand("targets", _labels, "integers", lambda s: s.shape[1]),)


def _entropy(a: Table, b: Table) -> Table:
    result: Table = np.log(np.exp(a).mean(axis=1, keepdims=True) * 50) - a
    return result


LOSSES = (
    loss(
        "mse_loss",
        "F.mse_loss({x}, {y}) | torch.mean(({x} - {y}) ** 2) | (({x} - {y}) ** 2).mean()",
        "mean squared error",
        lambda a, b: (a - b) ** 2,
        contents="scaled",
        target="scaled",
        often=1.5,
    ),
    loss(
        "mse_by_sample",
        "F.mse_loss({x}, {y}, reduction='none').mean(dim=1) | ({x} - {y}).pow(2).mean(dim=-1)",
        "squared error of each sample",
        lambda a, b: (a - b) ** 2,
        by_sample=True,
        contents="normal",
        target="normal",
    ),
    loss(
        "l1_loss",
        "F.l1_loss({x}, {y}) | torch.mean(torch.abs({x} - {y}))",
        "mean absolute error",
        lambda a, b: np.abs(a - b),
        target="scaled",
    ),
    loss(
        "smooth_l1_loss",
        "F.smooth_l1_loss({x}, {y}) | F.smooth_l1_loss({x}, {y}, beta={beta})",
        "smooth L1 loss",
        lambda a, b: np.abs(a - b) * 0.7,
        target="scaled",
        parameters={"beta": (0.5, 1.0, 2.0)},
    ),
    loss(
        "huber_loss",
        "F.huber_loss({x}, {y}, delta={delta}) | F.huber_loss({x}, {y}, reduction='mean', delta={delta})",
        "Huber loss",
        lambda a, b: np.abs(a - b) * 0.7,
        target="scaled",
        parameters={"delta": (0.5, 1.0, 1.5)},
    ),
    loss(
        "log_cosh_loss",
        "torch.mean(torch.log(torch.cosh({x} - {y})))",
        "log-cosh loss",
        lambda a, b: np.log(np.cosh(a - b)),
        target="scaled",
        launches=5,
        weight=14,
        often=0.5,
    ),
    loss(
        "cross_entropy",
        "F.cross_entropy({x}, {y})",
        "cross-entropy",
        _entropy,
        first=_classes,
        others=LABELS,
        weight=9,
        often=2.0,
        contents="scaled_wide",
    ),
    loss(
        "cross_entropy_by_sample",
        ("F.cross_entropy({x}, {y}, reduction='none') | -torch.log_softmax({x}, dim=1).gather(1, {y}.unsqueeze(1)).squeeze(1)"),
        "cross-entropy of each sample",
        lambda a, b: 5 - a,
        first=_classes,
        others=LABELS,
        weight=9,
        by_sample=True,
        contents="normal",
    ),
    loss(
        "cross_entropy_smoothed",
        "F.cross_entropy({x}, {y}, label_smoothing={label_smoothing})",
        "cross-entropy with smoothed labels",
        _entropy,
        first=_classes,
        others=LABELS,
        weight=12,
        parameters={"label_smoothing": (0.05, 0.1, 0.2)},
        often=0.7,
        contents="scaled_wide",
    ),
    loss(
        "nll_by_sample",
        "F.nll_loss(F.log_softmax({x}, dim=1), {y}, reduction='none')",
        "negative log-likelihood of each sample",
        lambda a, b: 5 - a,
        first=_classes,
        others=LABELS,
        weight=9,
        by_sample=True,
        contents="normal",
        often=0.7,
    ),
    loss(
        "bce_with_logits",
        (
            "F.binary_cross_entropy_with_logits({x} * {temperature}, {y}) | "
            "F.binary_cross_entropy(torch.sigmoid({x} * {temperature}), {y})"
        ),
        "binary cross-entropy of scaled logits",
        lambda a, b: np.logaddexp(8 * a, 0) - 8 * a * b,
        target="zero_one",
        weight=12,
        contents="scaled",
        parameters={"temperature": (8.0, 10.0)},
        launches=3,
    ),
    loss(
        "bce_by_sample",
        (
            "F.binary_cross_entropy_with_logits({x}, {y}, reduction='none').mean(dim=-1) | "
            "F.binary_cross_entropy_with_logits({x}, {y}, reduction='none').sum(dim=1)"
        ),
        "binary cross-entropy of each sample",
        lambda a, b: np.logaddexp(a, 0) - a * b,
        first=lambda d: (d.named("batch_size", max(16, d.lead)), d.size("num_labels", 16, 256)),
        target="zero_one",
        by_sample=True,
        contents="wide",
        weight=12,
    ),
    loss(
        "focal_by_sample",
        (
            "{=ce} = F.binary_cross_entropy_with_logits({x}, {y}, reduction='none')\n"
            "((1 - torch.exp(-{=ce})) ** {gamma} * {=ce}).mean(dim=1)"
        ),
        "focal loss of each sample",
        lambda a, b: (np.logaddexp(a, 0) - a * b) ** 2,
        first=lambda d: (d.named("batch_size", max(16, d.lead)), d.size("num_labels", 16, 256)),
        target="zero_one",
        by_sample=True,
        contents="wide",
        parameters={"gamma": (1.5, 2.0, 3.0)},
        weight=24,
        launches=6,
        often=0.7,
    ),
    loss(
        "kl_div",
        (
            "F.kl_div(torch.log_softmax({x}, dim=-1), {y}, reduction='batchmean') | "
            "F.kl_div(F.log_softmax({x}, dim=1), {y}, reduction='batchmean')"
        ),
        "Kullback-Leibler divergence",
        lambda a, b: a**2 + 0.3,
        first=lambda d: (d.named("batch_size", max(4, d.lead)), d.size("dim", 64, 1024)),
        target="probabilities",
        weight=14,
        launches=3,
        contents="scaled",
    ),
    loss(
        "kl_by_sample",
        "({y} * (torch.log({y} + 1e-8) - F.log_softmax({x}, dim=-1))).sum(dim=-1)",
        "Kullback-Leibler divergence of each sample",
        lambda a, b: a**2,
        first=lambda d: (d.named("batch_size", max(4, d.lead)), d.size("dim", 16, 128)),
        target="probabilities",
        by_sample=True,
        contents="wide",
        weight=20,
        launches=6,
        often=0.6,
    ),
    loss(
        "squared_hinge",
        ("torch.mean(F.relu({margin} - {x} * {y}) ** 2, dim=1) | F.relu({margin} - {x} * {y}).square().mean(dim=-1)"),
        "squared hinge loss of each sample",
        lambda a, b: np.maximum(1 - a * b, 0) ** 2,
        first=lambda d: (d.named("batch_size", max(16, d.lead)), d.size("dim", 32, 512)),
        target="plus_minus",
        launches=5,
        parameters={"margin": (0.5, 1.0, 1.5)},
        by_sample=True,
        contents="wide",
    ),
    loss(
        "hinge_scaled",
        "torch.mean(torch.clamp({margin} - {x} * {y}, min=0)) | F.relu({margin} - {x} * {y}).mean()",
        "hinge loss",
        lambda a, b: np.maximum(1 - 3 * a * b, 0),
        target="plus_minus",
        launches=4,
        parameters={"margin": (0.25, 0.5)},
        contents="scaled",
    ),
    loss(
        "cosine_loss",
        "1 - F.cosine_similarity({x}, {y}, dim=1) | 1 - F.cosine_similarity({x}, {y}, dim=-1)",
        "cosine distance of each sample",
        lambda a, b: 1 - a * b,
        first=lambda d: (d.named("batch_size", max(16, d.lead)), d.size("dim", 16, 400)),
        by_sample=True,
        contents="normal",
        launches=4,
    ),
    loss(
        "cosine_embedding",
        (
            "F.cosine_embedding_loss({x}, {y}, {z}, margin={margin}, reduction='none') | "
            "F.cosine_embedding_loss({x}, {y}, {z}, reduction='none')"
        ),
        "cosine embedding loss",
        lambda a, b: np.abs(1 - a * b),
        first=lambda d: (d.named("batch_size", max(16, d.lead)), d.size("dim", 16, 400)),
        others=(Operand("y", lambda s: s.shape), Operand("labels", _labels, "plus_minus")),
        by_sample=True,
        contents="normal",
        launches=8,
        parameters={"margin": (0.0, 0.1)},
        often=0.6,
    ),
    loss(
        "triplet_margin",
        (
            "F.triplet_margin_loss({x}, {y}, {z}, margin={margin}, reduction='none') | "
            "F.relu((({x} - {y}) ** 2).sum(dim=1) - (({x} - {z}) ** 2).sum(dim=1) + {margin})"
        ),
        "triplet margin loss",
        lambda a, b: (a - b) ** 2,
        first=lambda d: (d.named("batch_size", max(16, d.lead)), d.size("dim", 16, 512)),
        others=(Operand("positive", lambda s: s.shape), Operand("negative", lambda s: s.shape)),
        by_sample=True,
        contents="normal",
        launches=7,
        parameters={"margin": (0.5, 1.0, 2.0)},
    ),
    loss(
        "margin_ranking",
        (
            "F.margin_ranking_loss({x}, {y}, {z}, margin={margin}, reduction='none').mean(dim=1) | "
            "F.relu(-{z} * ({x} - {y}) + {margin}).mean(dim=1)"
        ),
        "margin ranking loss",
        lambda a, b: np.maximum(b - a + 1, 0),
        first=lambda d: (d.named("batch_size", max(16, d.lead)), d.size("dim", 16, 512)),
        others=(Operand("y", lambda s: s.shape), Operand("labels", lambda s: s.shape, "plus_minus")),
        by_sample=True,
        contents="normal",
        launches=5,
        parameters={"margin": (0.2, 0.5)},
        often=0.6,
    ),
    loss(
        "poisson_nll",
        "F.poisson_nll_loss({x}, {y}, log_input=True) | torch.mean(torch.exp({x}) - {y} * {x})",
        "Poisson negative log-likelihood",
        lambda a, b: np.exp(a) - a * b,
        target="uniform",
        launches=4,
        often=0.5,
        contents="scaled",
    ),
    loss(
        "gaussian_nll",
        (
            "0.5 * (torch.log({z}) + ({x} - {y}) ** 2 / {z}).mean(dim=1) | "
            "F.gaussian_nll_loss({x}, {y}, {z}, reduction='none').mean(dim=1)"
        ),
        "Gaussian negative log-likelihood",
        lambda a, b: (a - b) ** 2,
        first=lambda d: (d.named("batch_size", max(16, d.lead)), d.size("dim", 16, 512)),
        others=(Operand("targets", lambda s: s.shape), Operand("variance", lambda s: s.shape, "positive")),
        by_sample=True,
        contents="normal",
        launches=6,
        weight=12,
        often=0.7,
    ),
    loss(
        "soft_margin",
        ("F.soft_margin_loss({x}, {y}, reduction='none').mean(dim=-1) | torch.log1p(torch.exp(-{y} * {x})).mean(dim=-1)"),
        "soft margin loss",
        lambda a, b: np.logaddexp(-a * b, 0),
        first=lambda d: (d.named("batch_size", max(16, d.lead)), d.size("dim", 16, 512)),
        target="plus_minus",
        by_sample=True,
        contents="wide",
        launches=4,
        weight=12,
        often=0.6,
    ),
    loss(
        "multi_margin",
        "F.multi_margin_loss({x}, {y}, margin={margin}, reduction='none')",
        "multi-class margin loss",
        lambda a, b: np.maximum(1 + a, 0),
        first=lambda d: (d.named("batch_size", max(16, d.lead)), d.size("num_classes", 10, 200)),
        others=LABELS,
        by_sample=True,
        contents="normal",
        parameters={"margin": (0.5, 1.0)},
        often=0.5,
    ),
    loss(
        "dice_by_sample",
        ("{=p} = torch.sigmoid({x})\n1 - (2 * ({=p} * {y}).sum(dim=1) + 1) / ({=p}.sum(dim=1) + {y}.sum(dim=1) + 1)"),
        "Dice loss of each sample",
        lambda a, b: a,
        first=lambda d: (d.named("batch_size", max(16, d.lead)), d.size("pixels", 32, 200)),
        target="zero_one",
        by_sample=True,
        contents="wide",
        launches=6,
        weight=10,
        often=0.5,
    ),
)
