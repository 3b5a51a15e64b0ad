"""Launching on a real GPU; the layout of arguments and the extents are checked anywhere."""

import copy
import threading

import pytest
import torch

from bottega.runtime import ArgumentError, CompileError, LaunchError, UnavailableError, cuda
from bottega.runtime.launch import _extents, parameter_layout
from bottega.runtime.signature import read_signatures

has_gpu = torch.cuda.is_available()


def gpu(test):
    return pytest.mark.gpu(pytest.mark.skipif(not has_gpu, reason="needs an NVIDIA GPU")(test))


SOURCE = r"""
#include <cuda_fp16.h>
extern "C" __global__ void relu(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i] > 0 ? x[i] : 0; }
extern "C" __global__ void mixed(double* out, char a, short b, bool c, int64_t d, float e, unsigned char f,
                                 double g, uint32_t h) {
  out[0] = a; out[1] = b; out[2] = c; out[3] = d; out[4] = e; out[5] = f; out[6] = g; out[7] = h; }
extern "C" __global__ void twice(const __half* x, __half* y, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = __float2half(2 * __half2float(x[i])); }
extern "C" __global__ void reverse(const float* x, float* y, int n) {
  extern __shared__ float row[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) row[i] = x[i];
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = row[n - 1 - i]; }
extern "C" __global__ void where(int* out) { out[(blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x] = blockIdx.z; }
extern "C" __global__ void nothing() {}
#if 0
extern "C" __global__ void absent() {}
#endif
"""


def test_arguments_are_laid_out_as_a_kernels() -> None:
    signature = read_signatures('extern "C" __global__ void f(char a, int b, bool c, double* d, short e, float g, char h) {}')[
        "f"
    ]
    assert signature is not None
    layout, offsets = parameter_layout(signature)
    assert offsets == [0, 4, 8, 16, 24, 28, 32, 33] and layout == "<b3xi?7xQh2xfb"


def test_extents_are_one_to_three_whole_numbers() -> None:
    assert _extents(4, (32,)) == (4, 1, 1, 32, 1, 1)
    assert _extents((1, 2, 3), (4, 5)) == (1, 2, 3, 4, 5, 1)
    for grid, said in [
        ((0,), "at least 1"),
        ((2**31,), "first axis"),
        ((1, 65536), "first axis"),
        ((1.5,), "whole numbers"),
        ((), "one to three"),
        ((1, 1, 1, 1), "one to three"),
        (None, "whole"),
    ]:
        with pytest.raises(ArgumentError, match=said):
            _extents(grid, 32)  # type: ignore[arg-type]


@pytest.mark.skipif(has_gpu, reason="is about machines without a GPU")
def test_without_a_gpu_the_error_says_so() -> None:
    with pytest.raises(UnavailableError, match="no CUDA device"):
        cuda(SOURCE)


@gpu
def test_a_kernel_computes() -> None:
    x = torch.randn(1000, device="cuda")
    y = torch.empty_like(x)
    kernels = cuda(SOURCE)
    kernels.relu((4,), (256,), x, y, 1000)
    assert torch.equal(y, x.relu())
    y.zero_()
    kernels.relu(4, [256], x, y.data_ptr(), 1000)
    assert torch.equal(y, x.relu())
    assert not hasattr(kernels, "absent")
    kernels.nothing(1, 1)
    torch.cuda.synchronize()


@gpu
def test_every_width_arrives() -> None:
    out = torch.zeros(8, dtype=torch.float64, device="cuda")
    cuda(SOURCE).mixed(1, 1, out, -1, -300, True, -(2**40), 0.5, 200, 1e300, 2**32 - 1)
    assert out.tolist() == [-1, -300, 1, -(2.0**40), 0.5, 200, 1e300, 2**32 - 1]


@gpu
def test_three_dimensions() -> None:
    out = torch.full((4, 3, 2), -1, dtype=torch.int32, device="cuda")
    cuda(SOURCE).where((2, 3, 4), 1, out)
    assert out[:, 0, 0].tolist() == [0, 1, 2, 3] and out.amin().item() == 0


