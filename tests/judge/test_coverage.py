"""Who did the work: by file on a CPU, by kernel name on a GPU."""

from __future__ import annotations

import pytest

from bottega.judge.coverage import (
    Coverage,
    base_name,
    claimed_kernels,
    cpu_coverage,
    file_kind,
    gpu_coverage,
    in_timed_calls,
    kernel_is_own,
    leaves_products_only,
    merge_samples,
    works_beside_products,
)

PACKAGES = "/srv/venv/lib/python3.11/site-packages"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/tmp/build/3f/kernel.so", "own"),
        ("/tmp/torch_extensions/py311_cpu/mine/mine.so", "own"),
        ("/memfd:code", "own"),
        ("[anon]", "library"),
        ("[anon:jit]", "library"),
        ("/dev/shm/x.so", "own"),
        (f"{PACKAGES}/torch/lib/libtorch_cpu.so", "library"),
        (f"{PACKAGES}/torch/lib/libgomp-a34b3233.so.1", "neutral"),
        (f"{PACKAGES}/numpy/core/_multiarray_umath.cpython-311.so", "library"),
        (f"{PACKAGES}/torch/_C.cpython-311.so", "library"),
        ("/usr/lib/x86_64-linux-gnu/libmkl_rt.so.2", "library"),
        ("/usr/lib/x86_64-linux-gnu/libopenblas.so.0", "library"),
        ("/usr/lib/x86_64-linux-gnu/libdnnl.so.3", "library"),
        ("/tmp/torchinductor/ab/cab.so", "library"),
        ("/usr/lib/x86_64-linux-gnu/libc.so.6", "neutral"),
        ("/usr/lib/x86_64-linux-gnu/libm.so.6", "neutral"),
        ("/usr/lib/x86_64-linux-gnu/libmvec.so.1", "neutral"),
        ("/usr/lib/x86_64-linux-gnu/libffi.so.8.1.2", "neutral"),
        ("/usr/lib/python3.11/lib-dynload/math.cpython-311-x86_64-linux-gnu.so", "neutral"),
        ("/usr/lib/x86_64-linux-gnu/libblas.so.3.10.0", "library"),
        ("/usr/lib/x86_64-linux-gnu/libfftw3f.so.3", "library"),
        ("/usr/lib/x86_64-linux-gnu/libgomp.so.1", "neutral"),
        ("/usr/lib/x86_64-linux-gnu/libstdc++.so.6", "neutral"),
        ("/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", "neutral"),
        ("/usr/bin/python3.11", "neutral"),
        ("/usr/lib/libpython3.11.so.1.0", "neutral"),
        ("[vdso]", "neutral"),
        ("[unknown]", "library"),
        ("[heap]", "neutral"),
    ],
)
def test_files_are_told_apart(path: str, kind: str) -> None:
    assert file_kind(path) == kind


def test_a_library_copied_into_the_sandbox_stays_a_library() -> None:
    samples = {"by_file": {"/tmp/mine.so": 100}, "code_bytes": {"/tmp/mine.so": 50 << 20}}
    assert cpu_coverage(samples, ("kernel",)).share == 0.0
    assert cpu_coverage({**samples, "code_bytes": {"/tmp/mine.so": 50 << 10}}, ("kernel",)).share == 1.0


def test_share_counts_own_against_library_and_leaves_the_neutral_out() -> None:
    samples = {"by_file": {"/tmp/build/k.so": 75, f"{PACKAGES}/torch/lib/libtorch_cpu.so": 25, "/usr/lib/libc.so.6": 900}}
    coverage = cpu_coverage(samples, ("kernel",))
    assert coverage.share == 0.75
    assert coverage.own == ("kernel",)
    assert coverage.hottest[0] == ("libc.so.6", 0.9)
    assert ("own kernels", 0.075) in coverage.hottest


def test_a_decoy_has_no_share_and_no_kernels() -> None:
    coverage = cpu_coverage({"by_file": {f"{PACKAGES}/torch/lib/libtorch_cpu.so": 400}}, ("kernel",))
    assert coverage.share == 0.0
    assert coverage.own == ()


def test_too_few_samples_are_no_measurement() -> None:
    coverage = cpu_coverage({"by_file": {"/tmp/build/k.so": 39, "/usr/lib/libc.so.6": 500}}, ("kernel",))
    assert coverage.share is None
    assert "39" in coverage.method
    assert cpu_coverage({"by_file": {"/tmp/build/k.so": 40}}, ("kernel",)).share == 1.0


