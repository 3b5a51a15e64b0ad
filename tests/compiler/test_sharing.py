"""A network calls one kernel for all of its layers; kernels that compute something else stay apart."""

from __future__ import annotations

from bottega.compiler.sharing import with_shared_kernels

TRITON = """
@triton.jit
def add(x, y, z, n, BLOCK: tl.constexpr):
    idx = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z + idx, tl.load(x + idx) + tl.load(y + idx), mask=idx < n)


@triton.jit
def add2(a, b, c, n, BLOCK: tl.constexpr):
    idx = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(c + idx, tl.load(a + idx) + tl.load(b + idx), mask=idx < n)


@triton.jit
def sub(a, b, c, n, BLOCK: tl.constexpr):
    idx = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(c + idx, tl.load(a + idx) - tl.load(b + idx), mask=idx < n)


@triton.jit
def add3(a, b, c, n, SIZE: tl.constexpr):
    idx = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    tl.store(c + idx, tl.load(a + idx) + tl.load(b + idx), mask=idx < n)


class ModelNew:
    def forward(self, p, q):
        add[grid](p, q, added, n, BLOCK=64)
        add2[grid](added, q, added2, n, BLOCK=64)
        sub[grid](added2, q, out, n, BLOCK=64)
        add3[grid](added2, q, out, n, SIZE=64)
"""
C = '''
native = cpp(r"""
extern "C" void relu(const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    y[i] = x[i] > 0.f ? x[i] : 0.f;
}

extern "C" void relu_2(const float* hidden, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    out[i] = hidden[i] > 0.f ? hidden[i] : 0.f;
}

extern "C" void relu_3(const double* hidden, double* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    out[i] = hidden[i] > 0.f ? hidden[i] : 0.f;
}
""")
native.relu(x, y, 3)
native.relu_2(y, z, 3)
native.relu_3(y, z, 3)
'''


def test_the_second_of_two_equal_kernels_goes_and_its_call_takes_the_first() -> None:
    text = with_shared_kernels(TRITON, "triton")
    assert "def add2" not in text
    assert "add[grid](added, q, added2, n, BLOCK=64)" in text


def test_another_operator_or_another_keyword_is_another_kernel() -> None:
    text = with_shared_kernels(TRITON, "triton")
    assert "def sub" in text
    assert "add3[grid]" in text


def test_types_tell_kernels_apart_in_c() -> None:
    text = with_shared_kernels(C, "cpp")
    assert "relu_2" not in text
    assert "native.relu(y, z, 3)" in text
    assert "native.relu_3(y, z, 3)" in text


def test_what_repeats_nothing_is_left_alone() -> None:
    assert (
        with_shared_kernels(text := C.replace("relu_2", "double_relu").replace("? hidden[i]", "? 2 * hidden[i]"), "cpp") == text
    )
