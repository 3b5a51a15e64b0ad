"""From a word on the command line or in a configuration to a client. Each form imports only what it needs: no torch for a server."""

from __future__ import annotations

import inspect
import json
import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from bottega.backbone.client import ChatClient, Client, TokenClient
from bottega.backbone.ledger import Ledger
from bottega.backbone.loading import is_embedded
from bottega.backbone.scripted import Script, ScriptedChat
from bottega.backbone.server import Endpoint, LimitField, ServerBackbone
from bottega.backbone.thinking import template_arguments
from bottega.core.errors import BackboneError, UsageError
from bottega.core.plugins import Plugins

FORMS = """\
  embedded                     the small model that comes along, in this process, with the training that comes along
  embedded:base                the same without that training; embedded:FILE.difference with the training in a file
  local:PATH_OR_HUB_NAME       a model's folder or name on the Hugging Face hub, in this process
  vllm:PATH_OR_HUB_NAME        the same with vLLM's engine, on a GPU
  server:MODEL@BASE_URL        a model behind an OpenAI-compatible server, e.g. server:qwen3-8b@http://localhost:8000/v1
  scripted:FILE.json|FILE.py   fixed answers: a JSON list, a JSON object of patterns and answers, or Python with `script`
  NAME:… or module:Name:…      one of an installed package, or of a module of yours
Options may follow a question mark: local:PATH?device=cpu&slots=8, vllm:PATH?memory=0.3&context=8192, and of all three
server:MODEL@URL?thinking=no, ?thinking_tokens=4096 as a limit for thoughts, or ?template={"reasoning_effort":"low"}"""


BACKBONES = Plugins(
    "backbones",
    "backbone",
    {
        "local": "bottega.backbone.choose:_local",
        "vllm": "bottega.backbone.choose:_vllm",
        "server": "bottega.backbone.choose:_server",
        "scripted": "bottega.backbone.choose:_scripted",
    },
)
"""A backbone is a function or class that is called with what stands behind its name, and with its options by keyword, and gives a
client: `NAME:rest?option=value`, or `module:Name:rest`."""


def open_backbone(spec: str, **options: Any) -> Client:
    """The client that a spec names. Options are those of its form; one that the form lacks is a `UsageError`."""
    name = spec.strip().partition("?")[0]
    if is_embedded(name):
        return _called(_local, "embedded", name, {**_asked(spec, _local), **options})
    form, rest = BACKBONES.split(spec.strip())
    if not form or (form in BACKBONES.builtin and not rest):
        unknown = spec.strip().partition(":")[0]
        raise UsageError(f"no backbone is called {unknown!r}, or it lacks its part after the colon. The forms:\n{FORMS}")
    opener = BACKBONES.load(form)
    if form != "scripted":
        rest, options = rest.partition("?")[0], {**_asked(rest, opener), **options}
    return _called(opener, form, rest, options)


def _asked(rest: str, opener: Callable[..., Client]) -> dict[str, Any]:
    """Options behind a question mark, each of the kind that the form takes: `?slots=8&graphs=no`."""
    kinds = {name: str(what.annotation) for name, what in inspect.signature(opener).parameters.items()}
    found: dict[str, Any] = {}
    for name, value in parse_qsl(rest.partition("?")[2], keep_blank_values=True):
        kind = kinds.get(name, "str").partition(" | ")[0]
        try:
            found[name] = READERS.get(kind, str)(value)
        except (ValueError, KeyError):
            what = "JSON object" if kind.startswith("dict") else kind
            raise UsageError(f"the backbone's option {name}={value} is no {what}") from None
    return found


def _truth(word: str) -> bool:
    return {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}[word.lower()]


def _object(text: str) -> dict[str, Any]:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError(text)
    return found


READERS: dict[str, Callable[[str], object]] = {"bool": _truth, "int": int, "float": float, "dict[str, Any]": _object}


def _called(opener: Callable[..., Client], form: str, rest: str, options: dict[str, Any]) -> Client:
    known = [name for name, what in inspect.signature(opener).parameters.items() if what.kind is what.KEYWORD_ONLY]
    unknown = sorted(options.keys() - set(known))
    if unknown:
        raise UsageError(f"a backbone of the form {form!r} has no option {', '.join(unknown)}; it has {', '.join(known)}")
    return opener(rest, **options)


