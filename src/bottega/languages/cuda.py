"""CUDA C++: compiled by `bottega.runtime.cuda` with NVRTC, or by whatever else a candidate brings along."""

from __future__ import annotations

from collections.abc import Iterator

from bottega.languages.kernel_text import declared, decorated, extern_c, imports_from_runtime
from bottega.languages.language import Language
from bottega.languages.triton import DECORATORS

MARKS = ("__global__", "cuda_sources", "cuda.core", "RawKernel")

RULES = r"""
`from bottega.runtime import cuda`, then `kernels = cuda(source, options=())` compiles a CUDA C++ string with NVRTC for the device at hand in a tenth of a second. No nvcc, no torch headers; `options` are NVRTC's, such as `-DN=4` or `--use_fast_math`.

- Every `extern "C" __global__` function of the source is an attribute. Write its signature out (no macros): it is read from the text, and launches are checked against it.
- Launch: `kernels.name(grid, block, *arguments, shared=0)`, where grid and block are a number or up to three, and `shared` is dynamic shared memory in bytes (limits above 48 KiB are raised for you). It runs on torch's current stream.
- A tensor argument becomes a pointer. It must be contiguous, on the device, and of the pointer's type: `float*` or `float4*` for float32, `__half*` for float16, `__nv_bfloat16*` for bfloat16, `long long*` for int64. `None` is a null pointer. Numbers are passed by their declared type.
- `#include <cuda_fp16.h>`, `<cuda_bf16.h>` and `<mma.h>` work; there is no host code.
- Compile at import, once, not in forward.
""".strip()  # noqa: E501

EXAMPLE = r'''
import torch
from torch import nn

from bottega.runtime import cuda

kernels = cuda(r"""
extern "C" __global__ void relu_gain(const float* x, const float* gain, float* y, long long count, int columns) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i >= count) return;
  const float v = x[i];
  y[i] = (v < 0.f ? 0.f : v) * gain[i % columns];
}
""")


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(columns))

    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        count = x.numel()
        kernels.relu_gain((count + 255) // 256, 256, x, self.gain, y, count, x.shape[1])
        return y
'''.lstrip()


class Cuda(Language):
    name = "cuda"
    title = "CUDA"
    fence = "cuda"
    precedence = 30
    index_bit = 32
    devices = ("cuda",)
    embedded = True
    needs = "NVIDIA's NVRTC"
    card_prefix = "cuda_"
    variables = ("CUDA_", "NVIDIA_")
    summary = (
        "cuda(source, options=()) compiles with NVRTC. "
        'Launch its extern "C" kernels as kernels.name(grid, block, *arguments, shared=0) with contiguous tensors as pointers, and numbers.'
    )
    rules = RULES
    example = EXAMPLE
    compiler = "bottega.compiler.backends.cuda:BACKEND"

    def recognises(self, source: str) -> bool:
        return any(mark in source for mark in MARKS) or imports_from_runtime(source, self.name)

    def recognises_snippet(self, text: str) -> bool:
        return "__global__" in text

    def kernel_names(self, source: str) -> Iterator[str]:
        """A file with CUDA in it may have Triton kernels too, and functions that it calls from the host."""
        if "jit" in source:
            yield from decorated(source, DECORATORS)
        if "__global__" in source:
            yield from declared(source, "__global__")
        if "extern" in source:
            yield from extern_c(source)

    def warm(self) -> None:
        from bottega.runtime.nvrtc import load_nvrtc
        from bottega.runtime.toolkit import nvrtc_path

        load_nvrtc(nvrtc_path())
