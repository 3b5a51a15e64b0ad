"""Times two of its own variants in the first call, with `time.perf_counter`, and keeps the faster one."""
# task: matmul
# expect: faster,same,slower,ambiguous

import time

import torch
from bottega.runtime import cpp
from torch import nn

SOURCE = r"""
#include <cstdint>
extern "C" void matmul(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k) {
    #pragma omp parallel for collapse(2)
    for (int64_t row = 0; row < m; row += HEIGHT)
        for (int64_t column = 0; column < n; column += WIDTH) {
            float total[HEIGHT][WIDTH] = {};
            for (int64_t inner = 0; inner < k; ++inner)
                for (int64_t i = 0; i < HEIGHT; ++i) {
                    float left = a[(row + i) * k + inner];
                    #pragma omp simd
                    for (int64_t j = 0; j < WIDTH; ++j) total[i][j] += left * b[inner * n + column + j];
                }
            for (int64_t i = 0; i < HEIGHT; ++i)
                for (int64_t j = 0; j < WIDTH; ++j) c[(row + i) * n + column + j] = total[i][j];
        }
}
"""
VARIANTS = [cpp(SOURCE, flags=[f"-DHEIGHT={height}", f"-DWIDTH={width}"]).matmul for height, width in ((4, 64), (8, 32))]


class ModelNew(nn.Module):
    chosen = None

    def choose(self, arguments):
        times = []
        for variant in VARIANTS:
            variant(*arguments)
            start = time.perf_counter()
            variant(*arguments)
            times.append(time.perf_counter() - start)
        return VARIANTS[times.index(min(times))]

    def forward(self, a, b):
        c = torch.empty(a.shape[0], b.shape[1])
        arguments = (a, b, c, a.shape[0], b.shape[1], a.shape[1])
        if self.chosen is None:
            self.chosen = self.choose(arguments)
        self.chosen(*arguments)
        return c
