"""The weights of a Llama-like model as the decoder wants them: read from the Hugging Face module, never kept apart from it.

Llama, Qwen2, Qwen3 and Mistral without a sliding window are one family: RMSNorm, rotary heads in groups, SwiGLU; biases and
norms of queries and keys come and go. Query, key and value weights are joined in buffers of our own, gate and up likewise,
and whatever carries LoRA or has another dtype is merged and copied; everything else is the module's own memory. `refresh`
brings the buffers up to date, and is all that is needed after a trainer has changed the module in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

FAMILY = ("llama", "qwen2", "qwen3", "mistral")
STEADY_ROTARY = ("default", "linear", "llama3", "yarn")
"""Kinds of rotary embedding whose frequencies do not depend on how long the text is."""


@dataclass(frozen=True)
class Shape:
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head: int
    """Width of one head."""
    inner: int
    """Width of the feed-forward part."""
    vocabulary: int
    epsilon: float
    scale: float
    """What scores are multiplied with before the softmax."""

    def cache_bytes(self, dtype: torch.dtype) -> int:
        """Of one token."""
        return self.layers * 2 * self.kv_heads * self.head * dtype.itemsize


@dataclass(eq=False)
class LayerTensors:
    before: Tensor
    """The norm before attention."""
    qkv: Tensor
    qkv_bias: Tensor | None
    query_norm: Tensor | None
    key_norm: Tensor | None
    out: Tensor
    out_bias: Tensor | None
    between: Tensor
    """The norm before the feed-forward part."""
    gate_up: Tensor
    gate_up_bias: Tensor | None
    down: Tensor
    down_bias: Tensor | None


def bare(model: Any) -> Any:
    """The transformers module inside of what peft may have wrapped around it."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def save_config(model: Any, folder: Path) -> None:
    """With the class that the weights belong to, which servers look for: a model that was not read from a folder has not said it."""
    inner = bare(model)
    inner.config.architectures = [type(inner).__name__.removeprefix("FSDP")]
    inner.config.save_pretrained(folder)


def unfit(model: Any) -> str:
    """Why a model is not of the family; nothing when it is."""
    inner = bare(model)
    config = inner.config
    kind = getattr(config, "model_type", type(inner).__name__)
    if kind not in FAMILY:
        return f"{kind} is not one of {', '.join(FAMILY)}"
    if any(layer != "full_attention" for layer in getattr(config, "layer_types", None) or ()):
        return "some layers do not attend to everything"
    if kind == "mistral" and config.sliding_window:
        return "its attention slides"
    if config.hidden_act not in ("silu", "swish"):
        return f"its activation is {config.hidden_act}"
    rotary = (getattr(config, "rope_parameters", None) or {}).get("rope_type", "default")
    if rotary not in STEADY_ROTARY:
        return f"its rotary embedding is {rotary}"
    if hasattr(model, "peft_config") and any(str(each.peft_type.value) != "LORA" for each in model.peft_config.values()):
        return "its adapter is not LoRA"
    linears = [getattr(part, name) for layer in inner.model.layers for part, name in _linears(layer)] + [inner.lm_head]
    odd = {type(each).__name__ for each in linears if not _plain(each)}
    if not _simple(inner.model.embed_tokens, nn.Embedding):
        odd.add(type(inner.model.embed_tokens).__name__)
    return f"parts of it are {', '.join(sorted(odd))}" if odd else ""


def _linears(layer: Any) -> list[tuple[Any, str]]:
    attention = [(layer.self_attn, name) for name in ("q_proj", "k_proj", "v_proj", "o_proj")]
    return attention + [(layer.mlp, name) for name in ("gate_proj", "up_proj", "down_proj")]


def _simple(module: Any, kind: type) -> bool:
    return type(module) is kind and not hasattr(module, "parametrizations")


