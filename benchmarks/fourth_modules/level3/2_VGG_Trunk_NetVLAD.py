import torch
import torch.nn as nn
import torch.nn.functional as F


class VLADPool(nn.Module):
    """Soft-assigns local descriptors to clusters and sums their residuals."""

    def __init__(self, dim, clusters):
        super().__init__()
        self.assign = nn.Conv2d(dim, clusters, kernel_size=1)
        self.centers = nn.Parameter(torch.randn(clusters, dim) * 0.1)

    def forward(self, x):
        n, c = x.shape[:2]
        x = F.normalize(x, dim=1)
        a = F.softmax(self.assign(x).flatten(2), dim=1)           # n, k, hw
        desc = x.flatten(2)                                       # n, c, hw
        vlad = torch.bmm(a, desc.transpose(1, 2))                 # n, k, c
        vlad = vlad - a.sum(dim=2, keepdim=True) * self.centers
        vlad = F.normalize(vlad, dim=2)
        return F.normalize(vlad.reshape(n, -1), dim=1)


def block(cin, cout, n):
    mods = []
    for i in range(n):
        mods += [nn.Conv2d(cin if i == 0 else cout, cout, 3, padding=1), nn.ReLU(inplace=True)]
    mods.append(nn.MaxPool2d(2, 2))
    return mods


class Model(nn.Module):
    def __init__(self, clusters, out_dim):
        super().__init__()
        self.trunk = nn.Sequential(*block(3, 32, 1), *block(32, 64, 2), *block(64, 128, 2), *block(128, 256, 2))
        self.vlad = VLADPool(256, clusters)
        self.whiten = nn.Linear(256 * clusters, out_dim)

    def forward(self, images):
        return F.normalize(self.whiten(self.vlad(self.trunk(images))), dim=1)


batch_size = 16
clusters = 32
out_dim = 512


def get_inputs():
    return [torch.rand(batch_size, 3, 224, 224)]


def get_init_inputs():
    return [clusters, out_dim]
