"""In the place of CUDA graphs where no GPU is: a recording is Python calls that write to the same memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from bottega.episodes.delivery.drop_in import recorded as recording


class PythonGraphs:
    """In the place of CUDA graphs."""

    kind = "cpu"

    def is_busy(self) -> bool:
        return False

    def place(self) -> Any:
        return None

    def after(self, place: Any) -> None:
        pass

    def replayed(self, place: Any) -> None:
        pass

    def record(self, work: Callable[[], Any]) -> Any:
        work()
        results = work()

        def replay() -> None:
            left = iter(leaves(work()))
            recording.rebuilt(results, lambda each: each.copy_(next(left)))

        return replay, results


def leaves(value: Any) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    recording.rebuilt(value, lambda each: (found.append(each), each)[1])
    return found
