"""A model that answers in this process and kernels that are timed share a device: the model waits while a timer has it.

Else what the model does at that moment would be in the kernels' times, and a kernel that answered late would look like one that lies.
"""

from __future__ import annotations

from typing import Any

from bottega.backbone.speaker import Speaker
from bottega.judge.lease import Lease, open_lease


def give_way(speaker: Speaker) -> None:
    """From now on; nothing to do for a model that is elsewhere."""
    backbone: Any = getattr(speaker, "backbone", None)
    if hasattr(backbone, "give_way"):
        backbone.give_way(lambda: Lease(open_lease(backbone.device)))
