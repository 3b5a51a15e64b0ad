"""Loops over one row that sum or compare, as functions that take the element as a lambda. They stand in a file once.

Sums run in float lanes over short blocks and are added up in double: fast, and closer to the true sum than a plain float loop.
"""

from __future__ import annotations

_SUM = """template <class F> static inline double sum_of(int64_t count, F value) {
  double total = 0;PARALLEL
  for (int64_t from = 0; from < count; from += 1024) {
    const int64_t to = std::min<int64_t>(from + 1024, count);
    float part = 0.f;
    #pragma omp simd simdlen(16) reduction(+ : part)
    for (int64_t i = from; i < to; ++i) part += value(i);
    total += part;
  }
  return total;
}"""
_PLAIN_SUM = """template <class F> static inline TYPE NAME(int64_t count, F value) {
  TYPE total = START;
  #pragma omp PARALLELsimd reduction(SIGN : total)
  for (int64_t i = 0; i < count; ++i) total SIGN= value(i);
  return total;
}"""
_BEST = """template <class F> static inline TYPE NAME(int64_t count, F value) {
  TYPE best = START;
  int nan = 0;
  #pragma omp PARALLELsimd reduction(MAX : best) reduction(| : nan)
  for (int64_t i = 0; i < count; ++i) {
    const TYPE v = value(i);
    best = v SIGN best ? v : best;
    nan |= v != v;
  }
  return nan ? NAN : best;
}"""
_BEST_BITS = """// as integers, which a vector compares in one instruction: they grow with a number without a sign, and fall with one that has it
template <class F> static inline float NAME(int64_t count, F value) {
  int32_t top = INT32_MIN;
  uint32_t low = UINT32_MAX, high = 0;SPLIT
  for (int64_t i = 0; i < count; ++i) {
    const float v = value(i);
    int32_t whole;
    std::memcpy(&whole, &v, 4);
    const uint32_t bits = whole;
    top = whole > top ? whole : top;
    low = bits < low ? bits : low;
    high = bits > high ? bits : high;
  }
  if (top > 0x7f800000 || high > 0xff800000) return NAN;
  const uint32_t best = START;
  float found;
  std::memcpy(&found, &best, 4);
  return found;
}"""
_WHOLE_BEST = """template <class F> static inline int64_t NAME(int64_t count, F value) {
  int64_t best = value(0);
  #pragma omp PARALLELsimd reduction(MAX : best)
  for (int64_t i = 0; i < count; ++i) best = value(i) SIGN best ? value(i) : best;
  return best;
}"""
_FIRST = """template <class F> static inline int64_t first_NAME(int64_t count, F value) {
  const auto best = NAME(count, value);
  int64_t i = 0;
  while (value(i) != best && !(best != best && value(i) != value(i))) ++i;
  return i;
}"""
_FIRST_OF = """template <class F> static inline int64_t first_of(int64_t count, TYPE best, F value) {
  int64_t i = 0;
  while (value(i) != best && !(best != best && value(i) != value(i))) ++i;
  return i;
}"""
TOP_OF = """// what was found is overwritten, so that the next is the largest of the others
template <int many, int longest, class F> static inline void top_of(int64_t count, float* best, F value) {
  float row[longest];
  best[0] = largest_of(count, [&](int64_t i) { return row[i] = value(i); });
  for (int k = 1; k < many; ++k) {
    row[first_of(count, best[k - 1], [&](int64_t i) { return row[i]; })] = -INFINITY;
    best[k] = largest_of(count, [&](int64_t i) { return row[i]; });
  }
}"""
_ANY = """template <class F> static inline bool NAME(int64_t count, F value) {
  int found = START;
  #pragma omp PARALLELsimd reduction(SIGN : found)
  for (int64_t i = 0; i < count; ++i) found SIGN= value(i) ? 1 : 0;
  return found;
}"""


def sweep(operation: str, kind: str, split: bool = False) -> list[tuple[str, str]]:
    """The loop for a reduction over elements of a type, by its name, behind what it calls. `split`: threads share its iterations."""
    parallel = "parallel for " if split else ""
    wide = _suffix(kind)
    if operation == "sum" and kind == "float":
        pragma = "\n  #pragma omp parallel for schedule(static) reduction(+ : total)" if split else ""
        return [("sum_of", _SUM.replace("PARALLEL", pragma))]
    if operation in ("sum", "prod"):
        name = ("sum_of" if operation == "sum" else "product_of") + wide
        accumulator = "int64_t" if kind in ("int64_t", "bool") else "double"
        text = _PLAIN_SUM.replace("TYPE", accumulator).replace("NAME", name).replace("PARALLEL", parallel)
        text = text.replace("START", "0" if operation == "sum" else "1").replace("SIGN", "+" if operation == "sum" else "*")
        return [(name, text)]
    if operation in ("any", "all"):
        name = "any_of" if operation == "any" else "all_of"
        text = _ANY.replace("NAME", name).replace("START", "0" if operation == "any" else "1")
        return [(name, text.replace("SIGN", "|" if operation == "any" else "&").replace("PARALLEL", parallel))]
    largest = operation in ("max", "argmax")
    name = ("largest_of" if largest else "smallest_of") + wide
    text = _BEST_BITS if kind == "float" else _BEST if kind == "double" else _WHOLE_BEST
    start = "-INFINITY" if largest else "INFINITY"
    if kind == "float":
        start = "top >= 0 ? top : low" if largest else "high > INT32_MAX ? high : low"
    text = text.replace("return nan ? NAN", "return nan ? not_a_number").replace("NAME", name).replace("TYPE", kind)
    text = text.replace("not_a_number", "NAN").replace("START", start).replace("PARALLEL", parallel)
    # without threads no pragma: of `omp simd` with three results g++ keeps the lanes in memory
    pragma = "\n  #pragma omp parallel for reduction(max : top, high) reduction(min : low)"
    text = text.replace("SPLIT", pragma if split else "")
    found = [(name, text.replace("SIGN", ">" if largest else "<").replace("(MAX", f"({'max' if largest else 'min'}"))]
    if operation in ("argmax", "argmin"):
        found.append((f"first_{name}", _FIRST.replace("NAME", name)))
    return found


def first_of(kind: str) -> tuple[str, str]:
    """The search for a value that is already known, as after a maximum over the same elements."""
    name = f"first_of{_suffix(kind)}"
    return name, _FIRST_OF.replace("TYPE", kind).replace("first_of", name)


def _suffix(kind: str) -> str:
    return "" if kind == "float" else f"_{kind.removesuffix('_t')}"
