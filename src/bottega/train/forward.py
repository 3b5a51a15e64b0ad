"""The forward pass that training runs for Llama-like models: over one pack, on the transformers module's own parameters.

Parameters stay in fp32, where the optimiser's small steps are not lost; each pass casts them to the dtype it computes in. Query, key
and value are one matrix product, gate and up another; LoRA's two small products come beside. Against transformers' own pass this
takes packs, touches no mask, and compiles once for all layers. The decoder that draws answers computes the same model.

Every token sees the earlier tokens of its own document and nothing else. On a GPU in half precision attention is torch's flash attention
over documents of unequal length, one call for the pack; elsewhere a loop of plain causal attention, one document at a time, which computes
nothing that a mask would throw away. cuDNN's attention would be a third faster, but over documents of unequal length its gradients came out
wrong (torch 2.11); flex attention was no faster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from bottega.backbone.plain_runner import rotated
from bottega.backbone.weights import bare, unfit
from bottega.train.packing import TrainPack

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(queries [T, heads, head], keys and values [T, kv_heads, head]) to [T, heads, head]."""


def flash(queries: Tensor, keys: Tensor, values: Tensor, starts: Tensor, longest: int, scale: float) -> Tensor:
    """`starts` [D + 1] may end with documents of no length, and `longest` may be more than the longest document is."""
    found = torch.ops.aten._flash_attention_forward(
        queries, keys, values, starts, starts, longest, longest, 0.0, True, False, scale=scale
    )
    mixed: Tensor = found[0]
    return mixed


