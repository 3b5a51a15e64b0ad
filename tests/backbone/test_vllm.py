"""vLLM in this process. It runs on a GPU only, so elsewhere a stand-in of its engine serves: it draws fixed tokens, one a step."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small_models import END, VOCABULARY, small_model, torch, unequal, word_tokenizer
from teacher_forced import as_sampled

from bottega.backbone.chat import Sampling, TokenCompletion, TokenRequest
from bottega.backbone.choose import open_backbone
from bottega.backbone.loading import cast
from bottega.backbone.vllm import VllmBackbone
from bottega.backbone.weights import plain_weights
from bottega.core.errors import BackboneError, UsageError

HAS_VLLM = importlib.util.find_spec("vllm") is not None
on_gpu = [pytest.mark.gpu, pytest.mark.skipif(not HAS_VLLM, reason="vLLM is not installed")]


class Flat:
    """As vLLM's FlatLogprobs: the sampled token first at each position, others behind it."""

    def __init__(self, ids: list[int | None]) -> None:
        self.start_indices: list[int] = []
        self.token_ids: list[int] = []
        self.logprobs: list[float] = []
        self.ids = ids
        for token in ids:
            self.start_indices.append(len(self.token_ids))
            if token is not None:
                self.token_ids += [token, 0]
                self.logprobs += [-float(token), -99.0]

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, place: slice) -> Flat:
        return Flat(self.ids[place])


