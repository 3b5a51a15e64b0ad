"""Samples one token per row with noise that depends on (seed, position) alone, never on what else is in the batch.

Gumbel-max: the token with the largest `logit / temperature + noise` is a draw from the softmax, and unlike a draw by
cumulative sums it moves to another token only where rounding decides a near tie. The noise comes from Philox4x32 in 7
rounds with the seed as key and (vocabulary place, position) as counter, so the kernels and this file give the same numbers.

Between batch shapes and devices, matrix products round otherwise; a near tie may then fall the other way, and from there
the answers part. In fp32 that is rare, in bf16 it is not.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

ROUNDS = 7

_WORD = 0xFFFFFFFF
_ROUND_A, _ROUND_B = 0xD2511F53, 0xCD9E8D57
_KEY_A, _KEY_B = 0x9E3779B9, 0xBB67AE85


def sample(
    logits: Tensor, temperatures: Sequence[float], seeds: Sequence[int], positions: Sequence[int]
) -> tuple[list[int], list[float]]:
    """For each row of `logits`: the sampled token, and its log-prob at the temperature, at 1 where there is none."""
    logits = logits.float()
    scaled = logits
    if any(t not in (0.0, 1.0) for t in temperatures):
        scaled = logits = logits / torch.tensor([t or 1.0 for t in temperatures], device=logits.device)[:, None]
    if logits.device.type == "cpu":  # row by row: a row's noise fits the cache, and many small calls need no second thread
        chosen = torch.tensor([_best(*each) for each in zip(scaled, temperatures, seeds, positions)])[:, None]
    else:
        warm = torch.tensor([t > 0 for t in temperatures], device=logits.device)[:, None]
        noisy = scaled + noise(seeds, positions, scaled.shape[-1], scaled.device)
        chosen = torch.where(warm, noisy, scaled).argmax(-1, keepdim=True)
    logprobs = logits.gather(-1, chosen)[:, 0] - logits.logsumexp(-1)
    return chosen[:, 0].tolist(), logprobs.tolist()


def _best(scaled: Tensor, temperature: float, seed: int, position: int) -> int:
    if temperature > 0:
        scaled = noise([seed], [position], len(scaled), scaled.device)[0].add_(scaled)
    return int(scaled.numpy().argmax())  # torch takes twenty times as long for it


def noise(seeds: Sequence[int], positions: Sequence[int], vocabulary: int, device: torch.device) -> Tensor:
    """Standard Gumbel noise [rows, vocabulary] for the token at `positions[row]` under `seeds[row]`.

    A quarter of the vocabulary takes the first word of each counter, the next quarter the second, and so on.
    """
    low = torch.arange(-(-vocabulary // 4), device=device)
    high = torch.tensor(positions, device=device)[:, None]
    words = philox(low, high, torch.tensor(seeds, device=device)[:, None])
    return torch.cat([_gumbel(word) for word in words], dim=-1)[:, :vocabulary]


def _gumbel(bits: Tensor) -> Tensor:
    uniform = bits.float().add_(0.5).mul_(2.0**-32).clamp_(max=1 - 2.0**-24)
    return uniform.neg_().log1p_().neg_().log_().neg_()


def philox(low: Tensor, high: Tensor, seeds: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Four words of 32 bits for the counter (low, high, 0, 0) and a key of 64 bits. Shapes are broadcast as late as can be."""
    c0, c1 = low & _WORD, high & _WORD
    c2 = c3 = torch.zeros_like(high)
    k0, k1 = seeds & _WORD, (seeds >> 32) & _WORD
    for _ in range(ROUNDS):
        first, second = c0 * _ROUND_A, c2 * _ROUND_B  # wraps at 64 bits, which keeps every bit of the product
        c0 = ((second >> 32) ^ c1 ^ k0) & _WORD
        c2 = ((first >> 32) ^ c3 ^ k1) & _WORD
        c1, c3 = second, first  # only their low words count: what lies above goes with the next mask
        k0, k1 = (k0 + _KEY_A) & _WORD, (k1 + _KEY_B) & _WORD
    return c0, c1 & _WORD, c2, c3 & _WORD
