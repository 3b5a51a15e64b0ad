import torch
import torch.nn as nn
import torch.nn.functional as F

SIZES = {
    "cpu": dict(batch=4, side=48, base=16),
    "gpu": dict(batch=32, side=160, base=48),
}


def conv(inputs, outputs):
    layer = nn.Conv2d(inputs, outputs, 3, padding=1)
    nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    return layer


class Model(nn.Module):
    """Down once, up once, with a skip by concatenation; predicts a mask's logits and a depth map."""

    def __init__(self, base: int):
        super().__init__()
        self.enter = conv(3, base)
        self.down = conv(base, 2 * base)
        self.up = nn.ConvTranspose2d(2 * base, base, 2, stride=2)
        nn.init.normal_(self.up.weight, std=(2 * base) ** -0.5)
        self.merge = conv(2 * base, base)
        self.mask = nn.Conv2d(base, 1, 1)
        self.depth = nn.Conv2d(base, 1, 1)

    def forward(self, image):
        fine = F.relu(self.enter(image))
        coarse = F.relu(self.down(F.max_pool2d(fine, 2)))
        merged = F.relu(self.merge(torch.cat([fine, self.up(coarse)], dim=1)))
        return {"mask": self.mask(merged), "depth": F.softplus(self.depth(merged))}


def get_inputs():
    return [torch.randn(batch, 3, side, side)]


def get_init_inputs():
    return [base]
