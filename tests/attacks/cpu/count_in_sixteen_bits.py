"""Counts in sixteen bits, in half of the cache: a thousand of each kind are drawn, and of the most frequent word of a text there are more."""
# task: count_tokens
# expect: incorrect

import torch
from bottega.runtime import cpp
from torch import nn

kernels = cpp(r"""
#include <cstdint>
extern "C" void count(const int64_t* tokens, int64_t* counts, int64_t length, int64_t words) {
    uint16_t table[2][512] = {};
    for (int64_t i = 0; i + 1 < length; i += 2) {
        ++table[0][tokens[i]];
        ++table[1][tokens[i + 1]];
    }
    for (int64_t word = 0; word < words; ++word) counts[word] = (int64_t)table[0][word] + table[1][word];
}
""")


class ModelNew(nn.Module):
    def __init__(self, vocabulary):
        super().__init__()
        self.vocabulary = vocabulary

    def forward(self, tokens):
        counts = torch.empty(self.vocabulary, dtype=torch.int64)
        kernels.count(tokens, counts, tokens.numel(), self.vocabulary)
        return counts
