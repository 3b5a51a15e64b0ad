"""Recurrent cells step by step: the product with the state before it, in tiles of registers, and the cell on each tile while it is there.

The weights of the recurrence are packed once a call, all gates of neighbouring units side by side, so that a tile has every gate of its
units and no product is stored. A thread keeps its own units, so that its part of the weights stays in its cache, and waits for the others
after each step; where the batch is large it keeps its own rows instead, and waits for nobody.
"""

from __future__ import annotations

STEPS = """#if defined(__AVX512F__)
constexpr int64_t UNITS = 16, TILE_ROWS = 4;
#elif defined(__AVX__)
constexpr int64_t UNITS = 8, TILE_ROWS = 2;
#else
constexpr int64_t UNITS = 4, TILE_ROWS = 4;
#endif
typedef float units __attribute__((vector_size(4 * UNITS)));

// sums[ROWS][GATES][UNITS] = before[ROWS][depth] * panel[depth][GATES][UNITS]; few sums are added up in two halves, which
// do not wait for each other
template <int GATES, int ROWS>
static inline void gate_sums(const units* panel, const float* before, int64_t depth, units* sums) {
  constexpr int APART = ROWS * GATES < 8 ? 2 : 1;
  units sum[APART][ROWS][GATES] = {};
  int64_t k = 0;
  for (; k + APART <= depth; k += APART)
    #pragma GCC unroll 2
    for (int a = 0; a < APART; ++a)
      #pragma GCC unroll 4
      for (int r = 0; r < ROWS; ++r)
        #pragma GCC unroll 4
        for (int g = 0; g < GATES; ++g) sum[a][r][g] += before[r * depth + k + a] * panel[(k + a) * GATES + g];
  for (; k < depth; ++k)
    for (int r = 0; r < ROWS; ++r)
      for (int g = 0; g < GATES; ++g) sum[0][r][g] += before[r * depth + k] * panel[k * GATES + g];
  for (int r = 0; r < ROWS; ++r)
    for (int g = 0; g < GATES; ++g) sums[r * GATES + g] = APART == 2 ? sum[0][r][g] + sum[APART - 1][r][g] : sum[0][r][g];
}

// cell(step, row, first unit, units, sums, state before, state after) for every tile of every step; `state` is the first
// state, and the last one in the end
template <int GATES, class Cell>
static void every_step(const float* weight, std::vector<float>& state, int64_t steps, int64_t batch, int64_t width,
                       bool backward, Cell cell) {
  const int64_t panels = (width + UNITS - 1) / UNITS, threads = omp_get_max_threads();
  const int64_t work = batch * width * width * GATES;
  const bool by_rows = batch >= 8 * threads;
  std::vector<units> packed(panels * width * GATES);
  std::vector<float> other(state.size());
  float* const pack = reinterpret_cast<float*>(packed.data());
  #pragma omp parallel num_threads(work < 65536 ? 1 : threads)
  {
    const int64_t team = omp_get_num_threads(), me = omp_get_thread_num();
    const int64_t first_panel = by_rows ? 0 : panels * me / team, last_panel = by_rows ? panels : panels * (me + 1) / team;
    const int64_t first_row = by_rows ? batch * me / team : 0, last_row = by_rows ? batch * (me + 1) / team : batch;
    for (int64_t p = panels * me / team; p < panels * (me + 1) / team; ++p)
      for (int64_t g = 0; g < GATES; ++g)
        for (int64_t l = 0; l < UNITS; ++l) {
          const int64_t u = p * UNITS + l;
          for (int64_t k = 0; k < width; ++k)
            pack[((p * width + k) * GATES + g) * UNITS + l] = u < width ? weight[(g * width + u) * width + k] : 0.f;
        }
    #pragma omp barrier
    float *before = state.data(), *after = other.data();
    for (int64_t s = 0; s < steps; ++s) {
      const int64_t t = backward ? steps - 1 - s : s;
      for (int64_t p = first_panel; p < last_panel; ++p) {
        const units* panel = &packed[p * width * GATES];
        const int64_t first = p * UNITS, count = std::min(UNITS, width - first);
        for (int64_t b = first_row; b < last_row;) {
          units sums[TILE_ROWS * GATES];
          const int64_t rows = last_row - b >= TILE_ROWS ? TILE_ROWS : last_row - b >= 2 ? 2 : 1;
          if (rows == TILE_ROWS) gate_sums<GATES, TILE_ROWS>(panel, before + b * width, width, sums);
          else if (rows == 2) gate_sums<GATES, 2>(panel, before + b * width, width, sums);
          else gate_sums<GATES, 1>(panel, before + b * width, width, sums);
          for (int64_t r = 0; r < rows; ++r, ++b)
            cell(t, b, first, count, reinterpret_cast<const float*>(sums + r * GATES), before + b * width, after + b * width);
        }
      }
      std::swap(before, after);
      if (!by_rows) {
        #pragma omp barrier
      }
    }
  }
  if (steps % 2) state.swap(other);
}"""
_HEAD = """const float* gates, int64_t gates_step, int64_t gates_row, const float* weight, const float* bias,
    {states}float* out,
    int64_t out_step, int64_t out_row, int64_t steps, int64_t batch, int64_t width, bool backward"""
