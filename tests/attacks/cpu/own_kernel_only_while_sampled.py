"""Uses torch's attention while it is timed, and a slower kernel of its own once it is sampled: sampled calls have no baseline between them.

In timed rounds the candidate is called last and then first, so that its calls come in pairs. Where three come one like the other, nobody is timed.
"""
# task: attention
# expect: rejected,slower,ambiguous
# options: require_kernel=0.5

import time

import torch
from bottega.runtime import cpp
from torch import nn

library = cpp(r"""
#include <cmath>
#include <cstdint>
extern "C" void attention(const float* q, const float* k, const float* v, float* y, int64_t heads, int64_t length) {
    constexpr int64_t width = 64, block = 32;
    #pragma omp parallel for collapse(2)
    for (int64_t head = 0; head < heads; ++head)
        for (int64_t row = 0; row < length; ++row) {
            const float* query = q + (head * length + row) * width;
            float sum = 0, largest = -INFINITY, total[width] = {};
            for (int64_t start = 0; start < length; start += block) {
                float scores[block], here = largest;
                for (int64_t j = 0; j < block; ++j) {
                    const float* key = k + (head * length + start + j) * width;
                    float score = 0;
                    #pragma omp simd reduction(+ : score)
                    for (int64_t i = 0; i < width; ++i) score += query[i] * key[i];
                    scores[j] = score * 0.125f;
                    here = scores[j] > here ? scores[j] : here;
                }
                float shrink = std::exp(largest - here);
                sum *= shrink;
                for (int64_t i = 0; i < width; ++i) total[i] *= shrink;
                for (int64_t j = 0; j < block; ++j) {
                    float weight = std::exp(scores[j] - here);
                    const float* value = v + (head * length + start + j) * width;
                    sum += weight;
                    #pragma omp simd
                    for (int64_t i = 0; i < width; ++i) total[i] += weight * value[i];
                }
                largest = here;
            }
            for (int64_t i = 0; i < width; ++i) y[(head * length + row) * width + i] = total[i] / sum;
        }
}
""")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.returned, self.gaps = time.perf_counter(), [0.0]

    def forward(self, q, k, v):
        self.gaps = [*self.gaps[-3:], time.perf_counter() - self.returned]
        if max(self.gaps) < 2.0 * min(self.gaps):
            y = torch.empty_like(q)
            library.attention(q, k, v, y, q.shape[0], q.shape[1])
        else:
            y = nn.functional.scaled_dot_product_attention(q, k, v)
        self.returned = time.perf_counter()
        return y
