"""The `Tokenizer` protocol over a Hugging Face tokenizer: text to ids and back, conversations by the model's own template."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bottega.backbone.chat import Message
from bottega.core.errors import BackboneError


class HuggingFaceTokenizer:
    """What a message says never becomes a special token: its text is broken up where it spells one."""

    def __init__(
        self, tokenizer: Any, context: int, ends: Iterable[int] = (), template: Mapping[str, Any] | None = None
    ) -> None:
        """`template`: arguments of the model's chat template, such as `enable_thinking`."""
        self.inner, self.template = tokenizer, dict(template or {})
        self.context = context
        """How many tokens prompt and answer may have together."""
        own = () if tokenizer.eos_token_id is None else (int(tokenizer.eos_token_id),)
        self.ends = tuple(dict.fromkeys([*own, *ends]))
        """The ids that end an answer."""
        special = {str(token.content) for token in tokenizer.added_tokens_decoder.values() if token.special}
        self._special = re.compile("|".join(re.escape(token) for token in sorted(special, key=len, reverse=True)) or "(?!)")

    def encode(self, text: str) -> list[int]:
        """Plain text; what looks like a special token is spelled out, letter by letter."""
        return [int(i) for i in self.inner.encode(self._harmless(text), add_special_tokens=False)]

    def mark(self, text: str) -> list[int]:
        return [int(i) for i in self.inner.encode(text, add_special_tokens=False)]

    def decode(self, ids: Sequence[int]) -> str:
        return str(self.inner.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """As `encode`, on all cores: for data by the thousand."""
        return self._many([self._harmless(text) for text in texts])

    def conversations(self, many: Sequence[Sequence[Message]]) -> list[list[int]]:
        """As `conversation`, on all cores."""
        return self._many([self._written(messages) for messages in many])

    def conversation(self, messages: Sequence[Message]) -> list[int]:
        return [int(i) for i in self.inner.encode(self._written(messages), add_special_tokens=False)]

    def _many(self, texts: list[str]) -> list[list[int]]:
        return [[int(i) for i in ids] for ids in self.inner(texts, add_special_tokens=False)["input_ids"]] if texts else []

    def _written(self, messages: Sequence[Message]) -> str:
        """A conversation up to where the answer begins, by the model's template."""
        if not messages:
            raise BackboneError("a conversation needs at least one message")
        if not self.inner.chat_template:
            raise BackboneError("the tokenizer has no chat template: use an instruct model, or give it a template")
        said = [{"role": message.role, "content": self._harmless(message.content)} for message in messages]
        try:
            return str(self.inner.apply_chat_template(said, tokenize=False, add_generation_prompt=True, **self.template))
        except Exception as error:  # a template is foreign code: jinja2 raises what the template raises
            raise BackboneError(f"the model's chat template refused the conversation: {error}") from None

    def _harmless(self, text: str) -> str:
        return self._special.sub(lambda found: found.group()[0] + " " + found.group()[1:], text)