def test_a_machine_that_cannot_sample_says_why() -> None:
    coverage = cpu_coverage({"unavailable": "no permission", "by_file": {}}, ())
    assert coverage.share is None
    assert "no permission" in coverage.method


def test_windows_add_up() -> None:
    total: dict = {"by_file": {}}
    merge_samples(total, {"by_file": {"a": 2, "b": 1}})
    merge_samples(total, {"by_file": {"a": 3}})
    assert total["by_file"] == {"a": 5, "b": 1}
    merge_samples(total, {"unavailable": "why"})
    assert total["unavailable"] == "why"


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("void scale<float>(float*, int)", "scale"),
        ("scale(float const*, float*)", "scale"),
        ("softmax_kernel", "softmax_kernel"),
        ("void mine::inner::reduce<float, 4>(float*)", "reduce"),
        ("_ZN2at6native29vectorized", "_ZN2at6native29vectorized"),
    ],
)
def test_base_name(name: str, base: str) -> None:
    assert base_name(name) == base


@pytest.mark.parametrize(
    "name",
    [
        "void at::native::vectorized_elementwise_kernel<4, at::native::relu>(int)",
        "void cutlass::Kernel2<scale>(scale::Params)",
        "ampere_sgemm_128x64_tn",
        "void cub::DeviceReduceKernel<scale>()",
        "triton_poi_fused_add_0",
        "sm90_xmma_gemm_f32f32",
        "nvjet_sm90_tst",
        "somebody_elses",
    ],
)
def test_library_kernels_are_not_own_even_when_the_text_names_them(name: str) -> None:
    words = {"scale", "vectorized_elementwise_kernel", "Kernel2", "ampere_sgemm_128x64_tn", "triton_poi_fused_add_0"}
    assert not kernel_is_own(name, words | {"sm90_xmma_gemm_f32f32", "nvjet_sm90_tst", "DeviceReduceKernel"})


def test_gpu_share_is_of_device_time_without_copies() -> None:
    kernels = [["void at::native::foo<int>(int)", 50.0, 1.0], ["scale(float*)", 51.5, 1.0], ["Memcpy DtoD", 1000.0, 1.0]]
    coverage = gpu_coverage(kernels, "__global__ void scale(float* x) {}", ("scale",))
    assert coverage.share == pytest.approx(50 / 101.5, abs=1e-4)
    assert coverage.own == ("scale",)


def test_own_kernels_around_library_products_are_no_decoy() -> None:
    """A gated MLP for one token: the products take nearly all of the time, and one own kernel does what the reference has three for."""
    source, product = "def gate_kernel(): pass", ["nvjet_tst_64x8_coopA", 400.0, 3.0]
    reference = [product, ["void at::native::silu_kernel(int)", 2.0, 1.0], ["void at::native::mul(int)", 2.0, 1.0]]
    assert works_beside_products([product, ["gate_kernel", 2.2, 1.0]], source, reference)
    left_to_torch = [product, *reference[1:], ["gate_kernel", 1.6, 1.0]]
    assert not works_beside_products(left_to_torch, source, reference)
    assert not works_beside_products([product, ["gate_kernel", 1.6, 1.0]], source, [product]), "nothing was there to replace"
    assert not works_beside_products([product], source, reference), "no kernel of its own"
    assert not works_beside_products(None, source, None)


def test_empty_launches_are_no_work() -> None:
    kernels = [["void at::native::foo<int>(int)", 100.0, 1.0], ["decoy(float*)", 15.0, 10.0]]
    assert gpu_coverage(kernels, "__global__ void decoy(float* x) {}", ("decoy",)).share == 0.0


@pytest.mark.parametrize(
    "row", [["a", "b", "c"], ["a", None, 1], ["a", [], {}], [None, float("nan"), 1], ["a", -5.0, 1], ["a", 1e400, 1]]
)
def test_rows_of_a_forged_profile_are_survived(row: list) -> None:
    """The profile comes out of the candidate's process: garbage in it is no share, and never an exception."""
    share = gpu_coverage([row, ["scale(float*)", 50.0, 1.0]], "__global__ void scale(float* x) {}", ("scale",)).share
    assert share is None or 0 <= share <= 1


def test_no_kernel_at_all_is_no_measurement() -> None:
    assert gpu_coverage([], "", ()).share is None


