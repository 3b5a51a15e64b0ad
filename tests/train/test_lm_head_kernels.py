"""The kernels over logits, by Triton's interpreter and on a GPU; and there the whole packed pass in bf16 against fp32."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton", reason="the kernels need Triton")

from tiny import one_thread, random_rows, tiny_llama  # noqa: E402, F401

from bottega.train.policy import Policy  # noqa: E402
from bottega.train.settings import LossSettings  # noqa: E402


def check(device: str, rows: int = 5, vocabulary: int = 50) -> None:
    from bottega.train import lm_head_kernels

    source = torch.Generator(device).manual_seed(0)
    logits = torch.randn(rows, vocabulary, device=device, generator=source) * 4
    targets = torch.randint(0, vocabulary, (rows,), device=device, generator=source)
    slopes = torch.randn(rows, device=device, generator=source)
    logprobs, entropy, norm = lm_head_kernels.logprobs(logits, targets)
    table = logits.log_softmax(-1)
    assert torch.allclose(logprobs, table.gather(1, targets[:, None])[:, 0], atol=1e-4)
    assert torch.allclose(entropy, -(table.exp() * table).sum(-1), atol=1e-4)
    grad = lm_head_kernels.logits_grad(logits, norm, targets, slopes, torch.float32)
    hit = torch.nn.functional.one_hot(targets, vocabulary)
    assert torch.allclose(grad, slopes[:, None] * (hit - table.exp()), atol=1e-5)


@pytest.mark.slow
def test_the_kernels_by_the_interpreter() -> None:
    """In a process of its own: the interpreter is chosen when Triton is imported."""
    here = str(Path(__file__).parent)
    code = (
        f"import sys; sys.path.insert(0, {here!r}); import test_lm_head_kernels as test; from bottega.train import lm_head_kernels; "
        "lm_head_kernels.BLOCK = 16; test.check('cpu')"
    )
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.gpu
def test_the_kernels_on_a_gpu() -> None:
    check("cuda", rows=300, vocabulary=49152)


@pytest.mark.gpu
@pytest.mark.parametrize("compiled", [False, True])
def test_packs_on_a_gpu_are_those_of_fp32(compiled: bool) -> None:
    model, rows = tiny_llama(head_dim=64).cuda(), random_rows(9)
    settings = LossSettings(normalise="tokens")

    def found(policy: Policy, groups: list[list[int]]) -> tuple[float, Any]:
        model.zero_grad()
        total = 0.0
        for group in groups:
            passed = policy.loss(policy.pack([rows[number] for number in group], group, 256), settings)
            passed.loss.backward()
            total += float(passed.loss.detach())
        return total, torch.cat([each.grad.flatten() for each in model.parameters()])

    truth, gradient = found(Policy(model, dtype=torch.float32, compiled=False), [list(range(9))])
    policy = Policy(model, compiled=compiled, longest=32)
    for groups in ([list(range(9))], [[number] for number in range(9)]):
        loss, own = found(policy, groups)
        assert loss == pytest.approx(truth, rel=5e-3)
        assert float((own - gradient).norm() / gradient.norm()) < 0.05
