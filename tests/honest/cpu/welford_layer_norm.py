"""Layer normalisation with Welford's running mean and variance, sixteen independent lanes merged at the end."""
# task: layer_norm
# expect: faster,same,slower,ambiguous

import torch
from bottega.runtime import cpp
from torch import nn

library = cpp(r"""
#include <cmath>
#include <cstdint>
extern "C" void layer_norm(const float* x, const float* gain, const float* bias, float* y, int64_t rows, int64_t columns, float epsilon) {
    constexpr int64_t lanes = 16;
    #pragma omp parallel for
    for (int64_t row = 0; row < rows; ++row) {
        const float* in = x + row * columns;
        float mean[lanes] = {}, spread[lanes] = {};
        int64_t steps = columns / lanes;
        for (int64_t step = 0; step < steps; ++step) {
            float weight = 1.0f / float(step + 1);
            #pragma omp simd
            for (int64_t lane = 0; lane < lanes; ++lane) {
                float difference = in[step * lanes + lane] - mean[lane];
                mean[lane] += difference * weight;
                spread[lane] += difference * (in[step * lanes + lane] - mean[lane]);
            }
        }
        double centre = 0, squares = 0;
        for (int64_t lane = 0; lane < lanes; ++lane) centre += mean[lane] / double(lanes);
        for (int64_t lane = 0; lane < lanes; ++lane) squares += spread[lane] + steps * (mean[lane] - centre) * (mean[lane] - centre);
        double count = double(steps * lanes);
        for (int64_t i = steps * lanes; i < columns; ++i) {
            double difference = in[i] - centre;
            count += 1;
            centre += difference / count;
            squares += difference * (in[i] - centre);
        }
        float middle = float(centre), scale = float(1 / std::sqrt(squares / columns + epsilon));
        #pragma omp simd
        for (int64_t i = 0; i < columns; ++i) y[row * columns + i] = (in[i] - middle) * scale * gain[i] + bias[i];
    }
}
""")


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        y = torch.empty_like(x)
        norm = self.norm
        library.layer_norm(x, norm.weight, norm.bias, y, x.shape[0], x.shape[1], norm.eps)
        return y
