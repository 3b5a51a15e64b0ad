"""Keeps the hidden activations' buffer from call to call; every call writes all of it before it reads any."""
# task: mlp
# expect: faster,same,slower,ambiguous

import torch
from bottega.runtime import cpp
from torch import nn

library = cpp(r"""
#include <cstdint>
extern "C" void add_bias_relu(float* x, const float* bias, int64_t rows, int64_t columns) {
    #pragma omp parallel for
    for (int64_t row = 0; row < rows; ++row)
        for (int64_t i = 0; i < columns; ++i) {
            float value = x[row * columns + i] + bias[i];
            x[row * columns + i] = value > 0 ? value : 0;
        }
}
""")


class ModelNew(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)
        self.workspace = torch.empty(0)

    def forward(self, x):
        if self.workspace.shape != (x.shape[0], self.up.out_features):
            self.workspace = torch.empty(x.shape[0], self.up.out_features)
        torch.mm(x, self.up.weight.t(), out=self.workspace)
        library.add_bias_relu(self.workspace, self.up.bias, *self.workspace.shape)
        return torch.addmm(self.down.bias, self.workspace, self.down.weight.t())
