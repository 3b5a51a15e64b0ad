"""The finished model as a folder that `local:PATH` opens, here and anywhere: transformers' own format, adapters merged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from bottega.backbone.weights import bare, merged
from bottega.train.checkpoint import written_whole


def export_model(model: Any, tokenizer: Any, place: Path, dtype: torch.dtype = torch.float32) -> None:
    """`tokenizer` is the Hugging Face one. Under LoRA the adapter alone is kept as well, in `adapter` beside it."""
    inner = bare(model)
    state = {name: value.to(dtype) for name, value in _whole_state(inner).items()}
    kept = inner.config.dtype
    inner.config.dtype = dtype

    def write(folder: Path) -> None:
        inner.config.save_pretrained(folder)
        if getattr(inner, "generation_config", None) is not None:
            inner.generation_config.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        from safetensors.torch import save_file

        save_file(state, folder / "model.safetensors", metadata={"format": "pt"})

    try:
        written_whole(place, write)
    finally:
        inner.config.dtype = kept
    if inner is not model:
        written_whole(place.with_name("adapter"), model.save_pretrained)


def _whole_state(inner: Any) -> dict[str, torch.Tensor]:
    """Parameters and buffers by their plain names, adapters merged, what is tied written once."""
    found: dict[str, torch.Tensor] = {}
    seen: set[int] = set()
    adapted = {name: module for name, module in inner.named_modules() if hasattr(module, "lora_A")}
    for name, value in inner.state_dict().items():
        if ".lora_" in name:
            continue
        owner = name.rpartition(".base_layer.")[0]
        if owner in adapted and name.endswith(".base_layer.weight"):
            value = merged(adapted[owner])  # noqa: PLW2901
        elif value.data_ptr() in seen:
            continue
        seen.add(value.data_ptr())
        found[name.replace(".base_layer.", ".")] = value.detach().contiguous().cpu().clone()
    return found
