"""How long an example is: counted with the tokenizer of the model that will learn it, where that is at hand, estimated otherwise."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from bottega.backbone.chat import Message
from bottega.backbone.ledger import MESSAGE_TOKENS
from bottega.backbone.loading import is_embedded
from bottega.core.errors import BackboneError, UsageError

BYTES_PER_TOKEN = 3.2
"""Of source code, roughly, for the tokenizers of today's models."""
MOST_KNOWN = 200_000
"""Pieces of text whose length is remembered, at most."""

_LINES = re.compile(r"(?<=[!-~])(?=\n)")
"""Before a line break behind a visible character: there the embedded model's tokenizer, byte-level with GPT-2's rule for words, always
begins a new word. Other tokenizers may join the line break to what stands before it."""


class Count:
    """Lengths of texts in tokens. It may be sent to another process, which loads the tokenizer for itself."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._by_line = bool(name) and is_embedded(name)
        self._known: dict[str, int] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Count, (self.name,)

    def __call__(self, texts: Sequence[str]) -> list[int]:
        """All at once. Programs say the same lines again and again, so each is counted once where lines can be counted alone."""
        if not self.name:
            return [int(len(text.encode(errors="replace")) / BYTES_PER_TOKEN) + 1 for text in texts]
        pieces = [_LINES.split(text) if self._by_line else [text] for text in texts]
        new = list(dict.fromkeys(piece for of_text in pieces for piece in of_text if piece not in self._known))
        self._known.update(zip(new, self._counted(new)))
        counts = [sum(self._known[piece] for piece in of_text) for of_text in pieces]
        if len(self._known) > MOST_KNOWN or not self._by_line:
            self._known.clear()
        return counts

    def load(self) -> None:
        """Now, so that a name that cannot be loaded is known before the work begins."""
        if self.name:
            _ = self._tokenizer

    def _counted(self, texts: list[str]) -> list[int]:
        tokenizer = self._tokenizer
        if not tokenizer.is_fast:
            return [len(tokenizer.encode(text, add_special_tokens=False)) for text in texts]
        inner = tokenizer.backend_tokenizer
        inner.no_truncation()
        inner.no_padding()
        return [len(found) for found in inner.encode_batch_fast(texts, add_special_tokens=False)]

    @cached_property
    def _tokenizer(self) -> Any:
        try:
            if self._by_line:
                from bottega.backbone.embedded import _tokenizer, require_embedded_file
                from bottega.backbone.gguf import Gguf

                return _tokenizer(Gguf(require_embedded_file()))
            from transformers import AutoTokenizer

            return AutoTokenizer.from_pretrained(self.name.removeprefix("local:"))
        except ImportError as missing:
            raise BackboneError(
                f"counting tokens with {self.name} needs {missing.name}: pip install 'bottega[local]'"
            ) from None
        except (OSError, ValueError) as error:
            raise UsageError(f"{self.name}: no tokenizer can be loaded: {next(iter(str(error).splitlines()), '')}") from None


def counter(name: str) -> tuple[Count, str]:
    """A counter and what it counts by. `embedded`, a folder or hub name, or nothing for an estimate."""
    count = Count(name)
    count.load()
    return count, f"the tokenizer of {name}" if name else "an estimate from the text's length"


def sizes_of(conversations: Sequence[Sequence[Message]], count: Count) -> list[int]:
    """With what a chat template adds for each message."""
    counts = iter(count([message.content for messages in conversations for message in messages]))
    return [sum(next(counts) + MESSAGE_TOKENS for _ in messages) for messages in conversations]
