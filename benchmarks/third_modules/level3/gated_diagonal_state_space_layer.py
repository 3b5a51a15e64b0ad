import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """
    Diagonal state-space layer with input-dependent steps, run as an explicit recurrence over time:
        h_t = exp(dt_t * A) h_{t-1} + dt_t * B_t x_t,   y_t = C_t h_t + D x_t
    with a gated output projection.
    """

    def __init__(self, dim, inner, state):
        super(Model, self).__init__()
        self.inner = inner
        self.state = state
        self.in_proj = nn.Linear(dim, 2 * inner, bias=False)
        self.bc_proj = nn.Linear(inner, 2 * state, bias=False)
        self.dt_proj = nn.Linear(inner, inner)
        self.A_log = nn.Parameter(torch.log(torch.arange(1, state + 1).float()).repeat(inner, 1))
        self.D = nn.Parameter(torch.ones(inner))
        self.out_proj = nn.Linear(inner, dim, bias=False)

    def forward(self, u):
        b, t, _ = u.shape
        x, z = self.in_proj(u).chunk(2, dim=-1)
        x = F.silu(x)
        B, C = self.bc_proj(x).split(self.state, dim=-1)
        dt = F.softplus(self.dt_proj(x))
        A = -torch.exp(self.A_log)
        h = x.new_zeros(b, self.inner, self.state)
        ys = []
        for i in range(t):
            decay = torch.exp(dt[:, i, :, None] * A)
            h = decay * h + (dt[:, i] * x[:, i]).unsqueeze(-1) * B[:, i, None, :]
            ys.append((h * C[:, i, None, :]).sum(dim=-1))
        y = torch.stack(ys, dim=1) + self.D * x
        return self.out_proj(y * F.silu(z))


batch_size = 16
seq_len = 40
dim = 512
inner = 1024
state = 16


def get_inputs():
    return [torch.randn(batch_size, seq_len, dim)]


def get_init_inputs():
    return [dim, inner, state]
