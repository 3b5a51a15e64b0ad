import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """
    Patch embedding with class token and positions, one attention layer, head on every token.
    """

    def __init__(self, image_size, patch_size, dim, heads, num_classes):
        super().__init__()
        n_patches = (image_size // patch_size) ** 2
        self.patch_embed = nn.Conv2d(3, dim, kernel_size=patch_size, stride=patch_size)
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.randn(1, n_patches + 1, dim) * 0.5)
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, dim * 3)
        nn.init.normal_(self.qkv.weight, std=1.5 * dim**-0.5)
        self.out = nn.Linear(dim, dim)
        self.head = nn.Linear(dim, num_classes)
        self.heads = heads

    def forward(self, img):
        x = self.patch_embed(img * 2.0).flatten(2).transpose(1, 2)
        b, n, d = x.shape
        x = torch.cat([self.cls_token.expand(b, -1, -1), x], dim=1) + self.pos_embed
        qkv = self.qkv(self.norm(x)).reshape(b, n + 1, 3, self.heads, d // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        a = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(a.transpose(1, 2).reshape(b, n + 1, d))
        return self.head(x)


image_size = 192
patch_size = 12
dim = 480
heads = 8
num_classes = 64


def get_inputs():
    return [torch.randn(20, 3, image_size, image_size)]


def get_init_inputs():
    return [image_size, patch_size, dim, heads, num_classes]
