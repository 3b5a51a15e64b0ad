"""The decoder with pages and kernels: on a GPU where there is one, and elsewhere, slowly, in Triton's interpreter."""

from __future__ import annotations

import asyncio
import copy
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from small_models import loaded, small_model, torch, unequal, with_lora
from teacher_forced import as_sampled, teacher_forced

from bottega.backbone.chat import TokenCompletion, TokenRequest
from bottega.backbone.local import LocalBackbone

INTERPRETED = """
import sys
sys.path.insert(0, sys.argv[1])
from small_models import END, small_model, unequal
from bottega.backbone.generation import generation_of
from bottega.backbone.engine import Engine
from bottega.backbone.paged_runner import PagedRunner
from bottega.backbone.plain_runner import PlainRunner
from bottega.backbone.chat import TokenRequest
from bottega.backbone.weights import Weights

model = small_model(sys.argv[2], num_hidden_layers=1, hidden_size=64, num_attention_heads=4, intermediate_size=64)
weights = Weights(model, 256)
base = tuple(range(10, 50)) * 3
requests = unequal(3, longest=20, most=3, temperature=0.7) + unequal(1, longest=70, most=2, temperature=0.0)
requests += [TokenRequest(base[:n], each.sampling) for n, each in zip((70, 75), unequal(2, seed=5, most=3))]
answers = []
for runner in (PlainRunner(weights, 3, 4096), PagedRunner(weights, 3, 1024, 256, [END], graphs=False)):
    engine = Engine(runner, [END], lambda ids: "")
    generations = [generation_of(request, 256, 1024, 61) for request in requests]
    engine.submit(generations)
    answers.append([each.future.result() for each in generations])
    engine.close()
plain, paged = answers
assert [each.output_ids for each in plain] == [each.output_ids for each in paged], answers
assert max(abs(a - b) for x, y in zip(plain, paged) for a, b in zip(x.logprobs, y.logprobs)) < 1e-4
assert [each.stop_reason for each in plain] == [each.stop_reason for each in paged]
"""

HANDED_BACK = """
import sys
sys.path.insert(0, sys.argv[1])
from small_models import END, small_model, unequal
from bottega.backbone.generation import generation_of
from bottega.backbone.engine import Engine
from bottega.backbone.paged_runner import PagedRunner
from bottega.backbone.weights import Weights

model = small_model("llama", num_hidden_layers=1, hidden_size=64, num_attention_heads=4, intermediate_size=64)
runner = PagedRunner(Weights(model, 256), 3, 1024, 256, [END], graphs=False)
sizes = []
runner.claimed = lambda size: sizes.append(size) or True
engine = Engine(runner, [END], lambda ids: "")
assert runner.cache_bytes == 0 and runner.capacity == 1024

def answered(requests):
    generations = [generation_of(request, 256, 1024, 61) for request in requests]
    engine.submit(generations)
    return [each.future.result() for each in generations]

requests = unequal(3, longest=20, most=3, temperature=0.7) + unequal(2, longest=150, most=3, temperature=0.0)
before = answered(requests)
held, most = runner.cache_bytes, max(sizes)
assert 0 < held == most
engine.between(runner.hand_back)
assert runner.cache_bytes == 0 == sizes[-1]
assert answered(requests) == before, "the same answers, to the last bit, from a cache that was made anew"
engine.between(runner.hand_back)
runner.claimed = lambda size: size <= held // 2
assert answered(requests) == before and 0 < runner.cache_bytes <= held // 2, "others have the rest: fewer at a time"
engine.between(runner.hand_back)
runner.claimed = lambda size: False
lost = generation_of(requests[0], 256, 1024, 61)
engine.submit([lost])
assert "not enough memory to generate" in str(lost.future.exception())
runner.claimed = lambda size: True
few = answered(requests[:1])
assert few == before[:1] and 0 < runner.cache_bytes < held, "as large as what is asked for"

slow = generation_of(unequal(1, longest=40, most=12, temperature=0.0)[0], 256, 1024, 61)
alone = answered([unequal(1, longest=40, most=12, temperature=0.0)[0]])[0]
engine.between(runner.hand_back)
engine.submit([slow])
assert answered(requests) == before and slow.future.result() == alone, "grown while an answer was under way"
engine.close()
"""


@pytest.mark.slow
def test_the_cache_grows_is_handed_back_and_comes_again() -> None:
    interpreted(HANDED_BACK)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["llama", "qwen3"])
def test_the_kernels_agree_with_plain_torch(kind: str) -> None:
    interpreted(INTERPRETED, kind)


