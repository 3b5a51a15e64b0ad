"""A matrix product in register tiles, over blocks of the inner dimension: another order of summation than the library's."""
# task: matmul
# expect: faster,same,slower,ambiguous

import torch
from bottega.runtime import cpp
from torch import nn

library = cpp(r"""
#include <cstdint>
extern "C" void matmul(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k) {
    constexpr int64_t tile_rows = 4, tile_columns = 64, depth = 128;
    #pragma omp parallel for collapse(2)
    for (int64_t row = 0; row < m; row += tile_rows)
        for (int64_t column = 0; column < n; column += tile_columns) {
            float total[tile_rows][tile_columns] = {};
            for (int64_t start = 0; start < k; start += depth) {
                float part[tile_rows][tile_columns] = {};
                for (int64_t inner = start; inner < start + depth && inner < k; ++inner)
                    for (int64_t i = 0; i < tile_rows; ++i) {
                        float left = a[(row + i) * k + inner];
                        #pragma omp simd
                        for (int64_t j = 0; j < tile_columns; ++j) part[i][j] += left * b[inner * n + column + j];
                    }
                for (int64_t i = 0; i < tile_rows; ++i)
                    for (int64_t j = 0; j < tile_columns; ++j) total[i][j] += part[i][j];
            }
            for (int64_t i = 0; i < tile_rows; ++i)
                for (int64_t j = 0; j < tile_columns; ++j) c[(row + i) * n + column + j] = total[i][j];
        }
}
""")


class ModelNew(nn.Module):
    def forward(self, a, b):
        c = torch.empty(a.shape[0], b.shape[1])
        library.matmul(a, b, c, a.shape[0], b.shape[1], a.shape[1])
        return c
