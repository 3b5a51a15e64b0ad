"""Level 3: fifty networks and blocks of networks at inference batch sizes."""

from __future__ import annotations

from task_texts import level3_images, level3_sequences
from task_texts.text import TaskText


def rows() -> list[TaskText]:
    """In an order that mixes families."""
    texts = [text for network in (*level3_images.NETWORKS, *level3_sequences.NETWORKS) for text in network.texts()]
    return [texts[place * 19 % len(texts)] for place in range(len(texts))]
