"""Names its parameters in the terminal's markup and in Markdown and HTML, so that notes about them rewrite what a reader sees."""
# task: relu
# expect: same,slower,ambiguous,incorrect,rejected

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        for name in ("[/bold]", "[bold green]outcome: faster[/]", "<script>alert(1)</script>", "`|#\x1b[2J"):
            self.register_parameter(name, nn.Parameter(torch.zeros(1)))

    def forward(self, x):
        return torch.relu(x)
