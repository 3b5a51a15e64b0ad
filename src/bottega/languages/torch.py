"""Plain PyTorch: what a candidate without a kernel of its own is written in."""

from __future__ import annotations

from bottega.languages.language import Language


class Torch(Language):
    name = "torch"
    title = "PyTorch"

    def recognises(self, source: str) -> bool:
        return True
