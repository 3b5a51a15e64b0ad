"""Seconds until vLLM draws by weights that were just learned: in this process, or at a server by adapter, IPC or files; for a model of any shape.

The weights are random, and random ones are added for every version. After each the log-probs of what vLLM draws are held against those of the
model itself: a version that did not arrive, or only in part, is seen. Servers are real ones, started here; `process` and `ipc` need a GPU, and the
CPU build of vLLM does for the others.

    PYTHONPATH=src python3 benchmarks/weight_sync.py --shape tiny --ways adapter,disk
    PYTHONPATH=src python3 benchmarks/weight_sync.py --device cuda --shape 0.6b --ways process,ipc,adapter,disk
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from figure import Device, launch, show, where
from grpo_step import CONTEXT, SHAPES, adapted, random_model, tokenizer

from bottega.backbone.chat import Sampling, TokenCompletion, TokenRequest
from bottega.backbone.token_server import TokenServer
from bottega.backbone.token_servers import TokenServers, WeightTransfer
from bottega.backbone.tokenizer import HuggingFaceTokenizer
from bottega.backbone.vllm import VllmBackbone
from bottega.backbone.weights import plain_weights, save_config
from bottega.train.weight_transfer import AdapterTransfer, DiskTransfer, IpcTransfer, free_port

WAYS = ("process", "ipc", "adapter", "disk")
MEMORY = 0.35
"""Of a GPU, for vLLM."""
TELLS = 15
"""Seconds between two words about a server that starts."""
CACHE = 4 << 30
"""Bytes of keys and values at a server: given, so that it does not try how much there is room for."""
ALLOWED = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True", "VLLM_ALLOW_INSECURE_SERIALIZATION": "1",
           "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}  # fmt: skip
OPTIONS = {"adapter": ["--enable-lora", "--max-lora-rank", "16"], "ipc": ["--weight-transfer-config", '{"backend":"ipc"}']}


def main(
    device: Device = "cpu",
    shape: Annotated[str, typer.Option(help=f"{', '.join(SHAPES)}: random weights.")] = "tiny",
    ways: Annotated[str, typer.Option(help=f"Some of {', '.join(WAYS)}, by commas.")] = "adapter,disk",
    versions: Annotated[int, typer.Option(min=2, help="The first is told apart: it opens connections.")] = 4,
) -> None:
    dtype = torch.bfloat16 if device != "cpu" else torch.float32
    rows = []
    for way in ways.split(","):
        with tempfile.TemporaryDirectory() as place:
            model = random_model(shape, device, dtype)
            words = HuggingFaceTokenizer(tokenizer(model.config.vocab_size), CONTEXT)
            model.save_pretrained(place) if way in ("adapter", "disk") else save_config(model, Path(place))
            words.inner.save_pretrained(place)
            model = adapted(model) if way == "adapter" else model
            try:
                with opened(way, Path(place), model, words, dtype) as backbone:
                    found = [measured(backbone, model, version) for version in range(versions)]
            except Exception as error:  # the other rows stand
                print(f"{way}: {type(error).__name__}: {(str(error).splitlines() or [''])[0]}", file=sys.stderr)
                continue
        seconds, apart = [each[0] for each in found], max(each[1] for each in found)
        later = statistics.median(seconds[1:])
        sent = sum(each.numel() * each.element_size() for each in model.parameters() if way != "adapter" or each.requires_grad)
        rows.append(
            [way, f"{later:.3f}", f"{seconds[0]:.3f}", f"{max(seconds[1:]):.3f}", f"{sent / 2**30:.2f}", f"{apart:.4f}"]
        )
        print(f"{way}: {later:.3f} s", file=sys.stderr, flush=True)
    columns = ("", "s (median)", "first, s", "at most, s", "GiB sent", "log-probs apart (mean)")
    show(f"weights of a {shape} model to vLLM on {device}", columns, rows, [where(device), f"{versions} versions, {dtype}"])
    if not rows:
        raise typer.Exit(1)


def measured(backbone: Any, model: Any, version: int) -> tuple[float, float]:
    """Seconds, and by how much log-probs differ afterwards, on average."""

    def change() -> None:
        torch.manual_seed(version)
        with torch.inference_mode(False), torch.no_grad():
            for parameter in model.parameters():
                if parameter.requires_grad and parameter.dim() > 1:
                    parameter.add_(torch.randn_like(parameter), alpha=0.01)

    if version and hasattr(backbone, "rest"):  # it slept while the model learned
        backbone.rest()
    change()
    synchronize()
    begun = time.perf_counter()
    backbone.weights_changed(version, lambda: None)
    synchronize()
    seconds = time.perf_counter() - begun
    source = random.Random(version)
    prompts = [tuple(source.randrange(4, model.config.vocab_size) for _ in range(16)) for _ in range(16)]
    asked = [TokenRequest(prompt, Sampling(24, seed=number)) for number, prompt in enumerate(prompts)]
    drawn = asyncio.run(backbone.complete(asked))
    return seconds, statistics.mean(distance(model, request, answer) for request, answer in zip(asked, drawn, strict=True))


def distance(model: Any, request: TokenRequest, answer: TokenCompletion) -> float:
    device = next(model.parameters()).device
    ids = torch.tensor([[*request.prompt_ids, *answer.output_ids]], device=device)
    with torch.no_grad():
        logits = model(ids).logits[0, len(request.prompt_ids) - 1 : -1].float()
    truth = logits.log_softmax(-1).gather(1, ids[0, len(request.prompt_ids) :, None])[:, 0]
    return float((truth.cpu() - torch.tensor(answer.logprobs)).abs().mean())


def synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


@contextmanager
def opened(way: str, place: Path, model: Any, words: HuggingFaceTokenizer, dtype: torch.dtype) -> Iterator[Any]:
    if way == "process":
        backbone: Any = VllmBackbone.open(
            str(place),
            dtype="bfloat16",
            slots=64,
            memory=MEMORY,
            graphs=False,
            weights=lambda: plain_weights(model),
            sleeps=True,
        )
        try:
            yield backbone
        finally:
            asyncio.run(backbone.close())
        return
    with served(way, place, dtype) as server:
        server.model = server.models()[0]
        weights = lambda: plain_weights(model)  # noqa: E731
        ways: dict[str, Callable[[], WeightTransfer]] = {
            "adapter": lambda: AdapterTransfer(lambda: model, place / "sent"),
            "disk": lambda: DiskTransfer(weights, dtype, place / "sent"),
            "ipc": lambda: IpcTransfer(weights, dtype),
        }
        servers = TokenServers("random", words, [server], ways[way]())
        try:
            yield servers
        finally:
            asyncio.run(servers.close())


@contextmanager
def served(way: str, place: Path, dtype: torch.dtype) -> Iterator[TokenServer]:
    port = free_port()
    command = [
        sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(place), "--port", str(port), "--host", "127.0.0.1",
        "--dtype", str(dtype).removeprefix("torch."), "--max-model-len", "2048", "--max-num-seqs", "64", "--enforce-eager",
        "--logprobs-mode", "processed_logprobs", "--generation-config", "vllm", "--gpu-memory-utilization", str(MEMORY),
        "--kv-cache-memory-bytes", str(CACHE),
        *(["--load-format", "dummy"] if way == "ipc" else []), *OPTIONS.get(way, []),
    ]  # fmt: skip
    with open(place / "server.log", "wb") as log:
        process = subprocess.Popen(command, env={**os.environ, **ALLOWED}, stdout=log, stderr=log, start_new_session=True)
    try:
        server, begun, told = TokenServer(f"http://127.0.0.1:{port}"), time.monotonic(), 0
        while not server.is_up():
            said = (place / "server.log").read_text(errors="replace").splitlines()
            if process.poll() is not None:
                raise RuntimeError("the server ended: " + " | ".join(said[-3:]))
            if (waited := int(time.monotonic() - begun)) >= told + TELLS:
                told = waited
                print(
                    f"{way}: its server starts, {waited} s: {said[-1][:200] if said else 'nothing said'}",
                    file=sys.stderr,
                    flush=True,
                )
            time.sleep(0.5)
        print(f"{way}: its server is up after {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
        yield server
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


if __name__ == "__main__":
    launch(main)
