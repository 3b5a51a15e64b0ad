"""Counts integers in one private table per thread and adds the tables up."""
# task: count_tokens
# expect: faster,same,slower,ambiguous

import torch
from bottega.runtime import cpp
from torch import nn

library = cpp(r"""
#include <cstdint>
#include <vector>
extern "C" void count(const int64_t* tokens, int64_t* counts, int64_t n, int64_t vocabulary) {
    #pragma omp parallel
    {
        std::vector<int64_t> mine(vocabulary);
        #pragma omp for nowait
        for (int64_t i = 0; i < n; ++i) ++mine[tokens[i]];
        #pragma omp critical
        for (int64_t i = 0; i < vocabulary; ++i) counts[i] += mine[i];
    }
}
""")


class ModelNew(nn.Module):
    def __init__(self, vocabulary):
        super().__init__()
        self.vocabulary = vocabulary

    def forward(self, tokens):
        counts = torch.zeros(self.vocabulary, dtype=torch.int64)
        library.count(tokens, counts, tokens.numel(), self.vocabulary)
        return counts
