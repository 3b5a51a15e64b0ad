"""A small teacher for tests: a few C++ kernels written by hand for three tasks, each beginning with one that is slow on purpose.

Slow on purpose and by a lot (no optimisation at all), so that a step is surely faster than the one before it on any machine, however
busy. The fast ones are surely faster than eager as well, since the gate sees no gain between two kernels that are slower than the module:
the chains have many passes for eager, and the exponential is written out, because not every machine has a libm that a compiler can
vectorise (on aarch64 `expf` stays a call, and the fast kernels were slower than eager).
It also plays the teachers that crash, hang, raise and refuse.
"""

from __future__ import annotations

import os
import signal
import time

from bottega.compiler.build_step import FIRST_ATTEMPT, BuildStep, BuildSteps, Refusal
from bottega.core.candidate import Candidate
from bottega.core.task import Task

HEAD = """\
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(features))
        self.shift = nn.Parameter(torch.zeros(features))

    def forward(self, x):
"""
TAIL = """

rows = ROWS
features = 1024


def get_inputs():
    return [torch.randn(rows, features)]


def get_init_inputs():
    return [features]
"""
BODIES = {
    "silu_norm": """\
        x = x * self.scale + self.shift
        x = x * torch.sigmoid(x)
        return x / torch.sqrt((x * x).mean(dim=-1, keepdim=True) + 1e-6)
""",
    "silu_chain": """\
        x = x * self.scale + self.shift
        x = x * torch.sigmoid(x)
        for _ in range(8):
            x = x * 0.75 + torch.relu(x) * 0.25
        return (x * 0.125 - 2.5) * x + 0.75
""",
    "tanh_chain": """\
        x = torch.tanh(x * self.scale + self.shift)
        x = x * x - x * 0.25
        for _ in range(8):
            x = x * 0.75 + torch.relu(x) * 0.25
        return torch.relu(x) + 0.375
""",
}
LEAKS = "      a = a * 0.75f + (a > 0.f ? a : 0.f) * 0.25f;\n" * 8
LOOPS = {
    "silu_norm": """\
    float squares = 0.f;
@sum
    for (int64_t i = 0; i < features; ++i) {
      const float v = in[i] * scale[i] + shift[i];
      const float a = v / (1.f + exponential(-v));
      out[i] = a;
      squares += a * a;
    }
    const float factor = 1.f / sqrtf(squares / features + 1e-6f);
@each
    for (int64_t i = 0; i < features; ++i) out[i] *= factor;
""",
    "silu_chain": f"""\
@each
    for (int64_t i = 0; i < features; ++i) {{
      const float v = in[i] * scale[i] + shift[i];
      float a = v / (1.f + exponential(-v));
{LEAKS}\
      out[i] = (a * 0.125f - 2.5f) * a + 0.75f;
    }}
""",
    "tanh_chain": f"""\
@each
    for (int64_t i = 0; i < features; ++i) {{
      const float t = 1.f - 2.f / (1.f + exponential(2.f * (in[i] * scale[i] + shift[i])));
      float a = t * t - t * 0.25f;
{LEAKS}\
      out[i] = (a > 0.f ? a : 0.f) + 0.375f;
    }}
""",
}
EXPONENTIAL = """\
static inline float exponential(float x) {
  x = x < -80.f ? -80.f : x > 80.f ? 80.f : x;
  const float n = rintf(x * 1.44269504f);
  const float r = x - n * 0.693147181f;
  const float p = 1.f + r * (1.f + r * (0.5f + r * (0.166666667f + r * (0.0416666667f + r * (0.00833333333f + r * 0.00138888889f)))));
  return p * __builtin_bit_cast(float, ((int32_t)n + 127) << 23);
}
"""
CARD = {
    "silu_norm": "norm_moments_by_blocks",
    "silu_chain": "elementwise_chain_one_pass",
    "tanh_chain": "elementwise_chain_one_pass",
}


def task(name: str, rows: int = 64) -> Task:
    """Small, so that judging is quick; a task whose times are compared needs thousands of rows."""
    return Task(
        HEAD + BODIES[name] + TAIL.replace("ROWS", str(rows)),
        name,
        name,
        2,
        ("activation", "elementwise", "dtype:float32", "level:2"),
    )


def kernel(name: str, slow: bool, threads: bool, seed: int) -> str:
    loop = LOOPS[name]
    if slow:  # every value goes through memory, and everything is done four times
        loop = loop.replace("const float", "volatile float").replace("float squares", "volatile float squares")
        loop = loop.replace("squares += a * a;", "squares = squares + a * a;").replace("@sum\n", "").replace("@each\n", "")
        loop = f"    for (int again = 0; again < 4; ++again) {{\n{loop}    }}\n"
    else:
        loop = loop.replace("@sum", "    #pragma omp simd reduction(+ : squares)").replace("@each", "    #pragma omp simd")
    head = '#pragma GCC optimize("O0")\n' if slow else ""
    pragma = "  #pragma omp parallel for schedule(static)\n" if threads else ""
    return f'''\
"""{name.replace("_", " ")}, version {seed}."""

import torch
from torch import nn

from bottega.runtime import cpp

library = cpp(
    r"""
{head}#include <cmath>
#include <cstdint>

{EXPONENTIAL}
extern "C" void {name}(const float* x, const float* scale, const float* shift, float* y, int64_t rows, int64_t features) {{
{pragma}  for (int64_t row = 0; row < rows; ++row) {{
    const float* in = x + row * features;
    float* out = y + row * features;
{loop}  }}
}}
""",
    flags=({"" if slow else '"-ffast-math",'}),
)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(features))
        self.shift = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        library.{name}(x, self.scale, self.shift, y, x.shape[0], x.shape[1])
        return y
'''


class Hand:
    """Knows the tasks above, and what to do wrong with tasks that are named for it."""

    name = "hand 1"

    async def teach(self, task: Task, language: str, seed: int = 0) -> BuildSteps:
        return self.build(task, language, seed=seed)

    def build(self, task: Task, language: str, without: frozenset[str] = frozenset(), seed: int = 0) -> BuildSteps:
        if task.name == "kills_itself":
            os.kill(os.getpid(), signal.SIGKILL)
        if task.name == "hangs":
            time.sleep(3600)
        if task.name == "raises":
            raise RuntimeError("this teacher has a bug")
        if task.name not in LOOPS or language != "cpp":
            raise Refusal(f"no kernel of {task.name} in {language} is known")
        slow = Candidate(kernel(task.name, True, False, seed), "cpp", "slow")
        steps = [BuildStep(slow, FIRST_ATTEMPT, (), "One plain loop over all elements.")]
        if "vectorised" not in without:
            fast = Candidate(kernel(task.name, False, False, seed), "cpp", "fast", slow.id)
            steps.append(
                BuildStep(fast, "vectorised", (CARD[task.name],), "The inner loop is vectorised and values stay in registers.")
            )
            both = Candidate(kernel(task.name, False, True, seed), "cpp", "both", fast.id)
            steps.append(BuildStep(both, "threads", ("openmp_grain_threshold",), "Rows are spread over the threads."))
        return BuildSteps(task.id, language, self.name, tuple(steps))
