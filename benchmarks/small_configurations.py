"""Small configurations of what installed packages have, and the first call of each of their classes: what `screen_modules` writes down as tasks.

Of transformers every family that a configuration is registered for: its default configuration with widths, depths and vocabularies made small by
their names, run once. Of peft each method over a small decoder. Of torch the modules and options that its own tests have.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
import types
import unittest
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

WIDTH, HEADS, LAYERS, TOKENS, IMAGE, PATCH = 64, 2, 2, 7, 32, 8
SIZES = {
    r"(hidden_size|d_model|n_embd|dim|embed_dim|embedding_size|model_dim|decoder_hidden_size|hidden_dim|projection_dim|encoder_hidden_size)": WIDTH,
    r"(num_|n_)?.*(attention_heads|attn_heads|_heads|n_head)": HEADS,
    r"(num_|n_).*(layers|layer|blocks)|depth": LAYERS,
    r".*(intermediate_size|ffn_dim|d_ff|n_inner|ffn_hidden_size|intermediate_dim)": 96,
    r"head_dim|d_kv|qk_head_dim|v_head_dim|kv_channels": WIDTH // HEADS,
    r"vocab_size": 120,
    r"max_position_embeddings|n_positions|max_source_positions|max_target_positions|n_ctx": 64,
    r"image_size|img_size": IMAGE,
    r"patch_size": PATCH,
    r"(num_|n_).*experts|num_local_experts|n_routed_experts": 4,
}
MOST_WEIGHTS = 20_000_000
METHODS = (
    "Lora",
    "LoHa",
    "LoKr",
    "IA3",
    "OFT",
    "BOFT",
    "Vera",
    "FourierFT",
    "HRA",
    "VBLoRA",
    "AdaLora",
    "LNTuning",
    "Poly",
    "Bone",
)


@dataclass(frozen=True)
class Called:
    """A module's call as it happened."""

    name: str
    module: nn.Module
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    text: str
    """Of its class, without its family's name: the same layer of two families has one."""

    @classmethod
    def of(cls, family: str) -> list[Called]:
        package, _, name = family.partition(":")
        torch.manual_seed(0)
        if package == "torch":
            return list(_of_torch(name))
        return _of_transformers(name) if package == "transformers" else _of_peft(name)


def families(package: str) -> list[str]:
    """Names to give to `Called.of`; none where the package is not installed."""
    if importlib.util.find_spec(package) is None:
        return []
    if package == "transformers":
        from transformers import CONFIG_MAPPING

        return [f"{package}:{name}" for name in CONFIG_MAPPING]
    if package == "peft":
        import peft

        return [f"{package}:{name}" for name in METHODS if hasattr(peft, f"{name}Config")]
    return [f"{package}:{info.name}" for info in _tested()]


