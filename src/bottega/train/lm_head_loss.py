"""From hidden states to the loss and its gradients in one pass, a chunk of tokens at a time: the logits are never all in memory.

Of a model with 49,000 tokens in its vocabulary the logits of one step would take more memory than everything else together. The loss of
a token depends on its own log-prob alone, so its slope is known as soon as the log-prob is: gradients of the hidden states and of
the head come out of the same visit that computed the logits, and backward has only to hand them on.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

TokenLoss = Callable[[Tensor, slice], Tensor]
"""(log-probs of some tokens, where those lie among all) to the loss of each."""

CHUNK = {"cpu": 512, "cuda": 8192}
TRITON = importlib.util.find_spec("triton") is not None


def head_loss(
    hidden: Tensor, weight: Tensor, targets: Tensor, loss: TokenLoss, chunk: int | None = None, temperature: float = 1.0
) -> tuple[Tensor, Tensor, Tensor]:
    """The summed loss, and each token's log-prob and entropy (neither has a gradient). `hidden` is [N, width], `weight` [V, width]."""
    size = chunk or CHUNK[hidden.device.type]
    found: tuple[Tensor, Tensor, Tensor] = _HeadLoss.apply(hidden, weight, targets, loss, size, temperature)
    return found


@torch.no_grad()
def head_logprobs(
    hidden: Tensor, weight: Tensor, targets: Tensor, chunk: int | None = None, temperature: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Log-prob of each target and entropy of its distribution."""
    size = chunk or CHUNK[hidden.device.type]
    cast = weight.to(hidden.dtype)
    parts = [
        _logprobs(_logits(part, cast, temperature), wanted)[:2]
        for part, wanted in zip(hidden.split(size), targets.split(size), strict=True)
    ]
    return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])


class _HeadLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, loss: TokenLoss, chunk: int, temperature: float
    ) -> Any:
        for_hidden, for_weight = ctx.needs_input_grad[:2]
        cast = weight.to(hidden.dtype)
        hidden_grad = torch.empty_like(hidden) if for_hidden else None
        weight_grad = torch.zeros_like(weight, dtype=torch.float32) if for_weight else None
        total = torch.zeros((), device=hidden.device)
        logprobs = torch.empty(len(hidden), device=hidden.device)
        entropies = torch.empty_like(logprobs)
        for begin in range(0, len(hidden), chunk):
            part = slice(begin, min(begin + chunk, len(hidden)))
            logits = _logits(hidden[part], cast, temperature)
            logprobs[part], entropies[part], norm = _logprobs(logits, targets[part])
            with torch.enable_grad():
                own = logprobs[part].detach().requires_grad_()
                value = loss(own, part).sum()
            total += value.detach()
            if hidden_grad is None and weight_grad is None:
                continue
            slope = torch.autograd.grad(value, own)[0] if value.requires_grad else torch.zeros_like(own)
            logits_grad = _logits_grad(logits, norm, targets[part], slope / temperature, hidden.dtype)
            if hidden_grad is not None:
                torch.mm(logits_grad, cast, out=hidden_grad[part])
            if weight_grad is not None:
                weight_grad += _product(logits_grad.t(), hidden[part])
        ctx.save_for_backward(hidden_grad, weight_grad)
        ctx.mark_non_differentiable(logprobs, entropies)
        return total, logprobs, entropies

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        hidden_grad, weight_grad = ctx.saved_tensors
        scale = grads[0]
        return (
            None if hidden_grad is None else hidden_grad * scale.to(hidden_grad.dtype),
            None if weight_grad is None else weight_grad * scale,
            None, None, None, None,
        )  # fmt: skip


def _logits(hidden: Tensor, weight: Tensor, temperature: float) -> Tensor:
    logits = _product(hidden, weight.t())
    return logits if temperature == 1.0 else logits.div_(temperature)


def _product(left: Tensor, right: Tensor) -> Tensor:
    """In fp32 without a rounding in between, where the device can: bf16 would blur log-probs by several percent."""
    if left.is_cuda and left.dtype != torch.float32:
        return torch.mm(left, right, out_dtype=torch.float32)
    return torch.mm(left, right).float()


def _plain_logprobs(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    norm = logits.logsumexp(-1)
    mean = ((logits - norm[:, None]).exp() * logits).sum(-1)
    return logits.gather(-1, targets[:, None])[:, 0] - norm, norm - mean, norm


def _logprobs(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    if logits.is_cuda and TRITON:
        from bottega.train import lm_head_kernels

        return lm_head_kernels.logprobs(logits, targets)
    return _plain_logprobs(logits, targets)


def _logits_grad(logits: Tensor, norm: Tensor, targets: Tensor, slope: Tensor, dtype: torch.dtype) -> Tensor:
    if logits.is_cuda and TRITON:
        from bottega.train import lm_head_kernels

        return lm_head_kernels.logits_grad(logits, norm, targets, slope, dtype)
    grad = logits.sub_(norm[:, None]).exp_().mul_(-slope[:, None])  # in place: the logits are the largest thing there is
    grad[torch.arange(len(grad), device=grad.device), targets] += slope
    return grad.to(dtype)


def plain_logprobs(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """With a gradient, through logits that are all in memory: for models whose head is not a plain linear layer."""
    logits = logits.float()
    chosen = -F.cross_entropy(logits, targets, reduction="none")
    with torch.no_grad():
        entropy = _plain_logprobs(logits.detach(), targets)[1]
    return chosen, entropy
