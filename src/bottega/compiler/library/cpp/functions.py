"""The scalar functions that a file defines for itself, each only where it is used.

libm's functions keep a loop scalar. The ones here are polynomials without branches, so that the compiler makes vectors of them, and
without divisions by constants, which it would not turn into products: a division takes as long as ten of the other steps.
"""

from __future__ import annotations

_REDUCED = """const float t = VALUE * 1.44269504f + 12582912.f, n = t - 12582912.f;  // the nearest whole number, by rounding
  const float r = (VALUE - n * 0.693359375f) + n * 2.12194440e-4f;"""
_SERIES = "r * (0.499999933f + r * (0.166665191f + r * (0.0416684057f + r * (0.00836889919f + r * 0.00138142221f))))"
_POWER = """int32_t bits;
  std::memcpy(&bits, &t, 4);
  bits = int32_t(uint32_t(bits) << 23) + 0x3f800000;
  float power;
  std::memcpy(&power, &bits, 4);"""

FUNCTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "widen": (
        """static inline float widen(uint16_t bits) {
  const uint32_t wide = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}""",
        (),
    ),
    "narrow": (
        """static inline uint16_t narrow(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return uint16_t(value != value ? 0x7fc0u : rounded);
}""",
        (),
    ),
    "from_e4m3": (
        """static inline float from_e4m3(uint8_t bits) {
  const uint32_t size = uint32_t(bits & 127u) << 20;
  float value;
  std::memcpy(&value, &size, 4);
  value *= 0x1p120f;
  return (bits & 127u) == 127u ? NAN : bits & 128u ? -value : value;
}""",
        (),
    ),
    "to_e4m3": (
        """static inline uint8_t to_e4m3(float value) {
  const float size = std::fabs(value) < 448.f ? std::fabs(value) : 448.f;  // the largest there is
  const float near = size < 0x1p-6f ? size + 16384.f : size * 0x1p-120f;
  uint32_t bits;
  std::memcpy(&bits, &near, 4);
  const uint32_t rounded = size < 0x1p-6f ? bits - 0x46800000u : (bits + 0x7ffffu + ((bits >> 20) & 1u)) >> 20;
  return uint8_t((value != value ? 127u : rounded) | (std::signbit(value) ? 128u : 0u));
}""",
        (),
    ),
    # By `v < 0 ? 0 : v` what is no number passes too, but g++ has seven instructions for it on an ARM.
    "relu": (
        """static inline TYPE relu(TYPE v) {
  const TYPE more = v > 0 ? v : 0;
  return v != v ? v : more;
}""",
        (),
    ),
    # Two choices by one comparison each: of several in a row with `||` g++ makes no vectors.
    "maximum": (
        """static inline TYPE maximum(TYPE a, TYPE b) {
  const TYPE larger = a > b ? a : b;
  return a != a ? a : larger;
}""",
        (),
    ),
    "minimum": (
        """static inline TYPE minimum(TYPE a, TYPE b) {
  const TYPE smaller = a < b ? a : b;
  return a != a ? a : smaller;
}""",
        (),
    ),
    "log_sum": (
        """// the largest so far, and the sum of exponentials below it
template <class T> struct log_sum { T top = -INFINITY; double sum = 0; };
template <class T> static inline log_sum<T> joined(log_sum<T> a, log_sum<T> b) {
  const T near = a.top == b.top ? T(1) : std::exp(-std::fabs(a.top - b.top));
  return b.top > a.top ? log_sum<T>{b.top, a.sum * near + b.sum} : log_sum<T>{a.top, a.sum + b.sum * near};
}
template <class T> static inline log_sum<T> joined(log_sum<T> a, T value) { return joined(a, log_sum<T>{value, 1.0}); }
template <class T> static inline T value_of(log_sum<T> a) { return a.top + std::log(T(a.sum)); }""",
        (),
    ),
    "square": ("static inline TYPE square(TYPE v) { return v * v; }", ()),
    "sign": ("static inline TYPE sign(TYPE v) { return TYPE((v > 0) - (v < 0)); }", ()),
    "sigmoid": ("static inline TYPE sigmoid(TYPE v) { return 1 / (1 + std::exp(-v)); }", ()),
    "remainder": (
        """static inline TYPE remainder_of(TYPE a, TYPE b) {
  const TYPE rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}""",
        (),
    ),
    "floor_divide": (
        """static inline TYPE floor_divide(TYPE a, TYPE b) {
  const TYPE rest = std::fmod(a, b), quotient = (a - rest) / b;
  const TYPE whole = std::nearbyint(rest != 0 && (rest < 0) != (b < 0) ? quotient - 1 : quotient);
  return b == 0 ? a / b : whole;
}""",
        (),
    ),
    "exp_simd": (
        f"""static inline float exp_simd(float x) {{  // 2^n * e^r
  {_REDUCED.replace("VALUE", "x")}
  const float p = 1.f + r * (1.f + {_SERIES});
  {_POWER}
  const float e = x < -87.3f ? 0.f : p * power;
  return x > 88.37f ? INFINITY : e;
}}""",
        (),
    ),
    "expm1_simd": (
        f"""static inline float expm1_simd(float x) {{  // 2^n * (e^r - 1) + (2^n - 1)
  const float c = x < -87.f ? -87.f : x;
  {_REDUCED.replace("VALUE", "c")}
  const float p = r * (1.f + {_SERIES});
  {_POWER}
  return x > 88.37f ? INFINITY : p * power + (power - 1.f);
}}""",
        (),
    ),
    "tanh_simd": (
        """static inline float tanh_simd(float x) {
  const float a = std::fabs(x), e = expm1_simd(a > 10.f ? 20.f : 2.f * a);
  return std::copysign(e / (e + 2.f), x);
}""",
        ("expm1_simd",),
    ),
    "sigmoid_simd": (
        "static inline float sigmoid_simd(float x) { return 1.f / (1.f + exp_simd(-x)); }",
        ("exp_simd",),
    ),
    "erf_simd": (
        """static inline float erf_simd(float x) {  // x P(x^2) / Q(x^2)
  const float low = x < -4.f ? -4.f : x, c = low > 4.f ? 4.f : low, z = c * c;
  const float p = -1.60960333e-2f + z * (-2.95459981e-3f + z * (-7.3499063e-4f + z * (-5.69250639e-5f +
                  z * (-2.10102402e-6f + z * (2.77068142e-8f - z * 2.72614226e-10f)))));
  const float q = -1.42647391e-2f + z * (-7.37332917e-3f + z * (-1.68282697e-3f + z * (-2.13374055e-4f - z * 1.45660718e-5f)));
  return c * p / q;
}""",
        (),
    ),
    "log_simd": (
        """static inline float log_simd(float x) {  // exponent * ln 2 + 2 atanh((m - 1) / (m + 1)), m in [0.7, 1.4]
  int32_t bits;
  std::memcpy(&bits, &x, 4);
  const int32_t e = (bits - 0x3f3504f3) >> 23, mantissa = bits - (e << 23);
  float m;
  std::memcpy(&m, &mantissa, 4);
  const float u = (m - 1.f) / (m + 1.f), z = u * u;
  const float y = e * 0.693147181f + 2.f * u * (1.f + z * (1 / 3.f + z * (1 / 5.f + z * (1 / 7.f + z * (1 / 9.f)))));
  return x > 0.f ? (x == INFINITY ? x : y) : (x == 0.f ? -INFINITY : NAN);
}""",
        (),
    ),
    "log1p_simd": (
        """static inline float log1p_simd(float x) {
  const float w = 1.f + x, y = log_simd(w);
  return w == 1.f ? x : x < 1.f ? y * (x / (w - 1.f)) : y;
}""",
        ("log_simd",),
    ),
    "log1p_below_one_simd": (
        """static inline float log1p_below_one_simd(float x) {  // 2 atanh(x / (2 + x)), x in [0, 1]
  const float u = x / (2.f + x), z = u * u;
  return 2.f * u * (1.f + z * (1 / 3.f + z * (1 / 5.f + z * (1 / 7.f + z * (1 / 9.f + z * (1 / 11.f + z * (1 / 13.f + z * (1 / 15.f))))))));
}""",
        (),
    ),
    "sin_simd": (
        """static inline float sin_simd(double x) {  // x = n pi + r
  const double n = std::floor(x * 0.31830988618379067 + 0.5);
  const float r = float(x - n * 3.14159265358979324), z = r * r;
  const float s = r * (1.f - z * (1 / 6.f - z * (1 / 120.f - z * (1 / 5040.f - z * (1 / 362880.f - z * (1 / 39916800.f - z * (1 / 6227020800.f)))))));
  return n * 0.5 == std::floor(n * 0.5) ? s : -s;
}""",
        (),
    ),
    "cos_simd": (
        "static inline float cos_simd(float x) { return sin_simd(x + 1.57079632679489662); }",
        ("sin_simd",),
    ),
}
"""By name: the text, TYPE being the type it is used at, and the functions it needs before it."""

HEADERS = {"std::min": "algorithm", "std::max": "algorithm", "std::fill": "algorithm", "std::memcpy": "cstring",
           "std::memset": "cstring", "std::vector": "vector", "std::swap": "utility", "std::copy": "algorithm",
           "omp_get": "omp.h", "_mm": "immintrin.h"}  # fmt: skip
_MATHS = ("INFINITY", "NAN", "std::")


def headers(text: str) -> list[str]:
    """The includes that a text needs, sorted."""
    found = {"cstdint"} | {header for mark, header in HEADERS.items() if mark in text}
    without = text
    for mark in HEADERS:
        without = without.replace(mark, "")
    if any(mark in without for mark in _MATHS):
        found.add("cmath")
    return sorted(found)


def spaced(texts: list[str]) -> list[str]:
    """One-liners stand together."""
    groups: list[str] = []
    short = False
    for text in texts:
        if short and "\n" not in text:
            groups[-1] += "\n" + text
        else:
            groups.append(text)
        short = "\n" not in text
    return groups