@gpu
def test_half_by_pointer_and_large_shared_memory() -> None:
    kernels = cuda(SOURCE)
    h = torch.randn(77, device="cuda").half()
    g = torch.empty_like(h)
    kernels.twice(1, 32, h, g, 77)
    assert torch.equal(g, h * 2)
    n = 20_000
    x = torch.randn(n, device="cuda")
    y = torch.empty_like(x)
    kernels.reverse(1, 256, x, y, n, shared=n * 4)  # 80 kB
    assert torch.equal(y, x.flip(0))
    with pytest.raises(LaunchError, match=r"dynamic shared memory.*at most"):
        kernels.reverse(1, 256, x, y, n, shared=2**20)
    kernels.reverse(1, 256, x, y, 100, shared=400)
    torch.cuda.synchronize()


@gpu
def test_the_current_stream_is_used() -> None:
    kernels = cuda(SOURCE)
    x = torch.randn(1 << 20, device="cuda")
    y = torch.zeros_like(x)
    y.sum().item()  # loading a kernel for the first time waits for the device
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(400_000_000)
        kernels.relu((4096,), (256,), x, y, 1 << 20)
    assert y.sum().item() == 0  # on the default stream, nothing has waited for the other
    torch.cuda.current_stream().wait_stream(stream)
    assert torch.equal(y, x.relu())


@gpu
def test_launches_are_captured_into_a_graph() -> None:
    kernels = cuda(SOURCE)
    x = torch.randn(20_000, device="cuda")
    y, z = torch.empty_like(x), torch.empty_like(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # the very first launch of both, and the limit of shared memory, fall into the capture
        kernels.relu((79,), (256,), x, y, 20_000)
        kernels.reverse(1, 256, y, z, 20_000, shared=80_000)
    x.copy_(torch.randn(20_000, device="cuda"))
    graph.replay()
    assert torch.equal(z, x.relu().flip(0))


@gpu
def test_other_threads_may_launch() -> None:
    kernels = cuda(SOURCE)
    x = torch.randn(1000, device="cuda")
    outputs = [torch.empty_like(x) for _ in range(8)]

    def work(y: torch.Tensor) -> None:
        for _ in range(100):
            kernels.relu((4,), (256,), x, y, 1000)

    threads = [threading.Thread(target=work, args=(y,)) for y in outputs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(y, x.relu()) for y in outputs)


@gpu
@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda k, x: k.relu(1, 32, x, x), "takes 3 arguments, but 2"),
        (lambda k, x: k.relu(1, 32, x.cpu(), x, 32), "CUDA tensor, but got one on cpu"),
        (lambda k, x: k.relu(1, 32, x.double(), x, 32), "float32.*torch.float64"),
        (lambda k, x: k.relu(1, 32, x[::2], x, 16), "non-contiguous"),
        (lambda k, x: k.twice(1, 32, x, x, 32), "float16"),
        (lambda k, x: k.relu(1, 32, x, x, 2**40), "32 bits"),
        (lambda k, x: k.relu(0, 32, x, x, 32), "at least 1"),
        (lambda k, x: k.relu(32 / 32, 32, x, x, 32), "whole numbers"),
    ],
)
def test_a_launch_that_does_not_fit_raises(call, said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        call(cuda(SOURCE), torch.zeros(64, device="cuda"))


@gpu
def test_what_the_driver_refuses_is_explained() -> None:
    x = torch.zeros(64, device="cuda")
    with pytest.raises(LaunchError, match=r"CUDA_ERROR_INVALID_VALUE.*block \(2048, 1, 1.*at most 1024 threads"):
        cuda(SOURCE).relu(1, 2048, x, x, 64)
    assert torch.equal(x, torch.zeros_like(x))  # and the context lives on


@gpu
def test_compile_errors_and_missing_kernels() -> None:
    with pytest.raises(CompileError, match="line 1: error"):
        cuda('extern "C" __global__ void f() { foo(); }')
    with pytest.raises(CompileError, match='extern "C" __global__'):
        cuda("__global__ void f() {}")
    with pytest.raises(AttributeError, match="found: relu"):
        cuda(SOURCE).gelu  # noqa: B018


@gpu
def test_a_model_that_holds_kernels_can_be_copied() -> None:
    x = torch.randn(100, device="cuda")
    y = torch.empty_like(x)
    copy.deepcopy(cuda(SOURCE)).relu(1, 128, x, y, 100)
    assert torch.equal(y, x.relu())