def _plain(module: Any) -> bool:
    """A linear layer, alone or under LoRA of the common kind (no DoRA, no bias of its own)."""
    if not hasattr(module, "lora_A"):
        return _simple(module, nn.Linear)
    variants = getattr(module, "lora_variant", None) or any((getattr(module, "use_dora", None) or {}).values())
    return (
        not variants and not any((getattr(module, "lora_bias", None) or {}).values()) and _simple(module.base_layer, nn.Linear)
    )


def merged(module: Any) -> Tensor:
    """A linear layer's weight with its active adapters in it, added in fp32 so that small steps are rounded once at most."""
    if not hasattr(module, "lora_A"):
        return module.weight.detach()  # type: ignore[no-any-return]
    weight: Tensor = module.base_layer.weight.detach()
    if module.merged or module.disable_adapters:
        return weight
    for name in module.active_adapters:
        if name in module.lora_A:
            weight = weight.float() + module.get_delta_weight(name).detach().float()
    return weight


def plain_weights(model: Any) -> Iterator[tuple[str, Tensor]]:
    """Parameters and buffers by the names that they have in the model's files, adapters merged, what is tied once."""
    inner = bare(model)
    adapted = {name: module for name, module in inner.named_modules() if hasattr(module, "lora_A")}
    seen: set[int] = set()
    for name, value in inner.state_dict().items():
        if ".lora_" in name:
            continue
        owner = name.rpartition(".base_layer.")[0]
        if owner in adapted and name.endswith(".base_layer.weight"):
            value = merged(adapted[owner])  # noqa: PLW2901
        elif value.data_ptr() in seen:
            continue
        seen.add(value.data_ptr())
        yield name.replace(".base_layer.", "."), value.detach()


def _bias(module: Any) -> Tensor | None:
    bias = getattr(module, "base_layer", module).bias
    return None if bias is None else bias.detach()


