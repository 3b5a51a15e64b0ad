"""A task with layers of several kinds and two inputs, for the tests of what is done to networks."""

from __future__ import annotations

from module_task import module_task

TASK = module_task(
    "self.fc(self.norm(self.conv(x)).mean((2, 3))) + context",
    "torch.randn(2, 3, 8, 8), torch.randn(2, 4)",
    "x, context",
    init="self.conv = nn.Conv2d(3, 16, 3); self.norm = nn.BatchNorm2d(16); self.fc = nn.Linear(16, 4)",
)
SMALL = module_task(
    "self.fc(self.conv(x).mean((2, 3)))",
    "torch.rand(2, 3, 8, 8)",
    init="self.conv, self.fc = nn.Conv2d(3, 4, 3), nn.Linear(4, 2)",
)
FORGETFUL = """class ModelNew(Model):
    def __init__(self):
        super().__init__()
        for layer in self.modules():
            if type(layer) is nn.Conv2d:
                layer.__class__ = Conv2d
"""
"""An answer to it that leaves one kind of layer out."""
