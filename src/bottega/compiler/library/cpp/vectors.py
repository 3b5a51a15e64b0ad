"""Vectors of floats as wide as the machine has them, and the loops over them that kernels share."""

from __future__ import annotations

VECTOR = """#ifdef __AVX512F__
typedef float vec __attribute__((vector_size(64)));
#elif defined(__AVX__)
typedef float vec __attribute__((vector_size(32)));
#else
typedef float vec __attribute__((vector_size(16)));
#endif
constexpr int64_t LANES = sizeof(vec) / 4, WIDE = 2 * LANES, HIGH = 6;"""
"""A vector wider than the machine's is kept in memory and not in registers, which makes a tile ten times as slow."""
PANEL = """constexpr int64_t ACROSS = LANES == 4 ? 3 : 2, BROAD = ACROSS * LANES;
// memory of this thread that is kept from call to call: fresh pages cost as much as filling them
static inline vec* kept_panels(int64_t count) {
  static thread_local std::vector<vec> memory;
  if (int64_t(memory.size()) < count) memory.resize(count);
  return memory.data();
}"""
"""Of a matrix product: 18 sums of short vectors, or 12 of long ones, are enough to keep two units busy and fit the registers."""
LOAD = """static inline vec load(const float* p) {
  vec v;
  std::memcpy(&v, p, sizeof v);
  return v;
}"""
SIX = """// to[6][WIDE] = a[6][depth] * panel[depth][WIDE]
static inline void six_rows(const float* a, int64_t stride, const vec* panel, int64_t depth, float* to, int64_t width) {
  vec sum[HIGH][2] = {};
  for (int64_t k = 0; k < depth; ++k) {
    #pragma GCC unroll 6
    for (int64_t u = 0; u < HIGH; ++u) {
      sum[u][0] += a[u * stride + k] * panel[2 * k];
      sum[u][1] += a[u * stride + k] * panel[2 * k + 1];
    }
  }
  for (int64_t u = 0; u < HIGH; ++u) std::memcpy(to + u * width, sum[u], sizeof sum[u]);
}"""
