"""Kernels as a candidate would write them, each against torch: what the runtime is for."""

import platform

import pytest
import torch
from torch.nn import functional as F

from bottega.runtime import cpp


def test_layer_norm_with_parameters() -> None:
    library = cpp(r"""
    #include <cmath>
    extern "C" {
    void layer_norm(const float* x, const float* weight, const float* bias, float* y, long rows, long columns, double epsilon) {
      #pragma omp parallel for
      for (long r = 0; r < rows; ++r) {
        const float* in = x + r * columns;
        double mean = 0, square = 0;
        for (long c = 0; c < columns; ++c) mean += in[c];
        mean /= columns;
        for (long c = 0; c < columns; ++c) square += (in[c] - mean) * (in[c] - mean);
        const double scale = 1 / std::sqrt(square / columns + epsilon);
        for (long c = 0; c < columns; ++c)
          y[r * columns + c] = (in[c] - mean) * scale * weight[c] + (bias ? bias[c] : 0);
      } } }""")
    layer = torch.nn.LayerNorm(65)
    torch.nn.init.normal_(layer.weight)
    x = torch.randn(17, 65) + 3
    y = torch.empty_like(x)
    library.layer_norm(x, layer.weight, layer.bias, y, 17, 65, layer.eps)
    torch.testing.assert_close(y, layer(x).detach())
    library.layer_norm(x, layer.weight, None, y, 17, 65, layer.eps)
    torch.testing.assert_close(y, F.layer_norm(x, (65,), layer.weight, None).detach())


def test_boolean_masks_and_integer_indices() -> None:
    library = cpp(r"""
    #include <cstdint>
    extern "C" int64_t select(const int64_t* index, const bool* keep, const int32_t* table, int32_t* out, int64_t n,
                              bool negate) {
      int64_t kept = 0;
      for (int64_t i = 0; i < n; ++i) if (keep[i]) out[kept++] = negate ? -table[index[i]] : table[index[i]];
      return kept; }""")
    table = torch.arange(100, 200, dtype=torch.int32)
    index = torch.randint(0, 100, (500,))
    keep = torch.rand(500) > 0.3
    out = torch.zeros(500, dtype=torch.int32)
    kept = library.select(index, keep, table, out, 500, True)
    assert torch.equal(out[:kept], -table[index[keep]])


@pytest.mark.skipif(platform.machine() != "x86_64", reason="g++ knows _Float16 in C++ on x86_64 only")
def test_half_precisions_through_their_bits() -> None:
    library = cpp(r"""
    #include <cstdint>
    #include <cstring>
    static float widen(uint16_t bits) {
      uint32_t wide = static_cast<uint32_t>(bits) << 16;
      float f; std::memcpy(&f, &wide, 4); return f; }
    static uint16_t narrow(float f) {
      uint32_t bits; std::memcpy(&bits, &f, 4);
      return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16); }
    extern "C" void scale_bf16(const uint16_t* x, uint16_t* y, int n, float factor) {
      #pragma omp parallel for simd
      for (int i = 0; i < n; ++i) y[i] = narrow(widen(x[i]) * factor); }
    extern "C" void negate_half(const _Float16* x, _Float16* y, int n) { for (int i = 0; i < n; ++i) y[i] = -x[i]; }""")
    x = torch.randn(1000).bfloat16()
    y = torch.empty_like(x)
    library.scale_bf16(x, y, 1000, 3.0)
    assert torch.equal(y, (x.float() * 3).bfloat16())
    h = torch.randn(64).half()
    g = torch.empty_like(h)
    library.negate_half(h, g, 64)
    assert torch.equal(g, -h)


def test_convolution_fused_with_bias_and_relu() -> None:
    library = cpp(
        r"""
    template <int K> static float window(const float* x, const float* w, int channels, int height, int width) {
      float total = 0;
      for (int c = 0; c < channels; ++c)
        for (int i = 0; i < K; ++i)
          for (int j = 0; j < K; ++j) total += x[(c * height + i) * width + j] * w[(c * K + i) * K + j];
      return total; }
    #define scalar float
    extern "C" void conv_relu(const scalar* x, const scalar* w, const scalar* bias, scalar* y, const int* shape) {
      const int n = shape[0], c = shape[1], h = shape[2], v = shape[3], o = shape[4], oh = h - 2, ov = v - 2;
      #pragma omp parallel for collapse(2)
      for (int b = 0; b < n; ++b) for (int k = 0; k < o; ++k)
        for (int i = 0; i < oh; ++i) for (int j = 0; j < ov; ++j) {
          const float t = bias[k] + window<3>(x + (b * c * h + i) * v + j, w + k * c * 9, c, h, v);
          y[((b * o + k) * oh + i) * ov + j] = t > 0 ? t : 0;
        } }""",
        flags=("-funroll-loops",),
    )
    x, w, bias = torch.randn(2, 3, 12, 9), torch.randn(5, 3, 3, 3), torch.randn(5)
    y = torch.empty(2, 5, 10, 7)
    library.conv_relu(x, w, bias, y, torch.tensor([2, 3, 12, 9, 5], dtype=torch.int32))
    torch.testing.assert_close(y, F.conv2d(x, w, bias).relu())


def test_prefix_sum_in_double_and_a_reduction_that_returns() -> None:
    library = cpp(r"""
    #include <cstddef>
    extern "C" void cumsum(const double* x, double* y, std::size_t n) {
      double t = 0;
      for (size_t i = 0; i < n; ++i) y[i] = t += x[i]; }
    extern "C" double total(const double* x, size_t n) {
      double t = 0;
      #pragma omp parallel for reduction(+ : t)
      for (size_t i = 0; i < n; ++i) t += x[i];
      return t; }""")
    x = torch.randn(10_000, dtype=torch.float64)
    y = torch.empty_like(x)
    library.cumsum(x, y, x.numel())
    torch.testing.assert_close(y, x.cumsum(0))
    assert abs(library.total(x, x.numel()) - x.sum().item()) < 1e-9
