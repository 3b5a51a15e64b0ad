"""A whole model is timed while nobody else has the device, as the judge times a kernel."""

from __future__ import annotations

import threading
from contextlib import closing

import torch
from torch import nn
from waiting import until

from bottega.episodes.delivery.end_to_end import compared
from bottega.judge.device_lock import Lease, open_lease


class Counted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x + 1


def test_no_round_begins_while_another_has_the_device() -> None:
    models, found = {"one": Counted(), "other": Counted()}, list[object]()

    def compare() -> None:
        found.append(compared(models, lambda model: model(torch.ones(4))))

    running = threading.Thread(target=compare)
    with closing(Lease(open_lease("cpu"))) as other:
        with other.shared():  # as it does itself while it warms up
            running.start()
            until(lambda: all(model.calls == 2 for model in models.values()))
            running.join(0.3)
            assert running.is_alive() and all(model.calls == 2 for model in models.values()), "they are only warm"
        running.join(60)
    assert found and all(model.calls > 8 for model in models.values())