class StandIn:
    """What we call of vLLM's engine. A request draws 10, 11, 12, … until its limit; `broken` makes a step fail."""

    def __init__(self) -> None:
        self.requests: dict[str, tuple[list[int], Any, list[int]]] = {}
        self.llm_engine = self
        self.engine_core = self
        self.calls: list[Any] = []
        self.broken = False

    def add_request(self, name: str, prompt: dict[str, list[int]], parameters: Any) -> None:
        self.requests[name] = (prompt["prompt_token_ids"], parameters, [])

    def abort_request(self, names: list[str]) -> None:
        for name in names:
            if self.requests.pop(name, None):
                self.calls.append(("abort", name))

    def step(self) -> list[Any]:
        if self.broken:
            raise RuntimeError("the device is on fire")
        time.sleep(0.002)  # else an answer is over before a test can look at it
        found = []
        for name, (_, parameters, sampled) in list(self.requests.items()):
            sampled.append(10 + len(sampled))
            stopped = bool(parameters.stop) and len(sampled) == 2
            over = stopped or len(sampled) == parameters.max_tokens
            if over:
                del self.requests[name]
            ids = sampled[-1:] if parameters.output_kind == "delta" else sampled
            if over or parameters.output_kind == "delta":
                output = types.SimpleNamespace(
                    token_ids=ids, logprobs=Flat([None, *ids]), finish_reason="stop" if stopped else "length" if over else None
                )
                found.append(types.SimpleNamespace(request_id=name, outputs=[output]))
        return found

    def shutdown(self) -> None:
        self.calls.append("shutdown")

    def collective_rpc(self, method: str, kwargs: dict[str, Any]) -> None:
        assert method == "reload_weights"
        self.calls.append(("weights", dict(kwargs["weights_iterator"])))

    def reset_prefix_cache(self) -> None:
        self.calls.append("reset")

    def sleep(self, level: int) -> None:
        self.calls.append(("sleep", level))

    def wake_up(self) -> None:
        self.calls.append("wake")


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    for name in ("vllm", "vllm.sampling_params", "vllm.distributed"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    sys.modules["vllm"].SamplingParams = types.SimpleNamespace  # type: ignore[attr-defined]
    sys.modules["vllm.sampling_params"].RequestOutputKind = types.SimpleNamespace(DELTA="delta", FINAL_ONLY="final")  # type: ignore[attr-defined]
    sys.modules["vllm.distributed"].cleanup_dist_env_and_memory = lambda: None  # type: ignore[attr-defined]
    for name in ("VLLM_ENABLE_V1_MULTIPROCESSING", "VLLM_NO_USAGE_STATS"):
        monkeypatch.setenv(name, "")
    return StandIn()  # type: ignore[return-value]


def standing(engine: StandIn, slots: int = 4) -> VllmBackbone:
    return VllmBackbone("small", word_tokenizer(), VOCABULARY, lambda: engine, slots)


def answers(backbone: VllmBackbone, requests: list[TokenRequest]) -> list[TokenCompletion]:
    return asyncio.run(backbone.complete(requests))


def test_requests_come_back_in_order_with_the_log_prob_of_the_drawn_token(engine: StandIn) -> None:
    backbone = standing(engine, slots=2)
    found = answers(backbone, [TokenRequest((1, i), Sampling(max_tokens=4 - i, seed=i)) for i in range(4)])
    assert [each.output_ids for each in found] == [(10, 11, 12, 13), (10, 11, 12), (10, 11), (10,)]
    assert found[1].logprobs == (-10.0, -11.0, -12.0)
    assert {(each.stop_reason, each.policy_version) for each in found} == {("length", 0)}
    asyncio.run(backbone.close())
    assert engine.calls == ["shutdown"]


def test_it_takes_a_trainers_weights_and_sleeps_while_the_model_learns(engine: StandIn) -> None:
    learned = {"layer": 1}
    backbone = VllmBackbone("small", word_tokenizer(), VOCABULARY, lambda: engine, 4, learned.items, sleeps=True)
    assert backbone.policy_version == -1, "its own weights are none"
    assert backbone.weights_changed(0, lambda: learned.update(layer=2)) == 0
    assert answers(backbone, [TokenRequest((1,), Sampling(max_tokens=2))])[0].policy_version == 0
    backbone.rest()
    backbone.rest()
    assert answers(backbone, [TokenRequest((1,), Sampling(max_tokens=2))])[0].policy_version == 0, (
        "kernels were timed meanwhile"
    )
    backbone.rest()
    backbone.weights_changed(1, lambda: learned.update(layer=3))
    assert answers(backbone, [TokenRequest((1,), Sampling(max_tokens=2))])[0].policy_version == 1
    asyncio.run(backbone.close())
    slept = [("sleep", 2), "wake"]  # the second level forgets the weights, and copies none to the host
    assert engine.calls == [*took(2), *slept, *took(2), *slept, *took(3), "shutdown"]


def took(layer: int) -> list[Any]:
    return [("weights", {"layer": layer}), "reset"]


def test_without_a_trainer_its_own_weights_outlast_its_sleep(engine: StandIn) -> None:
    backbone = VllmBackbone("small", word_tokenizer(), VOCABULARY, lambda: engine, 4, sleeps=True)
    backbone.rest()
    assert answers(backbone, [TokenRequest((1,), Sampling(max_tokens=2))])[0].policy_version == 0
    asyncio.run(backbone.close())
    assert engine.calls == [("sleep", 1), "wake", "shutdown"]


def test_stop_strings_are_vllms_own_matter(engine: StandIn) -> None:
    """Where it has ended an answer, it is over, though our tokenizer sees no stop string in it."""
    backbone = standing(engine)
    (found,) = answers(backbone, [TokenRequest((1,), Sampling(max_tokens=9, stop=("END",)))])
    assert found.output_ids == (10, 11) and found.stop_reason == "stop"
    asyncio.run(backbone.close())


def test_a_failure_reaches_who_asked_and_the_next_may_go_on(engine: StandIn) -> None:
    backbone = standing(engine)
    engine.broken = True
    with pytest.raises(BackboneError, match="on fire"):
        answers(backbone, [TokenRequest((1,), Sampling(max_tokens=3))])
    engine.broken = False
    assert len(answers(backbone, [TokenRequest((1,), Sampling(max_tokens=3))])[0].output_ids) == 3
    asyncio.run(backbone.close())


def test_an_engine_that_does_not_start_says_why(engine: StandIn) -> None:
    def fails() -> Any:
        raise ValueError("Free memory on device is less than desired")

    with pytest.raises(BackboneError, match=r"cannot serve small: ValueError: Free memory"):
        VllmBackbone("small", word_tokenizer(), VOCABULARY, fails)


def test_without_a_gpu_or_without_vllm_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UsageError, match="needs an NVIDIA GPU"):
        open_backbone("vllm:somewhere/model?context=4096&memory=0.3")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"bottega\[vllm\]"):
        open_backbone("vllm:somewhere/model")


