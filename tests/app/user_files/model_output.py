"""Returns a ModelOutput, which callers read by its fields."""

from dataclasses import dataclass
from typing import Optional

import torch
from torch import nn
from transformers.utils import ModelOutput


@dataclass
class PooledOutput(ModelOutput):
    last_hidden_state: Optional[torch.FloatTensor] = None
    pooled: Optional[torch.FloatTensor] = None


class Pooler(nn.Module):
    def __init__(self, dim=128):
        super().__init__()
        self.dense = nn.Linear(dim, dim)

    def forward(self, hidden_states):
        hidden = torch.tanh(self.dense(hidden_states))
        return PooledOutput(last_hidden_state=hidden, pooled=hidden.mean(dim=1))
