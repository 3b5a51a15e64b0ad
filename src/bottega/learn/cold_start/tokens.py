"""How long an example is: counted with the tokenizer of the model that will learn it, where that is at hand, estimated otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bottega.backbone.chat import Message
from bottega.backbone.loading import is_embedded
from bottega.backbone.pricing import MESSAGE_TOKENS
from bottega.core.errors import BackboneError, UsageError

BYTES_PER_TOKEN = 3.2
"""Of source code, roughly, for the tokenizers of today's models."""

Count = Callable[[str], int]


def counter(name: str) -> tuple[Count, str]:
    """A counter and what it counts by. `embedded`, a folder or hub name, or nothing for an estimate."""
    if not name:
        return (
            lambda text: int(len(text.encode(errors="replace")) / BYTES_PER_TOKEN) + 1
        ), "an estimate from the text's length"
    try:
        if is_embedded(name):
            from bottega.backbone.embedded import _tokenizer, require_embedded_file
            from bottega.backbone.gguf import Gguf

            tokenizer = _tokenizer(Gguf(require_embedded_file()))
        else:
            from transformers import AutoTokenizer

            tokenizer = AutoTokenizer.from_pretrained(name.removeprefix("local:"))
    except ImportError as missing:
        raise BackboneError(f"counting tokens with {name} needs {missing.name}: pip install 'bottega[local]'") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{name}: no tokenizer can be loaded: {next(iter(str(error).splitlines()), '')}") from None
    return (lambda text: len(tokenizer.encode(text, add_special_tokens=False))), f"the tokenizer of {name}"


def size_of(messages: Sequence[Message], count: Count) -> int:
    """With what a chat template adds for each message."""
    return sum(count(message.content) + MESSAGE_TOKENS for message in messages)
