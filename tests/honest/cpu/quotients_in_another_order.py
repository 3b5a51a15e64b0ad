"""Both products in two halves. The largest quotients differ from the reference's by per cents, as the reference's do from the truth."""
# task: quotients
# expect: faster,same,slower,ambiguous

from torch import nn


def in_halves(x, weight):
    half = x.shape[1] // 2
    return x[:, :half] @ weight[:, :half].t() + x[:, half:] @ weight[:, half:].t()


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.above = nn.Linear(width, width, bias=False)
        self.below = nn.Linear(width, width, bias=False)

    def forward(self, x):
        return in_halves(x, self.above.weight) / in_halves(x, self.below.weight)
