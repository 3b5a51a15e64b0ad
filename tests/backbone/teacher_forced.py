"""Log-probs of given answers by a teacher-forced pass through the transformers module itself: the reference for the decoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bottega.backbone.chat import TokenCompletion, TokenRequest
from bottega.backbone.weights import bare, unfit
from bottega.core.errors import BackboneError

Row = tuple[tuple[int, ...], tuple[int, ...]]
"""Prompt ids and output ids."""

_HEAD_ROWS = 2048
"""Positions whose logits are in memory together."""


@torch.no_grad()
def teacher_forced(
    model: Any, rows: Sequence[Row], tokens: int = 16384, temperatures: Sequence[float] | None = None
) -> list[list[float]]:
    """For each row the log-prob of every output token, at the temperature it was sampled with, 1 where none is said. `tokens`: how many are in a
    pass, padding included."""
    warm = [temperature or 1.0 for temperature in temperatures or [1.0] * len(rows)]
    for prompt, output in rows:
        if not prompt and output:
            raise BackboneError("a row without a prompt has no log-prob for its first token: give at least one prompt token")
    training = model.training
    model.eval()  # a LoRA in training drops out
    try:
        found: dict[int, list[float]] = {}
        order = sorted(range(len(rows)), key=lambda i: len(rows[i][0]) + len(rows[i][1]))
        begin = 0
        while begin < len(order):
            end = begin + 1
            while end < len(order) and (end + 1 - begin) * sum(map(len, rows[order[end]])) <= tokens:
                end += 1
            chosen = order[begin:end]
            found.update(zip(chosen, _pass(model, [rows[i] for i in chosen], [warm[i] for i in chosen])))
            begin = end
    finally:
        model.train(training)
    return [found[i] for i in range(len(rows))]


def as_sampled(model: Any, requests: Sequence[TokenRequest], found: Sequence[TokenCompletion]) -> list[list[float]]:
    """What the log-probs of these answers should be."""
    rows = [(request.prompt_ids, each.output_ids) for request, each in zip(requests, found)]
    return teacher_forced(model, rows, temperatures=[request.sampling.temperature for request in requests])


def _pass(model: Any, rows: Sequence[Row], temperatures: Sequence[float]) -> list[list[float]]:
    """Padded on the right: what comes after a token cannot change it, so no mask is needed."""
    device = next(model.parameters()).device
    width = max(len(prompt) + len(output) for prompt, output in rows)
    ids = torch.zeros((len(rows), width), dtype=torch.long)
    lines: list[int] = []
    places: list[int] = []
    for line, (prompt, output) in enumerate(rows):
        ids[line, : len(prompt) + len(output)] = torch.tensor([*prompt, *output])
        lines += [line] * len(output)
        places += range(len(prompt) - 1, len(prompt) + len(output) - 1)
    if not lines:
        return [[] for _ in rows]
    targets = ids[lines, [place + 1 for place in places]].to(device)
    warm = torch.tensor([temperatures[line] for line in lines], device=device)[:, None]
    at = (torch.tensor(lines, device=device), torch.tensor(places, device=device))
    if unfit(model):
        logits = model(input_ids=ids.to(device), use_cache=False).logits[at]
        flat = _chosen(logits / warm, targets)
    else:
        inner = bare(model)
        hidden = inner.model(input_ids=ids.to(device), use_cache=False).last_hidden_state[at]
        parts = zip(hidden.split(_HEAD_ROWS), targets.split(_HEAD_ROWS), warm.split(_HEAD_ROWS))
        flat = torch.cat([_chosen(_head(inner.lm_head, part) / scale, wanted) for part, wanted, scale in parts])
    values = flat.tolist()
    found, used = [], 0
    for _, output in rows:
        found.append(values[used : used + len(output)])
        used += len(output)
    return found


def _head(module: Any, hidden: Tensor) -> Tensor:
    """Logits in fp32, on a GPU without a rounding to the model's dtype in between."""
    plain = not hasattr(module, "lora_A")
    if plain and hidden.is_cuda and hidden.dtype != torch.float32:
        return torch.mm(hidden, module.weight.t(), out_dtype=torch.float32)
    if plain:
        return F.linear(hidden, module.weight).float()
    return module(hidden).float()  # type: ignore[no-any-return]


def _chosen(logits: Tensor, targets: Tensor) -> Tensor:
    logits = logits.float()
    return logits.gather(-1, targets[:, None])[:, 0] - logits.logsumexp(-1)
