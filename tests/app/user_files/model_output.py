"""Returns a ModelOutput, which callers read by its fields."""

from dataclasses import dataclass

import torch
from torch import nn
from transformers.utils import ModelOutput


@dataclass
class PooledOutput(ModelOutput):
    last_hidden_state: torch.FloatTensor | None = None
    pooled: torch.FloatTensor | None = None


class Pooler(nn.Module):
    def __init__(self, dim=128):
        super().__init__()
        self.dense = nn.Linear(dim, dim)

    def forward(self, hidden_states):
        hidden = torch.tanh(self.dense(hidden_states))
        return PooledOutput(last_hidden_state=hidden, pooled=hidden.mean(dim=1))