class TestOnAGpu:
    """One engine for all: it takes a minute to start."""

    pytestmark = on_gpu

    @pytest.fixture(scope="class")
    def model(self) -> Any:
        shape = {
            "hidden_size": 256,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "num_hidden_layers": 3,
            "initializer_range": 0.05,
        }
        return cast(small_model(**shape).to("cuda"), torch.bfloat16)

    @pytest.fixture(scope="class")
    def backbone(self, model: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmBackbone]:
        folder: Path = tmp_path_factory.mktemp("model")
        model.config.eos_token_id = END
        model.generation_config.eos_token_id = END
        model.save_pretrained(folder)
        word_tokenizer().inner.save_pretrained(folder)
        backbone = VllmBackbone.open(str(folder), slots=16, memory=0.2, graphs=False, attention="FLASH_ATTN")
        yield backbone
        asyncio.run(backbone.close())

    def test_log_probs_are_those_of_a_teacher_forced_pass(self, backbone: VllmBackbone, model: Any) -> None:
        requests = unequal(40, longest=150, most=60) + unequal(20, seed=9, longest=150, most=30, temperature=0.7)
        found = answers(backbone, requests)
        for request, each in zip(requests, found):
            assert each.stop_reason == "stop" or len(each.output_ids) == request.sampling.max_tokens
            assert END not in each.output_ids[:-1]
        truth = torch.tensor([value for row in as_sampled(model, requests, found) for value in row])
        assert (torch.tensor([value for each in found for value in each.logprobs]) - truth).abs().mean() < 0.03

    def test_a_trainers_weights_are_drawn_by_before_and_after_a_sleep(self, model: Any, tmp_path: Path) -> None:
        """Also where the trainer has changed them meanwhile, and where it has not."""
        model.config.save_pretrained(tmp_path)
        word_tokenizer().inner.save_pretrained(tmp_path)
        backbone = VllmBackbone.open(
            str(tmp_path), slots=16, memory=0.1, graphs=False, attention="FLASH_ATTN", dtype="bfloat16",
            weights=lambda: plain_weights(model), sleeps=True,
        )  # fmt: skip
        asked = unequal(16, longest=60, most=30)
        for version, scale in ((0, 1.0), (1, 1.1), (1, 1.0)):

            def change(scale: float = scale) -> None:
                with torch.inference_mode(False), torch.no_grad():
                    for parameter in model.parameters():
                        parameter.mul_(scale)

            if version != backbone.policy_version:
                backbone.weights_changed(version, change)
            found = answers(backbone, asked)
            truth = torch.tensor([value for row in as_sampled(model, asked, found) for value in row])
            assert (torch.tensor([value for each in found for value in each.logprobs]) - truth).abs().mean() < 0.03
            assert {each.policy_version for each in found} == {version}
            backbone.rest()
        asyncio.run(backbone.close())

    def test_a_seed_draws_alike(self, backbone: VllmBackbone) -> None:
        requests = unequal(20, longest=60, most=20, temperature=0.8)
        there, again = answers(backbone, requests), answers(backbone, requests[::-1])[::-1]
        assert sum(a.output_ids == b.output_ids for a, b in zip(there, again)) >= 17  # bf16: near ties may fall the other way

    def test_a_cancelled_call_frees_its_slots(self, backbone: VllmBackbone) -> None:
        async def scene() -> tuple[int, int]:
            call = [asyncio.create_task(backbone.complete([TokenRequest((1, i), Sampling(max_tokens=200)) for i in range(40)]))]
            while not backbone.load_now[0]:
                await asyncio.sleep(0.001)
            call[0].cancel()
            with pytest.raises(asyncio.CancelledError):
                await call[0]
            await backbone.complete(unequal(5))
            return backbone.load_now

        assert asyncio.run(scene()) == (0, 0)
