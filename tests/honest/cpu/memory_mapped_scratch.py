"""Uses a memory-mapped temporary file as scratch space for partial sums: a file, written in every call, holding nothing to replay."""
# task: row_mean
# expect: faster,same,slower,ambiguous

import mmap
import tempfile

import torch
from bottega.runtime import cpp
from torch import nn

library = cpp(r"""
#include <cstdint>
extern "C" void partial_sums(const float* x, double* parts, int64_t pieces, int64_t length) {
    #pragma omp parallel for
    for (int64_t piece = 0; piece < pieces; ++piece) {
        float lanes[32] = {};
        for (int64_t i = 0; i < length; i += 32)
            for (int64_t lane = 0; lane < 32; ++lane) lanes[lane] += x[piece * length + i + lane];
        parts[piece] = 0;
        for (float lane : lanes) parts[piece] += lane;
    }
}
extern "C" void finish(const double* parts, float* y, int64_t rows, int64_t per_row, int64_t columns) {
    for (int64_t row = 0; row < rows; ++row) {
        double sum = 0;
        for (int64_t i = 0; i < per_row; ++i) sum += parts[row * per_row + i];
        y[row] = float(sum / columns);
    }
}
""")


class ModelNew(nn.Module):
    scratch = None

    def forward(self, x):
        rows, columns = x.shape
        per_row = columns // 1024
        if self.scratch is None or self.scratch.numel() != rows * per_row:
            with tempfile.TemporaryFile() as file:
                file.truncate(rows * per_row * 8)
                self.scratch = torch.frombuffer(mmap.mmap(file.fileno(), 0), dtype=torch.float64)
        y = torch.empty(rows)
        library.partial_sums(x, self.scratch, rows * per_row, 1024)
        library.finish(self.scratch, y, rows, per_row, columns)
        return y