def shrunk(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of a configuration with sizes made small by their names; lists with an entry for each layer are cut."""
    counts = (value for key, value in settings.items() if re.fullmatch(r"(num_|n_)(hidden_)?layers?", str(key)))
    layers = next((count for count in counts if isinstance(count, int)), 0)

    def new(key: str, value: Any) -> Any:
        if isinstance(value, dict):
            return shrunk(value)
        if isinstance(value, list) and layers > LAYERS and len(value) == layers:
            return value[:LAYERS]
        if isinstance(value, bool) or not isinstance(value, int) or not isinstance(key, str):
            return value
        if "key_value" in key or "kv_heads" in key:
            return min(value, HEADS)
        small = next((size for pattern, size in SIZES.items() if re.fullmatch(pattern, key)), value)
        return min(value, small)

    return {key: new(key, value) for key, value in settings.items()}


def _of_transformers(name: str) -> list[Called]:
    from transformers import CONFIG_MAPPING, AutoModel

    kind = CONFIG_MAPPING[name]
    config = kind.from_dict({**shrunk(kind().to_dict()), "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2})
    with torch.device("meta"):
        weights = sum(weight.numel() for weight in AutoModel.from_config(config).parameters())
    if weights > MOST_WEIGHTS:
        return []
    model = AutoModel.from_config(config).eval()
    family = re.sub(r"(Text|Vision|Encoder|Decoder)?Config$", "", kind.__name__)
    return _calls(model, "transformers.models", family, _given(model, config))


def _given(model: nn.Module, config: Any) -> dict[str, torch.Tensor]:
    """Words, an image or sound, as the model's first argument is called."""
    names, first = inspect.signature(model.forward).parameters, getattr(model, "main_input_name", "input_ids")
    words = torch.randint(3, 99, (2, TOKENS))
    channels: int = getattr(config, "num_channels", 0) or getattr(getattr(config, "vision_config", config), "num_channels", 3)
    made = {
        "input_ids": words,
        "pixel_values": torch.randn(2, channels, IMAGE, IMAGE),
        "input_values": torch.randn(2, 2000),
        "input_features": torch.randn(2, getattr(config, "num_mel_bins", 80), 128),
        "inputs_embeds": torch.randn(2, TOKENS, WIDTH),
    }
    wanted = {first} | ({"input_ids", "pixel_values"} if {"input_ids", "pixel_values"} <= names.keys() else set())
    given = {key: value for key, value in made.items() if key in wanted}
    return given | ({"decoder_input_ids": words} if "decoder_input_ids" in names else {})


def _of_peft(name: str) -> list[Called]:
    import peft
    from transformers import LlamaConfig, LlamaModel

    options: dict[str, Any] = {"target_modules": ["q_proj", "v_proj", "up_proj"]} if name != "LNTuning" else {}
    options |= {"feedforward_modules": ["up_proj"]} if name == "IA3" else {}
    options |= {"total_step": 10} if name == "AdaLora" else {"n_frequency": 20} if name == "FourierFT" else {}
    small = LlamaConfig(
        **{key: value for key, value in shrunk(LlamaConfig().to_dict()).items() if key != "transformers_version"}
    )
    model = peft.get_peft_model(LlamaModel(small), getattr(peft, f"{name}Config")(**options)).eval()
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.1)
    return _calls(model, "peft.tuners", name, {"input_ids": torch.randint(3, 99, (2, TOKENS))})


def _calls(model: nn.Module, package: str, family: str, given: dict[str, Any]) -> list[Called]:
    """The first call of each class of the package within the model; of what was called before an error, too."""
    found: dict[type, Called] = {}

    def hook(module: nn.Module, arguments: tuple[Any, ...], options: dict[str, Any], _: Any) -> None:
        kind = type(module)
        if kind not in found and module is not model and kind.__module__.startswith(package):
            text = re.sub(rf"\b{family}", "", inspect.getsource(kind))
            plain = {key: value for key, value in options.items() if not _is_cache(value)}
            found[kind] = Called(f"{family}.{kind.__name__}", module, arguments, plain, text)

    hooks = [part.register_forward_hook(hook, with_kwargs=True) for part in model.modules()]
    try:
        with torch.no_grad():
            model(**given)
    except Exception:
        if not found:
            raise
    for one in hooks:
        one.remove()
    return sorted(found.values(), key=lambda call: -sum(1 for _ in call.module.modules()))


def _is_cache(value: Any) -> bool:
    """A layer that is called alone begins without one."""
    return "Cache" in type(value).__name__


def _tested() -> list[Any]:
    """Torch's list of its modules. What writes its tests down is not needed to read it."""
    if "expecttest" not in sys.modules and importlib.util.find_spec("expecttest") is None:
        stand_in = types.ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase  # type: ignore[attr-defined]
        sys.modules["expecttest"] = stand_in
    from torch.testing._internal.common_modules import module_db

    return [info for info in module_db if info.name.startswith("nn.")]


def _of_torch(name: str) -> Iterator[Called]:
    info = next(info for info in _tested() if info.name == name)
    given = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=False, training=False)
    for number, one in enumerate(given):
        if one.forward_input is None:
            continue
        torch.manual_seed(number)
        made = info.module_cls(*one.constructor_input.args, **one.constructor_input.kwargs).eval()
        text = f"{name} {one.constructor_input} {[getattr(each, 'shape', each) for each in one.forward_input.args]}"
        yield Called(f"{name}.{number}", made, one.forward_input.args, one.forward_input.kwargs, text)
