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
"""Of a convolution: 18 sums of short vectors, or 12 of long ones, are enough to keep two units busy and fit the registers."""
TALL = """// rows of a product's tile: 16 sums of vectors where there are 32 registers, 12 where there are 16
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int64_t TALL = 8;
#else
constexpr int64_t TALL = 6;
#endif"""
TURNED = """template <class T, int64_t SIZE> struct vector_of {
  typedef T type __attribute__((vector_size(SIZE * sizeof(T))));
};

// a square of SIZE rows of SIZE floats is turned by exchanging halves, then quarters, and so on
template <int64_t SIZE, int64_t STEP, class V> static inline void exchanged(V* v) {
  typename vector_of<int32_t, SIZE>::type low, high;
  for (int64_t j = 0; j < SIZE; ++j) {
    low[j] = j & STEP ? SIZE + j - STEP : j;
    high[j] = j & STEP ? SIZE + j : j + STEP;
  }
  #pragma GCC unroll 16
  for (int64_t i = 0; i < SIZE; ++i)
    if (!(i & STEP)) {
      const V a = v[i], b = v[i + STEP];
#ifdef __clang__
      for (int64_t j = 0; j < SIZE; ++j) {
        v[i][j] = j & STEP ? b[j - STEP] : a[j];
        v[i + STEP][j] = j & STEP ? b[j] : a[j + STEP];
      }
#else
      v[i] = __builtin_shuffle(a, b, low);
      v[i + STEP] = __builtin_shuffle(a, b, high);
#endif
    }
  if constexpr (STEP > 1) exchanged<SIZE, STEP / 2>(v);
}

// to[k * WIDTH + l] = from[l * apart + k] for `count` rows; those that are missing are zero
template <int64_t WIDTH> static inline void pack_rows(const float* from, int64_t apart, int64_t count, int64_t depth, float* to) {
  constexpr int64_t SIZE = WIDTH % LANES == 0 ? LANES : WIDTH % 8 == 0 ? 8 : 2;
  typedef typename vector_of<float, SIZE>::type row;
  int64_t l = 0;
  for (; l + SIZE <= std::min(count, WIDTH); l += SIZE) {
    int64_t k = 0;
    for (; k + SIZE <= depth; k += SIZE) {
      row v[SIZE];
      #pragma GCC unroll 16
      for (int64_t u = 0; u < SIZE; ++u) std::memcpy(&v[u], from + (l + u) * apart + k, sizeof(row));
      exchanged<SIZE, SIZE / 2>(v);
      #pragma GCC unroll 16
      for (int64_t u = 0; u < SIZE; ++u) std::memcpy(to + (k + u) * WIDTH + l, &v[u], sizeof(row));
    }
    for (; k < depth; ++k)
      for (int64_t u = l; u < l + SIZE; ++u) to[k * WIDTH + u] = from[u * apart + k];
  }
  for (; l < WIDTH; ++l)
    for (int64_t k = 0; k < depth; ++k) to[k * WIDTH + l] = l < count ? from[l * apart + k] : 0.f;
}"""
"""Of rows that lie along the depth: element by element, packing takes as long as the product where there are a hundred rows."""
LINED = """// to[k * WIDTH + l] = from[k * apart + l] for `count` columns; those that are missing are zero
template <int64_t WIDTH> static inline void pack_columns(const float* from, int64_t apart, int64_t count, int64_t depth, float* to) {
  for (int64_t k = 0; k < depth; ++k)
    if (count >= WIDTH) std::memcpy(to + k * WIDTH, from + k * apart, WIDTH * sizeof(float));
    else
      for (int64_t l = 0; l < WIDTH; ++l) to[k * WIDTH + l] = l < count ? from[k * apart + l] : 0.f;
}"""
_PACK = """// a matrix in panels of WIDE columns, each with its depth in order, as a product's tiles read it
extern "C" void PACK(const TYPE* weight, TYPE* panels, int64_t columns, int64_t depth, int64_t across, int64_t along) {
  #pragma omp parallel for schedule(static)
  for (int64_t start = 0; start < columns; start += WIDE)
    for (int64_t k = 0; k < depth; ++k)
      for (int64_t l = 0; l < WIDE; ++l)
        panels[start * depth + k * WIDE + PLACE] = start + l < columns ? weight[(start + l) * across + k * along] : TYPE(0);
}"""
PACKS = {
    "float": _PACK.replace("PACK", "pack_floats").replace("TYPE", "float").replace("PLACE", "l"),
    "uint16_t": _PACK.replace("PACK", "pack_halves").replace("TYPE", "uint16_t").replace("PLACE", "l % LANES * 2 + l / LANES"),
}
"""By type in memory. Columns of bfloat16 lie in pairs, a word each: the vectors of both are made of it by a shift and a mask."""
WIDENED = """// one of the two vectors whose bits lie in the lower and the upper halves of these words
static inline vec widened(const uint16_t* p, bool upper) {
  typedef uint32_t words __attribute__((vector_size(4 * LANES)));
  words w;
  std::memcpy(&w, p, sizeof w);
  w = upper ? w & 0xffff0000u : w << 16;
  vec v;
  std::memcpy(&v, &w, sizeof v);
  return v;
}"""
"""Of panels of bfloat16, whose bits are the upper half of a float's."""
PACKED_CALL = "packed(self, "
PACKED = '''def packed(module, name, weight):
    """The weight in panels, made again when it has changed; some elements tell it of changes through weight.data."""
    state = (weight.data_ptr(), 0 if weight.is_inference() else weight._version)
    columns, depth = weight.shape
    some = weight.detach().diagonal()[:: max(1, min(columns, depth) // 64)]
    kept = module.__dict__.get(name)
    if kept is None or kept[0] != state or not torch.equal(kept[2], some):
        panels = weight.new_empty((columns + 31) * depth)  # the widest panel has 32 columns
        pack = library.pack_floats if weight.element_size() == 4 else library.pack_halves
        pack(weight.data_ptr(), panels, columns, depth, *weight.stride())
        kept = module.__dict__[name] = (state, panels, some.clone())
    return kept[1]'''
"""What a candidate needs whose products keep their weights so."""
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
