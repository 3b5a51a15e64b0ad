import torch
import torch.nn as nn

class Model(nn.Module):
    """Conv1d, batch normalization, ReLU6, average pooling"""
    def __init__(self, in_ch, out_ch, k, stride, pool):
        super(Model, self).__init__()
        self.conv = nn.Conv1d(in_ch, out_ch, k, stride=stride, padding=k // 2, bias=False)
        self.bn = nn.BatchNorm1d(out_ch)
        self.act = nn.ReLU6()
        self.pool = nn.AvgPool1d(pool)

    def forward(self, x):
        return self.pool(self.act(self.bn(self.conv(x))))

batch_size = 64
in_ch = 16
out_ch = 128
k = 9
stride = 2
pool = 4
length = 16384

def get_inputs():
    return [torch.randn(batch_size, in_ch, length)]

def get_init_inputs():
    return [in_ch, out_ch, k, stride, pool]
