import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """
    VLAD-like pooling of a feature map: softly assigns each position to clusters, sums the
    residuals to the cluster centres, normalises twice and projects to a short descriptor.
    """

    def __init__(self, channels, clusters, descriptor_size):
        super(Model, self).__init__()
        self.reduce = nn.Conv2d(channels, channels // 2, kernel_size=1)
        dim = channels // 2
        self.assign = nn.Conv2d(dim, clusters, kernel_size=1)
        self.centroids = nn.Parameter(torch.rand(clusters, dim))
        self.project = nn.Linear(clusters * dim, descriptor_size)

    def forward(self, x):
        n = x.size(0)
        x = F.normalize(self.reduce(x), p=2, dim=1)
        a = F.softmax(self.assign(x).flatten(2), dim=1)          # n, k, hw
        features = x.flatten(2)                                   # n, d, hw
        vlad = torch.einsum("nkp,ndp->nkd", a, features)
        vlad = vlad - a.sum(dim=-1, keepdim=True) * self.centroids
        vlad = F.normalize(vlad, p=2, dim=2)
        vlad = F.normalize(vlad.reshape(n, -1), p=2, dim=1)
        return self.project(vlad * (vlad.size(1) ** 0.5))


batch_size = 96
channels = 512
clusters = 48
descriptor_size = 256
height, width = 30, 40


def get_inputs():
    return [torch.randn(batch_size, channels, height, width)]


def get_init_inputs():
    return [channels, clusters, descriptor_size]
