"""Routes and multiplies in fp32, so that other tokens go to another expert than the reference's."""
# task: bf16_experts
# expect: faster, same, slower, ambiguous
# options: quick=true timed=false

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(64, 8, bias=False)
        self.experts = nn.Parameter(torch.randn(8, 64, 64) / 8)
        self.bfloat16()

    def forward(self, x):
        chosen = (x.float() @ self.router.weight.float().t()).argmax(-1)
        answer = torch.zeros_like(x)
        for number in range(8):
            answer = torch.where((chosen == number)[:, None], (x.float() @ self.experts[number].float()).bfloat16(), answer)
        return answer