def by_document(lengths: Sequence[int], scale: float) -> Attend:
    """Documents beyond `lengths` are padding, and come out as zeros."""

    def attend(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        group = queries.shape[1] // keys.shape[1]
        mixed, at = [], 0
        for length in lengths:
            part = slice(at, at + length)
            at += length
            asking, keyed, valued = (each[part].transpose(0, 1)[None] for each in (queries, keys, values))
            keyed, valued = keyed.repeat_interleave(group, 1), valued.repeat_interleave(group, 1)
            one = F.scaled_dot_product_attention(asking, keyed, valued, is_causal=True, scale=scale)
            mixed.append(one[0].transpose(0, 1))
        if at < len(queries):
            mixed.append(queries.new_zeros((len(queries) - at, *queries.shape[1:])))
        return torch.cat(mixed)

    return attend


class LinearWeights(NamedTuple):
    weight: Tensor
    bias: Tensor | None
    down: Tensor | None = None
    """LoRA's first matrix."""
    up: Tensor | None = None
    scale: float = 1.0
    dropout: float = 0.0


class LayerWeights(NamedTuple):
    """The parameters of one layer."""

    before: Tensor
    qkv: tuple[LinearWeights, ...]
    query_norm: Tensor | None
    key_norm: Tensor | None
    out: LinearWeights
    between: Tensor
    gate_up: tuple[LinearWeights, ...]
    down: LinearWeights


class AttentionShape(NamedTuple):
    heads: int
    kv_heads: int
    head: int
    epsilon: float
    scale: float


Use = Callable[[Tensor, Tensor], tuple[Tensor, ...]]
"""What is made of the hidden states before the tokens that count, [N, hidden], and the head's weight."""


class Forward(nn.Module):
    """From a pack to what is asked of its hidden states after the final norm. A module, whose parts are the transformers module's own, so that
    FSDP2 can gather its weights: they are whole only while it runs, and the head is needed to the very end."""

    def __init__(self, model: Any, dtype: torch.dtype, compiled: bool, recompute: bool) -> None:
        super().__init__()
        why = unfit(model)
        if why:
            raise ValueError(why)
        inner = bare(model)
        attention = inner.model.layers[0].self_attn
        self.dtype = dtype
        self.layout = AttentionShape(
            inner.config.num_attention_heads, inner.config.num_key_value_heads, attention.head_dim,
            inner.config.rms_norm_eps, attention.scaling,
        )  # fmt: skip
        self.embedding, self.rotary, self.norm, self.head = (
            inner.model.embed_tokens, inner.model.rotary_emb, inner.model.norm, inner.lm_head
        )  # fmt: skip
        self.layers = nn.ModuleList(PackedLayer(layer, recompute) for layer in inner.model.layers)
        self._layer: Callable[..., Tensor] = torch.compile(_flash_layer, dynamic=False) if compiled else _flash_layer
        self._norm: Callable[..., Tensor] = torch.compile(rms_norm, dynamic=False) if compiled else rms_norm

    def forward(self, pack: TrainPack, longest: int, use: Use) -> tuple[Tensor, ...]:
        """`longest`: a bound on documents that stays the same from pack to pack, so that nothing is compiled twice."""
        layout = self.layout
        hidden = F.embedding(pack.ids, self.embedding.weight).to(self.dtype)
        angles = pack.positions[:, None].float() * self.rotary.inv_freq.to(hidden.device).float()
        scaling = self.rotary.attention_scaling
        cosine, sine = (angles.cos() * scaling)[:, None], (angles.sin() * scaling)[:, None]
        attend = None
        if hidden.is_cuda and self.dtype != torch.float32:
            torch._dynamo.mark_dynamic(pack.starts, 0)
        else:
            attend = by_document(pack.lengths, layout.scale)

        def run(given: Tensor, parts: LayerWeights) -> Tensor:
            if attend is None:
                return self._layer(given, cosine, sine, pack.starts, longest, layout, parts)
            return layer_forward(given, cosine, sine, attend, layout, parts)

        for layer in self.layers:
            hidden = layer(hidden, run)
        return use(self._norm(hidden, self.norm.weight, layout.epsilon).index_select(0, pack.places), self.head.weight)


class PackedLayer(nn.Module):
    def __init__(self, layer: Any, recompute: bool) -> None:
        super().__init__()
        self.layer, self.recompute = layer, recompute

    def forward(self, hidden: Tensor, run: Callable[[Tensor, LayerWeights], Tensor]) -> Tensor:
        parts = layer_weights_of(self.layer, self.layer.training)
        if not (self.recompute and torch.is_grad_enabled()):
            return run(hidden, parts)
        again: Tensor = checkpoint(run, hidden, parts, use_reentrant=False)
        return again


def _flash_layer(
    hidden: Tensor, cosine: Tensor, sine: Tensor, starts: Tensor, longest: int, layout: AttentionShape, parts: LayerWeights
) -> Tensor:
    def attend(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return flash(queries, keys, values, starts, longest, layout.scale)

    return layer_forward(hidden, cosine, sine, attend, layout, parts)


def layer_forward(
    hidden: Tensor,
    cosine: Tensor,
    sine: Tensor,
    attend: Callable[[Tensor, Tensor, Tensor], Tensor],
    layout: AttentionShape,
    parts: LayerWeights,
) -> Tensor:
    normed = rms_norm(hidden, parts.before, layout.epsilon)
    qkv = linear(normed, parts.qkv).view(len(hidden), -1, layout.head)
    queries, keys, values = qkv.split([layout.heads, layout.kv_heads, layout.kv_heads], dim=1)
    if parts.query_norm is not None and parts.key_norm is not None:
        queries = rms_norm(queries, parts.query_norm, layout.epsilon)
        keys = rms_norm(keys, parts.key_norm, layout.epsilon)
    mixed = attend(rotated(queries, cosine, sine), rotated(keys, cosine, sine), values.contiguous())
    hidden = hidden + linear(mixed.reshape(len(hidden), -1), (parts.out,))
    normed = rms_norm(hidden, parts.between, layout.epsilon)
    gate, up = linear(normed, parts.gate_up).chunk(2, dim=-1)
    return hidden + linear(F.silu(gate) * up, (parts.down,))


def rms_norm(hidden: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    wide = hidden.float()
    scaled = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)
    return (scaled * weight.float()).to(hidden.dtype)


def linear(inputs: Tensor, parts: Sequence[LinearWeights]) -> Tensor:
    """One product for all parts, which read the same inputs; their outputs lie side by side."""
    weight = torch.cat([part.weight for part in parts]) if len(parts) > 1 else parts[0].weight
    biases = [part.bias for part in parts if part.bias is not None]
    bias = torch.cat(biases).to(inputs.dtype) if len(biases) == len(parts) else None
    found = F.linear(inputs, weight.to(inputs.dtype), bias)
    if any(part.down is not None for part in parts):
        found = found + torch.cat([_adapter(inputs, part) for part in parts], dim=-1)
    return found


def _adapter(inputs: Tensor, part: LinearWeights) -> Tensor:
    if part.down is None or part.up is None:
        return inputs.new_zeros((*inputs.shape[:-1], part.weight.shape[0]))
    given = F.dropout(inputs, part.dropout) if part.dropout else inputs
    return F.linear(F.linear(given, part.down.to(inputs.dtype)), part.up.to(inputs.dtype)) * part.scale


def layer_weights_of(layer: Any, training: bool) -> LayerWeights:
    attention, feed = layer.self_attn, layer.mlp
    norms = [getattr(attention, name, None) for name in ("q_norm", "k_norm")]
    return LayerWeights(
        before=layer.input_layernorm.weight,
        qkv=tuple(_linear(each, training) for each in (attention.q_proj, attention.k_proj, attention.v_proj)),
        query_norm=None if norms[0] is None else norms[0].weight,
        key_norm=None if norms[1] is None else norms[1].weight,
        out=_linear(attention.o_proj, training),
        between=layer.post_attention_layernorm.weight,
        gate_up=tuple(_linear(each, training) for each in (feed.gate_proj, feed.up_proj)),
        down=_linear(feed.down_proj, training),
    )


def _linear(module: Any, training: bool) -> LinearWeights:
    base = getattr(module, "base_layer", module)
    if not hasattr(module, "lora_A") or module.merged or module.disable_adapters:
        return LinearWeights(base.weight, base.bias)
    active = [name for name in module.active_adapters if name in module.lora_A]
    if not active:
        return LinearWeights(base.weight, base.bias)
    if len(active) > 1:
        raise ValueError("more than one adapter is active: train them one at a time")
    name = active[0]
    dropout = getattr(module.lora_dropout[name], "p", 0.0) if training else 0.0
    return LinearWeights(
        base.weight, base.bias, module.lora_A[name].weight, module.lora_B[name].weight, module.scaling[name], dropout
    )