class Weights:
    """A view of the module in one dtype. `layers`, `embedding`, `norm` and `head` are what a forward pass reads."""

    def __init__(self, model: Any, context: int, dtype: torch.dtype | None = None, adopt: bool = False) -> None:
        """`adopt`: nobody else needs the module's memory, so that its weights may become views of the buffers."""
        why = unfit(model)
        if why:
            raise ValueError(why)
        self.model, self.adopt = model, adopt
        inner, config = bare(model), bare(model).config
        self.device = inner.lm_head.weight.device
        self.dtype = dtype or inner.model.norm.weight.dtype
        attention = inner.model.layers[0].self_attn
        self.shape = Shape(
            layers=len(inner.model.layers),
            hidden=config.hidden_size,
            heads=config.num_attention_heads,
            kv_heads=config.num_key_value_heads,
            head=attention.head_dim,
            inner=config.intermediate_size,
            vocabulary=inner.lm_head.weight.shape[0],
            epsilon=config.rms_norm_eps,
            scale=attention.scaling,
        )
        self._own: dict[str, Tensor] = {}
        self._context = context
        self.refresh()

    @property
    def own_bytes(self) -> int:
        """Memory of the buffers, beside that of the module."""
        return sum(buffer.numel() * buffer.element_size() for buffer in self._own.values())

    def refresh(self) -> bool:
        """Bring everything up to date with the module. Says whether any tensor now lies elsewhere than before."""
        places = self._places() if hasattr(self, "layers") else None
        with torch.no_grad():
            inner = bare(self.model)
            self._lent = {parameter.untyped_storage().data_ptr() for parameter in inner.parameters()}
            self.embedding = self._one("embedding", inner.model.embed_tokens.weight.detach())
            tied = inner.lm_head.weight is inner.model.embed_tokens.weight
            self.head = self.embedding if tied else self._one("head", merged(inner.lm_head))
            self.norm = self._one("norm", inner.model.norm.weight.detach())
            self.layers = [self._layer(number, layer) for number, layer in enumerate(inner.model.layers)]
            self._rotary(inner.model.rotary_emb)
        return places is not None and places != self._places()

    def _layer(self, number: int, layer: Any) -> LayerTensors:
        attention, feed = layer.self_attn, layer.mlp
        three = (attention.q_proj, attention.k_proj, attention.v_proj)
        two = (feed.gate_proj, feed.up_proj)
        norms = [getattr(attention, name, None) for name in ("q_norm", "k_norm")]
        return LayerTensors(
            before=self._one(f"{number}.before", layer.input_layernorm.weight.detach()),
            qkv=self._joined_linears(f"{number}.qkv", three),
            qkv_bias=self._joined_biases(f"{number}.qkv_bias", [_bias(each) for each in three]),
            query_norm=None if norms[0] is None else self._one(f"{number}.query_norm", norms[0].weight.detach()),
            key_norm=None if norms[1] is None else self._one(f"{number}.key_norm", norms[1].weight.detach()),
            out=self._one(f"{number}.out", merged(attention.o_proj)),
            out_bias=self._maybe(f"{number}.out_bias", _bias(attention.o_proj)),
            between=self._one(f"{number}.between", layer.post_attention_layernorm.weight.detach()),
            gate_up=self._joined_linears(f"{number}.gate_up", two),
            gate_up_bias=self._joined_biases(f"{number}.gate_up_bias", [_bias(each) for each in two]),
            down=self._one(f"{number}.down", merged(feed.down_proj)),
            down_bias=self._maybe(f"{number}.down_bias", _bias(feed.down_proj)),
        )

    def _one(self, name: str, weight: Tensor) -> Tensor:
        """The module's own memory where that will do; a buffer for what was merged just now, or has another dtype."""
        if weight.dtype == self.dtype and weight.is_contiguous() and weight.untyped_storage().data_ptr() in self._lent:
            self._own.pop(name, None)
            return weight
        return self._joined(name, [weight])

    def _joined(self, name: str, parts: Sequence[Tensor]) -> Tensor:
        rows = sum(part.shape[0] for part in parts)
        if name not in self._own:
            self._own[name] = torch.empty((rows, *parts[0].shape[1:]), dtype=self.dtype, device=self.device)
        buffer, at = self._own[name], 0
        for part in parts:
            buffer[at : at + part.shape[0]].copy_(part)
            at += part.shape[0]
        return buffer

    def _joined_linears(self, name: str, modules: Sequence[Any]) -> Tensor:
        buffer, at = self._joined(name, [merged(each) for each in modules]), 0
        for module in modules:
            rows = getattr(module, "base_layer", module).weight.shape[0]
            if self.adopt and not hasattr(module, "lora_A") and module.weight.dtype == self.dtype:
                module.weight.data = buffer[at : at + rows]
            at += rows
        return buffer

    def _maybe(self, name: str, bias: Tensor | None) -> Tensor | None:
        return None if bias is None else self._one(name, bias)

    def _joined_biases(self, name: str, parts: Sequence[Tensor | None]) -> Tensor | None:
        found = [part for part in parts if part is not None]
        return self._joined(name, found) if len(found) == len(parts) else None

    def _rotary(self, module: Any) -> None:
        """Cosine and sine for every position, in fp32 [context, head / 2]."""
        angles = torch.arange(self._context, device=self.device)[:, None].float() * module.inv_freq.to(self.device).float()
        self.cosine = self._table("cosine", angles.cos() * module.attention_scaling)
        self.sine = self._table("sine", angles.sin() * module.attention_scaling)

    def _table(self, name: str, value: Tensor) -> Tensor:
        return self._own.setdefault(name, torch.empty_like(value)).copy_(value)

    def _places(self) -> list[int]:
        tensors = [self.embedding, self.head, self.norm]
        for layer in self.layers:
            tensors += [tensor for tensor in vars(layer).values() if tensor is not None]
        return [tensor.data_ptr() for tensor in tensors]
