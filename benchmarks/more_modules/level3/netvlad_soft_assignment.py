import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    """
    NetVLAD-like pooling: descriptors are softly assigned to clusters, and their residuals to the
    cluster centres are summed, normalised per cluster, then over the whole vector, with a final gain.
    """
    def __init__(self, num_clusters, dim, gain):
        super().__init__()
        self.assign = nn.Linear(dim, num_clusters)
        self.centroids = nn.Parameter(torch.randn(num_clusters, dim) * 0.02)
        self.gain = nn.Parameter(torch.tensor(gain))

    def forward(self, x):
        """
        x: (batch, positions, dim) -> (batch, num_clusters * dim)
        """
        x = F.normalize(x, dim=2)
        a = F.softmax(self.assign(x), dim=2)                       # b n k
        summed = torch.bmm(a.transpose(1, 2), x)                    # b k d
        mass = a.sum(dim=1).unsqueeze(-1)                           # b k 1
        vlad = summed - mass * self.centroids
        vlad = F.normalize(vlad, dim=2)
        vlad = vlad.reshape(x.size(0), -1)
        return F.normalize(vlad, dim=1) * self.gain

batch_size = 64
positions = 900
dim = 512
num_clusters = 64

def get_inputs():
    scene = torch.randn(batch_size, 1, dim)
    return [torch.randn(batch_size, positions, dim) + 2 * scene]

def get_init_inputs():
    return [num_clusters, dim, 64.0]