def interpreted(program: str, *arguments: str) -> None:
    pytest.importorskip("triton", reason="needs Triton's interpreter")
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONWARNINGS": "ignore"}
    here = str(Path(__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", program, here, *arguments], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]


def gpu_model(kind: str, dtype: Any) -> Any:
    shape = {"hidden_size": 192, "num_attention_heads": 6, "num_key_value_heads": 2, "num_hidden_layers": 3}
    return small_model(kind, **shape).to("cuda", dtype)


def off_by(backbone: LocalBackbone, requests: list[TokenRequest], found: list[TokenCompletion]) -> Any:
    truth = as_sampled(backbone.model, requests, found)
    return torch.tensor([abs(a - b) for row, each in zip(truth, found) for a, b in zip(row, each.logprobs)])


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3", "mistral"])
@pytest.mark.parametrize("graphs", [True, False])
def test_logprobs_on_a_gpu(kind: str, graphs: bool) -> None:
    backbone = LocalBackbone(loaded(gpu_model(kind, torch.float32)), slots=12, graphs=graphs)
    assert backbone.engine == "paged kernels"
    requests = unequal(60, longest=150, most=60) + unequal(20, seed=9, longest=150, most=30, temperature=0.7)
    found = asyncio.run(backbone.complete(requests))
    assert off_by(backbone, requests, found).max() < 2e-3
    for request, each in zip(requests, found):
        assert each.stop_reason == "stop" or len(each.output_ids) == request.sampling.max_tokens
    asyncio.run(backbone.close())


@pytest.mark.gpu
def test_bf16_on_a_gpu_is_as_near_to_the_truth_as_transformers() -> None:
    """The truth is fp32 arithmetic on the same weights."""
    model = gpu_model("llama", torch.bfloat16)
    backbone = LocalBackbone(loaded(model), slots=12)
    requests = unequal(40, longest=150, most=60)
    found = asyncio.run(backbone.complete(requests))
    rows = [(request.prompt_ids, each.output_ids) for request, each in zip(requests, found)]
    lists = (
        teacher_forced(copy.deepcopy(model).float(), rows),
        teacher_forced(backbone.model, rows),
        [each.logprobs for each in found],
    )
    exact, theirs, mine = (torch.tensor([value for row in values for value in row]) for values in lists)
    assert (mine - exact).abs().mean() < 1.25 * (theirs - exact).abs().mean() + 1e-3
    assert (mine - exact).abs().quantile(0.99) < 1.5 * (theirs - exact).abs().quantile(0.99) + 1e-2
    asyncio.run(backbone.close())


@pytest.mark.gpu
def test_gpu_and_cpu_draw_the_same_in_fp32() -> None:
    model = gpu_model("llama", torch.float32)
    requests = unequal(20, longest=60, most=20, temperature=0.8)
    backbone = LocalBackbone(loaded(model), slots=8)
    there = asyncio.run(backbone.complete(requests))
    again = asyncio.run(backbone.complete(requests[::-1]))[::-1]
    asyncio.run(backbone.close())
    backbone = LocalBackbone(loaded(model.cpu()), slots=8)
    here = asyncio.run(backbone.complete(requests))
    asyncio.run(backbone.close())
    assert sum(a.output_ids == b.output_ids for a, b in zip(there, again)) >= 19  # a near tie may fall the other way
    assert sum(a.output_ids == b.output_ids for a, b in zip(there, here)) >= 18


@pytest.mark.gpu
@pytest.mark.parametrize("adapted", [False, True])
def test_a_trainer_is_seen_on_a_gpu(adapted: bool) -> None:
    model = gpu_model("llama", torch.float32)
    model = with_lora(model) if adapted else model
    backbone = LocalBackbone(loaded(model), slots=8)
    requests = unequal(20, longest=150)
    before = asyncio.run(backbone.complete(requests))
    assert off_by(backbone, requests, before).max() < 2e-3
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not adapted or "lora" in name:
                parameter.mul_(1.1)
    assert backbone.weights_changed() == 1
    after = asyncio.run(backbone.complete(requests))
    assert {each.policy_version for each in after} == {1}
    assert off_by(backbone, requests, after).max() < 2e-3
    model.get_input_embeddings().weight.data = (
        model.get_input_embeddings().weight.data.clone()
    )  # graphs must not read the old memory
    with torch.no_grad():
        model.get_input_embeddings().weight.mul_(0.5)
    backbone.weights_changed()
    assert off_by(backbone, requests, asyncio.run(backbone.complete(requests))).max() < 2e-3
    asyncio.run(backbone.close())


@pytest.mark.gpu
def test_few_pages_and_many_requests_on_a_gpu() -> None:
    backbone = LocalBackbone(loaded(gpu_model("llama", torch.float32)), slots=16, cache_tokens=512)
    requests = unequal(50, longest=120, most=40)
    found = asyncio.run(backbone.complete(requests))
    assert off_by(backbone, requests, found).max() < 2e-3
    assert backbone.memory.cache > 0
    asyncio.run(backbone.close())


@pytest.mark.gpu
def test_a_cancelled_call_frees_its_slots_on_a_gpu() -> None:
    backbone = LocalBackbone(loaded(gpu_model("llama", torch.float32)), slots=4)

    async def scene() -> tuple[int, int]:
        call = [asyncio.create_task(backbone.complete(unequal(60, most=200, longest=40)))]
        while not backbone.load_now[0]:
            await asyncio.sleep(0.001)
        call[0].cancel()
        with pytest.raises(asyncio.CancelledError):
            await call[0]
        await backbone.complete(unequal(5))
        return backbone.load_now

    assert asyncio.run(scene()) == (0, 0)
    asyncio.run(backbone.close())


@pytest.mark.gpu
def test_on_a_gpu_the_cache_is_handed_back_and_answers_stay_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """With graphs, which hold the addresses of the pages that they were recorded with."""
    monkeypatch.setattr("bottega.backbone.paged_runner.SMALL", 1 << 60)
    backbone = LocalBackbone(loaded(gpu_model("llama", torch.float32)), slots=64)
    assert backbone.memory.cache == 0
    requests = unequal(60, longest=150, most=60) + unequal(20, seed=9, longest=150, most=30, temperature=0.7)
    before = asyncio.run(backbone.complete(requests))
    held, free = backbone.memory.cache, torch.cuda.mem_get_info()[0]
    assert held > 0
    for _ in range(3):
        backbone._engine.between(backbone._runner.hand_back)
        assert backbone.memory.cache == 0 and torch.cuda.mem_get_info()[0] >= free
        again = asyncio.run(backbone.complete(requests))
        assert [each.output_ids for each in again] == [each.output_ids for each in before]
        assert off_by(backbone, requests, again).max() < 2e-3
    asyncio.run(backbone.close())
