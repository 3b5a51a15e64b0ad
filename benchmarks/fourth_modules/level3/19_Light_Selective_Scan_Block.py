import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    """
    Mamba-like block in its quadratic (attention-like) form with one scalar decay per head:
    input projection, causal depthwise convolution, scan with data-dependent decay, gate, output projection.
    """
    def __init__(self, d_model, d_inner, d_state, n_heads, d_conv):
        super(Model, self).__init__()
        self.d_inner = d_inner
        self.d_state = d_state
        self.n_heads = n_heads
        self.norm = nn.LayerNorm(d_model)
        self.in_proj = nn.Linear(d_model, 2 * d_inner, bias=False)
        self.conv = nn.Conv1d(d_inner, d_inner, d_conv, groups=d_inner, padding=d_conv - 1)
        self.bc_dt = nn.Linear(d_inner, 2 * d_state + n_heads)
        self.A_log = nn.Parameter(torch.log(torch.linspace(1.0, 8.0, n_heads)))
        self.D = nn.Parameter(torch.ones(n_heads))
        self.out_proj = nn.Linear(d_inner, d_model, bias=False)

    def scan(self, u, dt, B, C):
        # u: (b, l, h, p)  dt: (b, l, h)  B, C: (b, l, n)
        L = u.shape[1]
        a = -torch.exp(self.A_log) * dt
        cs = torch.cumsum(a, dim=1).transpose(1, 2)                   # b, h, l
        diff = cs.unsqueeze(-1) - cs.unsqueeze(-2)                    # b, h, l, l
        mask = torch.ones(L, L, dtype=torch.bool, device=u.device).tril()
        decay = torch.exp(diff.masked_fill(~mask, float("-inf")))
        scores = torch.bmm(C, B.transpose(1, 2)).unsqueeze(1) * decay
        y = torch.matmul(scores, (u * dt.unsqueeze(-1)).transpose(1, 2))
        return y.transpose(1, 2) + u * self.D[:, None]

    def forward(self, x):
        b, l, _ = x.shape
        u, z = self.in_proj(self.norm(x)).chunk(2, dim=-1)
        u = F.silu(self.conv(u.transpose(1, 2))[..., :l].transpose(1, 2))
        B, C, dt = torch.split(self.bc_dt(u), [self.d_state, self.d_state, self.n_heads], dim=-1)
        dt = F.softplus(dt)
        y = self.scan(u.reshape(b, l, self.n_heads, -1), dt, B, C).reshape(b, l, self.d_inner)
        return x + self.out_proj(y * F.silu(z))

batch_size = 8
seq_len = 512
d_model = 384
d_inner = 768
d_state = 16
n_heads = 12
d_conv = 4

def get_inputs():
    return [torch.randn(batch_size, seq_len, d_model)]

def get_init_inputs():
    return [d_model, d_inner, d_state, n_heads, d_conv]
