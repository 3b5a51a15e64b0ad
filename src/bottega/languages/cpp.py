"""C++ with OpenMP, compiled by `bottega.runtime.cpp`: the language of kernels for a CPU."""

from __future__ import annotations

from collections.abc import Iterator

from bottega.languages.kernel_text import extern_c, imports_from_runtime, pairs
from bottega.languages.language import Language

RULES = r"""
`from bottega.runtime import cpp`, then `library = cpp(source, flags=())` compiles a C++20 string with `-O3 -march=native -fopenmp` in a third of a second and loads it. Plain functions and plain pointers: no torch headers, no BLAS.

- Every `extern "C"` function of the source is an attribute of the library. Write its signature out (no macros): it is read from the text, and calls are checked against it.
- A tensor argument becomes a pointer. It must be contiguous, on the CPU, and of the pointer's type: `float*` for float32, `double*` for float64, `int64_t*` for int64, `bool*` for bool, `uint16_t*` for the bits of float16 and bfloat16. `None` is a null pointer. Numbers are passed by their declared type.
- OpenMP is there: `#pragma omp parallel for`, `#pragma omp simd`. Intrinsics work with `#include <immintrin.h>`.
- fp32 stays exact by default. `flags=("-ffast-math",)` lets reductions vectorise, but assumes that there is no NaN and no infinity; several accumulators do the same without it.
- Compile at import, once, not in forward.
""".strip()  # noqa: E501

EXAMPLE = r'''
import torch
from torch import nn

from bottega.runtime import cpp

library = cpp(r"""
#include <cstdint>

extern "C" void relu_gain(const float* x, const float* gain, float* y, int64_t rows, int64_t columns) {
  #pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      const float v = x[r * columns + c];
      y[r * columns + c] = (v < 0.f ? 0.f : v) * gain[c];
    }
}
""")


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(columns))

    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        library.relu_gain(x, self.gain, y, x.shape[0], x.shape[1])
        return y
'''.lstrip()


class Cpp(Language):
    name = "cpp"
    title = "C++"
    fence = "cpp"
    aliases = ("c++", "c")
    precedence = 10
    index_bit = 8
    devices = ("cpu",)
    is_default = True
    embedded = True
    needs = "g++"
    summary = (
        "cpp(source, flags=()) compiles C++20 with -O3 -march=native -fopenmp. "
        'Its extern "C" functions take contiguous tensors as pointers, and numbers.'
    )
    rules = RULES
    example = EXAMPLE
    compiler = "bottega.compiler.backends.cpp:BACKEND"
    rewrites = "bottega.lineage.cpp:RULES"

    def recognises(self, source: str) -> bool:
        if "cpp_sources" in source or imports_from_runtime(source, self.name):
            return True
        return any(pair in (("extern", '"C"'), ("include", "<")) for pair in pairs(source))

    def kernel_names(self, source: str) -> Iterator[str]:
        return extern_c(source)
