"""Mistakes: each can be made, most parse, the same kernel always gets the same ones, and the judge really catches most of them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hand_teacher import Hand, kernel, task

from bottega.data.mistakes import MISTAKES, mistakes_in, mutants_of
from bottega.judge.judge import Judge

CANDIDATES = Path(__file__).parents[2] / "benchmarks" / "candidates"
ONLINE = """
import torch
import triton
import triton.language as tl


@triton.jit
def rows_kernel(x, bias, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    here = tl.arange(0, BLOCK)
    inside = here < columns
    v = tl.load(x + row * columns + here, mask=inside, other=-float("inf"))
    best = tl.max(v, axis=0)
    weight = tl.exp(-(best - v)) * 0.7071067
    tl.store(y + row * columns + here, weight - best, mask=inside)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty(x.shape[0], x.shape[1])
        rows_kernel[(triton.cdiv(x.shape[0], 128),)](x, x, y, x.shape[1], BLOCK=128)
        return y
"""
PLAIN = '''
import torch
from bottega.runtime import cuda

kernels = cuda(r"""
extern "C" __global__ void shifted(const float* x, const float* bias, float* y, int rows, int columns) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= columns) return;
  float best = -INFINITY;
  for (int r = 0; r < rows; ++r) best = fmaxf(best, x[r * columns + i]);
  __syncthreads();
  y[i] = best + bias[i];
}
""")


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        kernels.shifted(4, 256, x, x, y, x.shape[0], x.shape[1])
        return y
'''


def sources() -> list[tuple[str, str]]:
    found = [(path.parent.name, path.read_text()) for path in sorted(CANDIDATES.glob("*/*.py"))]
    found += [("cpp", kernel(name, slow, True, 0)) for name in ("silu_norm", "tanh_chain") for slow in (True, False)]
    return [*found, ("triton", ONLINE), ("cuda", PLAIN)]


def test_every_mistake_can_be_made_and_only_syntax_errors_do_not_parse() -> None:
    made: set[str] = set()
    for language, source in sources():
        for mistake in mistakes_in(source, language):
            made.add(mistake.name)
            assert mistake.source != source and mistake.cure
            if mistake.name == "syntax_error":
                with pytest.raises(SyntaxError):
                    ast.parse(mistake.source)
            else:
                ast.parse(mistake.source)
    assert made == {mistake.name for mistake in MISTAKES}


def test_a_kernel_always_gets_the_same_mistakes() -> None:
    candidate = Hand().build(task("silu_norm"), "cpp").steps[-1].candidate
    one, other = mutants_of(task("silu_norm"), candidate, 6), mutants_of(task("silu_norm"), candidate, 6)
    assert one == other and len(one) == 6 and len({mutant.mistake for mutant in one}) == 6
    assert all(mutant.candidate.parent == candidate.id for mutant in one)
    assert mutants_of(task("silu_norm"), candidate, 0) == []


def test_mistakes_leave_comments_and_other_strings_alone() -> None:
    source = kernel("silu_norm", False, True, 0).replace("#include <cmath>", "// a / features note\n#include <cmath>")
    changed = [mistake.source for mistake in mistakes_in(source, "cpp") if mistake.name == "wrong_divisor"]
    assert len(changed) == 1 and "// a / features note" in changed[0] and "(features - 1)" in changed[0]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_judge_catches_most_mistakes(judge: Judge) -> None:
    wanted = task("silu_norm", rows=257)
    candidate = Hand().build(wanted, "cpp").steps[-1].candidate
    assert judge.judge(wanted, candidate, timed=False).correct
    mutants = mutants_of(wanted, candidate, 100)
    verdicts = {mutant.mistake: judge.judge(wanted, mutant.candidate, timed=False) for mutant in mutants}
    missed = [name for name, verdict in verdicts.items() if verdict.outcome.accepted]
    assert len(verdicts) >= 20 and len(missed) <= len(verdicts) // 4, missed
    assert all(verdict.diagnosis for name, verdict in verdicts.items() if name not in missed)
