import torch
import torch.nn as nn
import torch.nn.functional as F


def to_windows(x, ws):
    b, h, w, c = x.shape
    x = x.view(b, h // ws, ws, w // ws, ws, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, ws * ws, c)


def from_windows(x, ws, h, w):
    b = x.shape[0] // ((h // ws) * (w // ws))
    x = x.view(b, h // ws, w // ws, ws, ws, -1)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, -1)


class WindowAttention(nn.Module):
    def __init__(self, dim, heads, ws):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.bias_table = nn.Parameter(torch.randn((2 * ws - 1) ** 2, heads) * 0.02)
        coords = torch.stack(torch.meshgrid(torch.arange(ws), torch.arange(ws), indexing="ij")).flatten(1)
        rel = coords[:, :, None] - coords[:, None, :] + (ws - 1)
        self.register_buffer("index", rel[0] * (2 * ws - 1) + rel[1])

    def forward(self, x, mask):
        bw, n, c = x.shape
        qkv = self.qkv(x).view(bw, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0] * self.scale, qkv[1], qkv[2]
        attn = q @ k.transpose(-2, -1)
        bias = self.bias_table[self.index.view(-1)].view(n, n, self.heads).permute(2, 0, 1)
        attn = attn + bias.unsqueeze(0)
        if mask is not None:
            nw = mask.shape[0]
            attn = attn.view(bw // nw, nw, self.heads, n, n) + mask[None, :, None]
            attn = attn.view(bw, self.heads, n, n)
        attn = attn.softmax(dim=-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(bw, n, c))


class Model(nn.Module):
    """Window attention with a cyclic shift, relative position bias and an MLP."""

    def __init__(self, dim, resolution, heads, ws, shift):
        super().__init__()
        self.resolution, self.ws, self.shift = resolution, ws, shift
        self.norm1 = nn.LayerNorm(dim)
        self.attn = WindowAttention(dim, heads, ws)
        self.norm2 = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, 4 * dim)
        self.fc2 = nn.Linear(4 * dim, dim)
        h, w = resolution
        region = torch.zeros(1, h, w, 1)
        label = 0
        for hs in (slice(0, -ws), slice(-ws, -shift), slice(-shift, None)):
            for vs in (slice(0, -ws), slice(-ws, -shift), slice(-shift, None)):
                region[:, hs, vs, :] = label
                label += 1
        windows = to_windows(region, ws).squeeze(-1)
        different = windows[:, None, :] != windows[:, :, None]
        self.register_buffer("mask", different.float() * -100.0)

    def forward(self, x):
        b, length, c = x.shape
        h, w = self.resolution
        y = self.norm1(x).view(b, h, w, c)
        y = torch.roll(y, shifts=(-self.shift, -self.shift), dims=(1, 2))
        y = self.attn(to_windows(y, self.ws), self.mask)
        y = from_windows(y, self.ws, h, w)
        y = torch.roll(y, shifts=(self.shift, self.shift), dims=(1, 2))
        x = x + y.reshape(b, length, c)
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


batch_size = 16
dim = 128
resolution = (48, 40)
heads = 4
window = 8
shift = 4


def get_inputs():
    return [torch.randn(batch_size, resolution[0] * resolution[1], dim)]


def get_init_inputs():
    return [dim, resolution, heads, window, shift]