def _local(
    name: str,
    *,
    device: str | None = None,
    dtype: str = "auto",
    lora: Any = None,
    adapter: str | Path | None = None,
    context: int | None = None,
    revision: str | None = None,
    slots: int | None = None,
    cache_tokens: int | None = None,
    thinking: bool | None = None,
    thinking_tokens: int | None = None,
    template: dict[str, Any] | None = None,
) -> Client:
    """A model in this process. What the options mean, `loading.load`, `LocalBackbone` and `TokenClient` say."""
    try:
        from bottega.backbone.local import LocalBackbone
    except ImportError as missing:
        raise BackboneError(f"a model in this process needs {missing.name}: pip install 'bottega[local]'") from None
    loading = {"device": device, "dtype": dtype, "lora": lora, "adapter": adapter, "context": context, "revision": revision}
    running: dict[str, Any] = {"slots": slots, "cache_tokens": cache_tokens, "template": template_arguments(thinking, template)}
    return TokenClient(LocalBackbone.open(name, **loading, **running), thinking_tokens)


def _vllm(
    name: str,
    *,
    dtype: str = "auto",
    context: int | None = None,
    revision: str | None = None,
    slots: int | None = None,
    memory: float | None = None,
    graphs: bool = True,
    attention: str | None = None,
    thinking: bool | None = None,
    thinking_tokens: int | None = None,
    template: dict[str, Any] | None = None,
) -> Client:
    """vLLM's engine in this process; what the options mean, `VllmBackbone.open` says."""
    try:
        from bottega.backbone.vllm import VllmBackbone
    except ImportError as missing:
        raise BackboneError(f"a model in this process needs {missing.name}: pip install 'bottega[local]'") from None
    sizes: dict[str, Any] = {"slots": slots, "memory": memory, "context": context}
    options: dict[str, Any] = {"revision": revision, "graphs": graphs, "attention": attention}
    said = template_arguments(thinking, template)
    return TokenClient(VllmBackbone.open(name, dtype=dtype, template=said, **options, **sizes), thinking_tokens)


def _server(
    rest: str,
    *,
    key_variable: str = "OPENAI_API_KEY",
    context: int = 32_768,
    concurrency: int = 8,
    ledger: Ledger | None = None,
    limit_field: LimitField = "max_tokens",
    thinking: bool | None = None,
    thinking_tokens: int | None = None,
    template: dict[str, Any] | None = None,
    tools: bool = True,
) -> Client:
    parts = server_parts(rest)
    if parts is None:
        raise UsageError(
            f"a server is written server:MODEL@BASE_URL, e.g. server:qwen3-8b@http://localhost:8000/v1, not {rest!r}"
        )
    backbone = ServerBackbone(
        Endpoint(base_url=parts[1], model=parts[0], key_variable=key_variable),
        context=context,
        concurrency=concurrency,
        ledger=ledger,
        limit_field=limit_field,
        template=template_arguments(thinking, template),
        thinking_tokens=thinking_tokens,
        tools=tools,
    )
    return ChatClient(backbone)


def server_parts(rest: str) -> tuple[str, str] | None:
    """Model and address of `MODEL@BASE_URL`; a model's name may have an @ of its own."""
    found = re.fullmatch(r"(.+)@(https?://.+)", rest)
    return None if found is None else (found[1], found[2])


def _scripted(rest: str, *, repeat: bool = False) -> Client:
    """`repeat`: a list begins again when it ends."""
    script = read_script(Path(rest))
    return ChatClient(ScriptedChat(script, repeat=repeat, name=f"scripted:{Path(rest).name}"))


def read_script(path: Path) -> Script:
    """A script from a file. One in Python is run, as its owner: it is the user's own, like a test."""
    try:
        script = (
            runpy.run_path(str(path)).get("script") if path.suffix == ".py" else json.loads(path.read_text(encoding="utf-8"))
        )
    except OSError as error:
        raise UsageError(f"the script {path} cannot be read: {error.strerror or error}") from None
    except (Exception, SystemExit) as error:
        raise UsageError(f"the script {path} cannot be used: {type(error).__name__}: {error}") from None
    if path.suffix == ".py" and callable(script):
        return script  # type: ignore[no-any-return]
    if isinstance(script, list) and all(isinstance(line, str) for line in script):
        return script
    if isinstance(script, dict) and all(isinstance(word, str) for pair in script.items() for word in pair):
        for pattern in script:
            try:
                re.compile(pattern)
            except re.error as error:
                raise UsageError(f"the script {path} has a pattern that does not parse: {pattern!r} ({error})") from None
        return script
    what = "`script` is a list of texts, a mapping from patterns to texts, or a function" if path.suffix == ".py" else ""
    raise UsageError(
        f"the script {path} is no script: {what or 'write a JSON list of texts, or an object of patterns and texts'}"
    )
