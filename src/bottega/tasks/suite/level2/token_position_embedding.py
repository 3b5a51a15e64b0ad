import torch
import torch.nn as nn

SIZES = {
    "cpu": dict(batch=32, length=128, vocabulary=3000, width=384),
    "gpu": dict(batch=64, length=2048, vocabulary=50000, width=1024),
}


class Model(nn.Module):
    """The first layer of an encoder: token, segment and position embeddings, then layer norm."""

    def __init__(self, vocabulary: int, length: int, width: int):
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.segment = nn.Embedding(2, width)
        self.position = nn.Embedding(length, width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        nn.init.normal_(self.norm.weight, mean=1.0, std=0.2)
        nn.init.normal_(self.norm.bias, std=0.2)

    def forward(self, tokens: torch.Tensor, segments: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(tokens.size(1), device=tokens.device)
        summed = self.token(tokens) + self.segment(segments) + self.position(positions)
        return self.norm(summed)


def get_inputs():
    return [torch.randint(0, vocabulary, (batch, length)), torch.randint(0, 2, (batch, length))]


def get_init_inputs():
    return [vocabulary, length, width]
