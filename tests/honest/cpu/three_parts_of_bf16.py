"""Products of fp32 as tensor cores can have them: each factor is the sum of three of bf16's numbers, and nothing is lost that fp32 would keep."""
# task: linear_cross_entropy
# expect: faster, same, slower, ambiguous
# options: quick=true timed=false

from torch import nn


def parts(x):
    found = []
    for _ in range(3):
        found.append(x.bfloat16().float())
        x = x - found[-1]
    return found


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(256, 1000)

    def forward(self, x, target):
        left, right = parts(x), parts(self.head.weight)
        pairs = ((2, 0), (1, 1), (0, 2), (1, 0), (0, 1), (0, 0))  # the smallest first
        logits = sum(left[one] @ right[other].mT for one, other in pairs) + self.head.bias
        return nn.functional.cross_entropy(logits, target)
