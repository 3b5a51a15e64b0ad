"""NVRTC compiles without a GPU; these tests run wherever its library is found."""

import ctypes

import pytest

from bottega.runtime import CompileError, UnavailableError
from bottega.runtime.nvrtc import architecture, compile_cuda, load_nvrtc
from bottega.runtime.toolkit import nvrtc_path

HOPPER = (9, 0)


def nvrtc_is_here() -> bool:
    try:
        load_nvrtc(nvrtc_path())
    except UnavailableError:
        return False
    return True


pytestmark = pytest.mark.skipif(not nvrtc_is_here(), reason="NVRTC is not installed")

KERNEL = 'extern "C" __global__ void f(float* x, int n) {{ {body} }}'


@pytest.mark.parametrize(
    ("header", "body"),
    [
        ("", "x[threadIdx.x] = n;"),
        ("", "int64_t a = 1; uint32_t b = 2; size_t c = 3; std::uint8_t d = 4; x[0] = a + b + c + d + INT_MAX;"),
        ("", "constexpr float lowest = -INFINITY; x[0] = fmaxf(lowest, x[1]) + FLT_MAX + NAN + (float)M_PI;"),
        (
            "#include <cstdint>\n#include <stdint.h>\n#include <math.h>\n#include <cmath>\n#include <cfloat>",
            "x[0] = sqrtf(x[1]);",
        ),
        ("#include <stdio.h>\n#include <assert.h>", 'assert(n > 0); printf("%d", n);'),
        ("#include <cuda_runtime.h>", "x[0] = 1;"),
        ("#include <cuda_fp16.h>", "x[0] = __half2float(__float2half(x[1]));"),
        ("#include <cuda_bf16.h>", "x[0] = __bfloat162float(__float2bfloat16(x[1]));"),
        ("float helper(float v) { return v + 1; }", "x[0] = helper(x[1]);"),
        ("template <int N> __device__ float many() { return N; }", "x[0] = many<4>();"),
        ("", 'asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");'),
    ],
)
def test_what_kernels_commonly_use_compiles(header: str, body: str) -> None:
    image = compile_cuda(header + "\n" + KERNEL.format(body=body), (), HOPPER)
    assert image.startswith(b"\x7fELF")


def test_errors_carry_their_line_and_its_text() -> None:
    with pytest.raises(CompileError) as caught:
        compile_cuda("\n\n" + KERNEL.format(body="\n  x[0] = foo;\n  x[1] = bar(2);"), (), HOPPER)
    text = str(caught.value)
    assert 'line 4: error: identifier "foo" is undefined' in text and "    x[0] = foo;" in text and "line 5: error:" in text
    assert len(text.splitlines()) <= 10


def test_a_missing_header_says_what_to_do() -> None:
    with pytest.raises(CompileError, match=r"line 1: error: cannot open source file.*\n.*\n.*CUDA_HOME"):
        compile_cuda("#include <nowhere.h>\n" + KERNEL.format(body=""), (), HOPPER)


@pytest.mark.parametrize("source", ["}", "\0", "\ud800", "#error no\n"])
def test_broken_sources_are_compile_errors(source: str) -> None:
    with pytest.raises(CompileError):
        compile_cuda(source, (), HOPPER)


def test_options_are_heeded() -> None:
    compile_cuda(KERNEL.format(body="x[0] = N;"), ("-DN=4", "--use_fast_math", "--std=c++20"), HOPPER)
    assert b".target sm_90" in compile_cuda(KERNEL.format(body=""), ("--gpu-architecture=compute_90",), HOPPER)
    with pytest.raises(CompileError, match="no-such-option"):
        compile_cuda(KERNEL.format(body=""), ("--no-such-option",), HOPPER)


def test_the_architecture_is_the_devices_own_or_the_newest_known() -> None:
    nvrtc = load_nvrtc(nvrtc_path())
    assert isinstance(nvrtc, ctypes.CDLL)
    assert architecture(nvrtc, (8, 0)) == "sm_80"
    assert architecture(nvrtc, (9, 0)) == "sm_90a"
    assert architecture(nvrtc, (99, 0)).startswith("compute_")
    assert b".version" in compile_cuda(KERNEL.format(body=""), (), (99, 0))
    with pytest.raises(UnavailableError, match="older CUDA"):
        architecture(nvrtc, (1, 0))