@pytest.mark.parametrize(
    ("source", "language", "names"),
    [
        ("__global__ void scale(float* x) {}\n__global__ void add(float* x) {}", "cuda", {"scale", "add"}),
        ("__global__ void __launch_bounds__(256) add(float* x) {}", "cuda", {"add"}),
        ("@triton.jit\ndef kernel(x): pass\n", "triton", {"kernel"}),
        ("@triton.autotune(\n    configs=[],\n    key=['n'],\n)\n@triton.jit\ndef tuned(x): pass\n", "triton", {"tuned"}),
        ("from triton import jit\n@jit\ndef bare(x): pass\n", "triton", {"bare"}),
        ('extern "C" void fused(const float* x, float* y) {}', "cpp", {"fused"}),
        ('extern "C" int64_t count(const float* x) {}', "cpp", {"count"}),
        ("def forward(self, x): return x", "torch", set()),
        ("__global__ void scale(float* x) {}", "torch", set()),
    ],
)
def test_claimed_kernels(source: str, language: str, names: set[str]) -> None:
    assert set(claimed_kernels(source, language)) == names


def test_an_interpreter_that_lies_in_a_temporary_folder_is_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkout under /tmp has its packages there too; the sandbox mounts them read-only at the same place."""
    monkeypatch.setattr("sys.prefix", "/tmp/checkout/.venv")
    packages = "/tmp/checkout/.venv/lib/python3.11/site-packages"
    assert file_kind(f"{packages}/torch/lib/libtorch_cpu.so") == "library"
    assert file_kind(f"{packages}/torch/lib/libgomp.so.1") == "neutral"
    assert file_kind("/tmp/build/kernel.so") == "own"


PRODUCTS_AND_RELU = [["addmm", 9900.0, 2], ["relu", 30.0, 1]]


@pytest.mark.parametrize(
    ("operators", "beside"),
    [
        ([["addmm", 9900.0, 2]], True),
        ([["addmm", 9900.0, 2], ["clone", 5.0, 1]], True),
        ([["addmm", 9900.0, 2], ["relu_", 25.0, 1]], False),
        ([["_addmm_activation", 9900.0, 1], ["addmm", 9900.0, 1]], False),
        ([["addmm", "much", 2], ["relu_", 25.0, 1], None], False),
        ([], False),
        ("nonsense", False),
    ],
)
def test_who_leaves_only_products_to_the_library_does_the_rest(operators: object, beside: bool) -> None:
    assert leaves_products_only(operators, PRODUCTS_AND_RELU) is beside


def test_where_there_is_more_beside_products_it_must_be_seen() -> None:
    assert not leaves_products_only([["addmm", 1.0, 1]], [["addmm", 700.0, 1], ["gelu", 300.0, 1]])
    assert not leaves_products_only([["addmm", 1.0, 1]], [["addmm", 900.0, 1]])
    assert not leaves_products_only([["addmm", 1.0, 1]], None)


def sampled(own: int, samples: int) -> Coverage:
    return cpu_coverage({"by_file": {"/tmp/build/k.so": own, f"{PACKAGES}/torch/lib/libtorch_cpu.so": samples - own}}, ("k",))


@pytest.mark.parametrize(
    ("alone", "own", "samples", "told"),
    [
        (360, 0, 80, 0.0),
        (360, 0, 20, 0.0),
        (360, 64, 80, 0.9),
        (120, 6, 40, 0.3),
        (0, 0, 80, 0.0),
        (120, 80, 80, 0.3),
        (120, 0, 8, 0.3),
    ],
)
def test_a_kernel_that_works_only_while_it_is_sampled_has_the_share_of_its_timed_rounds(
    alone: int, own: int, samples: int, told: float
) -> None:
    assert in_timed_calls(sampled(alone, 400), sampled(own, samples), 1e6, 1e6).share == told


def test_thousands_of_samples_of_a_slow_call_are_compared_too() -> None:
    assert in_timed_calls(sampled(360, 400), sampled(18_000, 20_000), 1e6, 1e6).share == 0.9
    assert in_timed_calls(sampled(360, 400), sampled(2_000, 20_000), 1e6, 1e6).share == 0.1


def test_where_rounds_have_too_few_samples_calls_of_another_length_say_nothing() -> None:
    most, few = sampled(90, 100), sampled(2, 3)
    assert in_timed_calls(most, few, 1.1e6, 1e6).share == 0.9
    found = in_timed_calls(most, few, 3e6, 1e6)
    assert found.share is None and "3 ms while it is sampled" in found.method
    assert in_timed_calls(most, few, 0.15e6, 0.06e6).share == 0.9, "a worker's own work differs by that much"
    assert in_timed_calls(most, Coverage(None, "no samples"), 1e6, 1e6).share == 0.9
