import torch
import torch.nn as nn

class Model(nn.Module):
    """
    GEMM -> BatchNorm1d -> tanh -> add a second input -> maximum over the features
    """
    def __init__(self, in_features, out_features, bn_eps=1e-5, bn_momentum=0.1):
        super(Model, self).__init__()
        self.gemm = nn.Linear(in_features, out_features)
        self.bn = nn.BatchNorm1d(out_features, eps=bn_eps, momentum=bn_momentum)

    def forward(self, x, y):
        x = self.gemm(x)
        x = self.bn(x)
        x = torch.tanh(x)
        x = x + y
        x, _ = torch.max(x, dim=1)
        return x

batch_size = 2048
in_features = 3072
out_features = 4096

def get_inputs():
    return [torch.rand(batch_size, in_features), torch.rand(batch_size, out_features)]

def get_init_inputs():
    return [in_features, out_features]
