import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """
    Small selective state space layer: projections, a sequential scan over time, gated output.
    """

    def __init__(self, d_model, d_inner, d_state):
        super().__init__()
        self.in_proj = nn.Linear(d_model, 2 * d_inner, bias=False)
        self.dt_proj = nn.Linear(d_inner, d_inner)
        self.bc_proj = nn.Linear(d_inner, 2 * d_state, bias=False)
        self.A_log = nn.Parameter(torch.log(torch.arange(1, d_state + 1).float()).repeat(d_inner, 1))
        self.D = nn.Parameter(torch.randn(d_inner))
        self.out_proj = nn.Linear(d_inner, d_model, bias=False)
        self.d_state = d_state

    def forward(self, x):
        u, z = self.in_proj(x).chunk(2, dim=-1)
        u = F.silu(u)
        dt = F.softplus(self.dt_proj(u))
        Bm, Cm = self.bc_proj(u).split(self.d_state, dim=-1)
        A = -torch.exp(self.A_log)
        h = torch.zeros(x.shape[0], u.shape[-1], self.d_state, device=x.device, dtype=x.dtype)
        ys = []
        for t in range(x.shape[1]):
            decay = torch.exp(dt[:, t].unsqueeze(-1) * A)
            h = decay * h + (dt[:, t] * u[:, t]).unsqueeze(-1) * Bm[:, t].unsqueeze(1)
            ys.append((h * Cm[:, t].unsqueeze(1)).sum(-1))
        y = torch.stack(ys, dim=1) + u * self.D
        return self.out_proj(y * F.silu(z))


d_model = 512
d_inner = 1024
d_state = 16


def get_inputs():
    return [torch.randn(64, 24, d_model) * 3]


def get_init_inputs():
    return [d_model, d_inner, d_state]
