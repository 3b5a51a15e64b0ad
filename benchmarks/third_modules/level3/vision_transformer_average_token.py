import torch
import torch.nn as nn


class EncoderBlock(nn.Module):
    def __init__(self, dim, heads, mlp_ratio):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(
            nn.Linear(dim, dim * mlp_ratio),
            nn.GELU(),
            nn.Linear(dim * mlp_ratio, dim),
        )
        self.gamma1 = nn.Parameter(torch.full((dim,), 0.5))
        self.gamma2 = nn.Parameter(torch.full((dim,), 0.5))

    def forward(self, x):
        h = self.norm1(x)
        h, _ = self.attn(h, h, h, need_weights=False)
        x = x + self.gamma1 * h
        return x + self.gamma2 * self.mlp(self.norm2(x))


class Model(nn.Module):
    """
    Vision transformer without a class token: the patch tokens are averaged before the head.
    """

    def __init__(self, image_size, patch_size, dim, depth, heads, mlp_ratio, num_classes):
        super().__init__()
        tokens = (image_size // patch_size) ** 2
        self.patch_embed = nn.Conv2d(3, dim, kernel_size=patch_size, stride=patch_size)
        self.pos_embed = nn.Parameter(torch.randn(1, tokens, dim) * 0.02)
        self.blocks = nn.ModuleList([EncoderBlock(dim, heads, mlp_ratio) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, num_classes)

    def forward(self, img):
        x = self.patch_embed(img).flatten(2).transpose(1, 2)
        x = x + self.pos_embed
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(dim=1))


batch_size = 32
image_size = 192
patch_size = 16
dim = 320
depth = 4
heads = 5
mlp_ratio = 4
num_classes = 200


def get_inputs():
    return [torch.randn(batch_size, 3, image_size, image_size)]


def get_init_inputs():
    return [image_size, patch_size, dim, depth, heads, mlp_ratio, num_classes]
