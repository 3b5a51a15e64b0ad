"""A whole model with inputs, from a file or from `hf:NAME_OR_FOLDER`. The user's code runs in this process, as in the user's own program."""

from __future__ import annotations

import atexit
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bottega.core.arguments import Arguments, read_arguments
from bottega.core.errors import UsageError
from bottega.core.held_folder import HeldFolder
from bottega.episodes.delivery.end_to_end import GENERATE
from bottega.judge.device_facts import require_device
from bottega.judge.loading import import_source
from bottega.tasks.capture_calls import shapes_of
from bottega.tasks.module import Wanted, open_module

TOKENS = 128
"""Of a text that a model is called with where nobody says how."""
NEW_TOKENS = 32
"""That it generates."""
HUGGING_FACE = "hf:"
CLASSES = "bottega_model_classes_"
"""How the folder begins from which a file's classes are read as long as they are in use; no run's folder is called so."""
FILE = "model_of_a_file"
"""The module's name, which tasks of its parts carry along: a task itself is `task` where it is judged."""


def open_model(reference: str, wanted: Wanted, device: str, method: str = "") -> tuple[nn.Module, Arguments]:
    """`method`: of the model, that is called in place of it."""
    require_device(device)
    if reference.startswith(HUGGING_FACE):
        return _from_hugging_face(reference.removeprefix(HUGGING_FACE), wanted, device, method)
    folder = HeldFolder(CLASSES)
    atexit.register(folder.close)
    task = import_source(open_module(reference, wanted).task.source, FILE, folder.path)
    initial = read_arguments(task.get_init_inputs(), task.Model)
    model = task.Model(*initial.positional, **initial.keywords).to(device)
    given = read_arguments(task.get_inputs(), called(model, method))
    return model, _moved(given, device)


def called(model: nn.Module, method: str) -> Callable[..., Any]:
    """What a model is used by: `forward`, or another of its methods."""
    found = getattr(model, method or "forward", None)
    if not callable(found):
        raise UsageError(f"method={method}: {type(model).__name__} has none of that name")
    return found  # type: ignore[no-any-return]


def call_of_part(model: nn.Module, name: str, given: Arguments, method: str = "", shapes: str = "") -> Arguments:
    """The first call of a part of a model in a call of the model, or the first with these shapes."""
    try:
        part = model.get_submodule(name)
    except AttributeError as error:
        raise UsageError(f"submodule {name!r}: {error}") from None
    calls: list[Arguments] = []

    def note(_: nn.Module, placed: Any, named: Any) -> None:
        if not calls and (not shapes or shapes_of(placed, named) == shapes):
            calls.append(Arguments(placed, dict(named)))

    handle = part.register_forward_pre_hook(note, with_kwargs=True)
    with handle, torch.no_grad():
        (getattr(model, method) if method else model)(*given.positional, **given.keywords)
    if not calls:
        raise UsageError(f"submodule {name!r}: the model does not call it on these inputs")
    return calls[0]


def _from_hugging_face(name: str, wanted: Wanted, device: str, method: str) -> tuple[nn.Module, Arguments]:
    """Weights where a local folder has some, in their own type as transformers loads them; random ones else."""
    if name.startswith((".", "/")) and not Path(name).is_dir():  # transformers would speak of names on its hub
        raise UsageError(f"{HUGGING_FACE}{name}: no such folder; name one with a config.json, or a model that is in the cache")
    try:
        transformers: Any = importlib.import_module("transformers")
        config = transformers.AutoConfig.from_pretrained(name)
    except ImportError:
        raise UsageError(f"{HUGGING_FACE}{name}: needs the package transformers") from None
    except (OSError, ValueError) as error:
        first = str(error).splitlines()[0]
        raise UsageError(
            f"{HUGGING_FACE}{name}: {first}; name a folder with a config.json, or a model that is in the cache"
        ) from None
    kind = (getattr(config, "architectures", None) or [""])[0]
    factory = getattr(transformers, kind, None) or transformers.AutoModel
    dtype = getattr(torch, wanted.dtype or ("float32" if device == "cpu" else "bfloat16"))
    weighted = any(Path(name).glob("*.safetensors"))
    if weighted and not wanted.dtype:
        dtype = getattr(torch, str(getattr(config, "dtype", None) or dtype).removeprefix("torch."))
    if weighted:
        model = factory.from_pretrained(name, dtype=dtype)
    else:
        make = factory._from_config if kind else factory.from_config
        try:
            with torch.device(device):  # a GPU draws weights at once
                model = make(config, dtype=dtype)
        except (RuntimeError, TypeError, NotImplementedError):  # one that mixes devices while it is built
            model = make(config, dtype=dtype)
    model = model.eval().to(device)
    for part in model.modules():  # a decoder may have a configuration of its own
        if not method and hasattr(getattr(part, "config", None), "use_cache"):
            part.config.use_cache = False  # a cache is no tensor, and a module that is given one cannot be captured
    if wanted.inputs:
        space = {"torch": torch, "config": config}
        asked = read_arguments(eval(f"_({wanted.inputs})", {**space, "_": _call}), called(model, method))
        return model, _moved(asked, device, dtype)
    given = _inputs_of(model, config, dtype, name)
    if method == GENERATE:  # it makes the decoder's own tokens, and as many whatever the weights are
        given.pop("decoder_input_ids", None)
        if "input_ids" in given:
            given["attention_mask"] = torch.ones_like(given["input_ids"])  # or random words that are padding are left out
        given |= {"min_new_tokens": NEW_TOKENS, "max_new_tokens": NEW_TOKENS, "do_sample": False}
    return model, _moved(Arguments((), given), device)


def _inputs_of(model: Any, config: Any, dtype: torch.dtype, name: str) -> dict[str, Any]:
    """By what the model calls its main input."""
    text = getattr(config, "get_text_config", lambda: config)()
    main, words = model.main_input_name, getattr(text, "vocab_size", None)
    length = min(
        TOKENS, getattr(text, "max_position_embeddings", None) or getattr(config, "max_target_positions", None) or TOKENS
    )
    if main == "input_ids" and words:
        given: dict[str, Any] = {main: torch.randint(0, words, (1, length))}
    elif main == "pixel_values" and getattr(config, "image_size", None):
        size = config.image_size
        height, width = size if isinstance(size, tuple | list) else (size, size)
        given = {main: torch.randn(1, getattr(config, "num_channels", 3), height, width, dtype=dtype)}
    elif main == "input_features" and getattr(config, "max_source_positions", None):
        given = {main: torch.randn(1, config.num_mel_bins, 2 * config.max_source_positions, dtype=dtype)}
    else:
        raise UsageError(f"{HUGGING_FACE}{name}: say how to call it with --inputs")
    if getattr(config, "is_encoder_decoder", False) and words:
        given["decoder_input_ids"] = torch.randint(0, words, (1, length))
    return given


def _call(*arguments: Any, **options: Any) -> Any:
    if len(arguments) == 1 and not options and isinstance(arguments[0], dict):
        return arguments[0]  # by name, or the one argument
    return [list(arguments), options] if options else list(arguments)


def _moved(given: Arguments, device: str, dtype: torch.dtype = torch.float32) -> Arguments:
    """On the device, and what is float32 in this data type."""

    def moved(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return value.to(device, dtype if value.dtype == torch.float32 else value.dtype)

    return Arguments(*torch.utils._pytree.tree_map(moved, tuple(given)))
