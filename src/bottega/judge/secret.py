"""Secret random indices: what is read, poisoned or compared in a candidate's memory.

They come from the operating system's generator, never from the one that draws the inputs: a candidate sees its inputs, and
20,000 of them give the whole state of a Mersenne Twister, with every number that it will draw next.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import torch

FROM_THE_SYSTEM = 1 << 17
"""More numbers than this take longer than the comparison they are for. On a GPU they then come from a counter-based generator under a fresh
secret key, of which a candidate never sees a number."""


def secret_indices(bound: int, count: int, device: torch.device | str = "cpu") -> torch.Tensor:
    """`count` random whole numbers from 0 up to `bound`, on `device`."""
    if count > FROM_THE_SYSTEM and torch.device(device).type == "cuda":
        generator = torch.Generator(device).manual_seed(secrets.randbits(63))
        return torch.randint(bound, (count,), generator=generator, device=device)
    drawn = torch.frombuffer(bytearray(secrets.token_bytes(8 * max(count, 1))), dtype=torch.int64)[:count]
    return drawn.bitwise_and_((1 << 63) - 1).remainder_(max(bound, 1)).to(device)


def secret_choice(sizes: Sequence[int], most: int) -> list[int]:
    """Which of many outputs of these sizes are looked at: all, or the largest, of which most could be saved, and as many of the others."""
    numbers = sorted(range(len(sizes)), key=lambda number: -sizes[number])
    if len(numbers) <= most:
        return sorted(numbers)
    return sorted(numbers[: most // 2] + secrets.SystemRandom().sample(numbers[most // 2 :], most - most // 2))