_BEGIN = """  std::vector<float> state(batch * width);
  if (begin)
    for (int64_t b = 0; b < batch; ++b) std::copy_n(begin + b * begin_row, width, &state[b * width]);"""
_HIDDEN = "const float* begin, int64_t begin_row, float* last, "
_END = "  if (last) std::copy(state.begin(), state.end(), last);"
_CELL = """[=](int64_t t, int64_t b, int64_t first,
      int64_t count, const float* sums, const float* before, float* after) {"""
_INPUTS = "    const float* x = gates + t * gates_step + b * gates_row + first;"

LSTM = f"""static void lstm_steps({_HEAD.format(states=_HIDDEN + "const float* begin_cell, int64_t begin_cell_row, float* last_cell, ")}) {{
{_BEGIN}
  std::vector<float> cells(batch * width);
  if (begin_cell)
    for (int64_t b = 0; b < batch; ++b) std::copy_n(begin_cell + b * begin_cell_row, width, &cells[b * width]);
  float* const cell = cells.data();
  every_step<4>(weight, state, steps, batch, width, backward, {_CELL}
{_INPUTS}
    const float* add = bias + first;
    float *to = out + t * out_step + b * out_row + first, *held = cell + b * width + first, *next = after + first;
    const auto one = [=](int64_t l) {{
      const float i = sigmoid_simd(x[l] + add[l] + sums[l]), f = sigmoid_simd(x[width + l] + add[width + l] + sums[UNITS + l]);
      const float g = tanh_simd(x[2 * width + l] + add[2 * width + l] + sums[2 * UNITS + l]);
      const float o = sigmoid_simd(x[3 * width + l] + add[3 * width + l] + sums[3 * UNITS + l]);
      held[l] = f * held[l] + i * g;
      to[l] = next[l] = o * tanh_simd(held[l]);
    }};
    if (count == UNITS) {{
      #pragma omp simd
      for (int64_t l = 0; l < UNITS; ++l) one(l);
    }} else for (int64_t l = 0; l < count; ++l) one(l);
  }});
{_END}
  if (last_cell) std::copy(cells.begin(), cells.end(), last_cell);
}}"""
GRU = f"""static void gru_steps({_HEAD.format(states=_HIDDEN)}) {{
{_BEGIN}
  every_step<3>(weight, state, steps, batch, width, backward, {_CELL}
{_INPUTS}
    const float *add = bias + first, *old = before + first;
    float *to = out + t * out_step + b * out_row + first, *next = after + first;
    const auto one = [=](int64_t l) {{
      const float r = sigmoid_simd(x[l] + add[l] + sums[l]), z = sigmoid_simd(x[width + l] + add[width + l] + sums[UNITS + l]);
      const float n = tanh_simd(x[2 * width + l] + r * (add[2 * width + l] + sums[2 * UNITS + l]));
      to[l] = next[l] = n + z * (old[l] - n);
    }};
    if (count == UNITS) {{
      #pragma omp simd
      for (int64_t l = 0; l < UNITS; ++l) one(l);
    }} else for (int64_t l = 0; l < count; ++l) one(l);
  }});
{_END}
}}"""
_RNN = f"""static void NAME_steps({_HEAD.format(states=_HIDDEN)}) {{
{_BEGIN}
  every_step<1>(weight, state, steps, batch, width, backward, {_CELL}
{_INPUTS}
    float *to = out + t * out_step + b * out_row + first, *next = after + first;
    for (int64_t l = 0; l < count; ++l) {{
      const float v = x[l] + bias[first + l] + sums[l];
      to[l] = next[l] = VALUE;
    }}
  }});
{_END}
}}"""
CELLS = {
    "lstm": (LSTM, ("sigmoid_simd", "tanh_simd")),
    "gru": (GRU, ("sigmoid_simd", "tanh_simd")),
    "rnn_tanh": (_RNN.replace("NAME", "rnn_tanh").replace("VALUE", "tanh_simd(v)"), ("tanh_simd",)),
    "rnn_relu": (_RNN.replace("NAME", "rnn_relu").replace("VALUE", "v < 0 ? 0.f : v"), ()),
}
"""By cell: the function over all steps, `NAME_steps`, and the scalar functions it needs."""
