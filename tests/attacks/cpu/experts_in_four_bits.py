"""Rounds the experts to four bits: every element is off by 7 %.

The reference sends a few tokens to another expert than fp64 does, and judge 16 allowed three times that error anywhere: right in one of one verdict.
"""
# task: bf16_experts
# expect: incorrect
# options: quick=true

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(64, 8, bias=False)
        self.experts = nn.Parameter(torch.randn(8, 64, 64) / 8)
        self.bfloat16()

    def forward(self, x):
        weights = self.experts.float()
        step = weights.abs().amax(1, keepdim=True) / 7
        weights = ((weights / step).round() * step).bfloat16()
        chosen = self.router(x).argmax(-1)
        answer = torch.zeros_like(x)
        for number in range(8):
            answer = torch.where((chosen == number)[:, None], x @ weights[number], answer)
        return answer
