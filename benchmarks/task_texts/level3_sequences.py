"""Networks over rows, tokens, signals and points, as of level 3."""

from __future__ import annotations

from task_texts.network import Network

MLP = Network(
    "perceptron",
    {
        "deep_narrow": "batch=4096/8 width=1024 layers=14 classes=1000",
        "shallow_wide": "batch=1536/8 width=12288 layers=2 classes=2048",
    },
    "batch, width",
    """
    blocks = []
    for _ in range(layers):
        blocks += [nn.Linear(width, width), nn.ReLU()]
    self.body = nn.Sequential(*blocks)
    self.head = nn.Linear(width, classes)
    """,
    "self.head(self.body(x))",
    "width, layers, classes",
)
GATED = Network(
    "gated_feed_forward",
    {"silu": "tokens=16384/8 width=2048 hidden=5632", "": "tokens=8192/8 width=4096 hidden=11008"},
    "tokens, width",
    """
    self.gate = nn.Linear(width, hidden, bias=False)
    self.up = nn.Linear(width, hidden, bias=False)
    self.down = nn.Linear(hidden, width, bias=False)
    """,
    "self.down(F.silu(self.gate(x)) * self.up(x))",
    "width, hidden",
)
RECURRENT = [
    Network(
        f"recurrent_{kind}",
        {"": f"batch={batch}/8 length={length}/8 inside=256 hidden={hidden} layers=2"},
        "batch, length, inside",
        f"self.rnn = nn.{made}(inside, hidden, num_layers=layers, batch_first=True{more})\nself.head = nn.Linear({'2 * ' if more else ''}hidden, 64)",
        "out, _ = self.rnn(x)\nreturn self.head(out)",
        "inside, hidden, layers",
    )
    for kind, made, more, batch, length, hidden in (
        ("plain", "RNN", "", 256, 128, 512),
        ("gru", "GRU", "", 128, 192, 384),
        ("gru_both_ways", "GRU", ", bidirectional=True", 96, 160, 256),
        ("lstm", "LSTM", "", 64, 256, 512),
        ("lstm_both_ways", "LSTM", ", bidirectional=True", 96, 128, 320),
    )
]
CELL = Network(
    "gates_by_hand",
    {"": "batch=512/8 length=48/8 width=384"},
    "length, batch, width",
    """
    self.gates = nn.Linear(2 * width, 2 * width)
    self.new = nn.Linear(2 * width, width)
    """,
    """
    state = torch.zeros_like(x[0])
    for step in x:
        reset, update = torch.sigmoid(self.gates(torch.cat([step, state], dim=1))).chunk(2, dim=1)
        fresh = torch.tanh(self.new(torch.cat([step, reset * state], dim=1)))
        state = update * state + (1 - update) * fresh
    return state
    """,
    "width",
)
_HEADS = """
def heads_of(x, heads):
    b, t, c = x.shape
    return x.view(b, t, heads, c // heads).transpose(1, 2)


def joined(x):
    return x.transpose(1, 2).flatten(2)
"""
ATTENTION = Network(
    "causal_attention",
    {"": "batch=16/1 length=1024/16 width=1024 heads=16", "long": "batch=4/1 length=2048/16 width=768 heads=12"},
    "batch, length, width",
    """
    self.heads = heads
    self.qkv = nn.Linear(width, 3 * width)
    self.out = nn.Linear(width, width)
    """,
    """
    q, k, v = (heads_of(part, self.heads) for part in self.qkv(x).chunk(3, dim=-1))
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
    weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
    return self.out(joined(weights @ v))
    """,
    "width, heads",
    _HEADS,
)
RECTIFIED_ATTENTION = Network(
    "attention_by_squared_relu",
    {"": "batch=16/1 length=1024/16 width=768 heads=12"},
    "batch, length, width",
    "self.heads = heads\nself.qkv = nn.Linear(width, 3 * width)",
    """
    q, k, v = (heads_of(part, self.heads) for part in self.qkv(x).chunk(3, dim=-1))
    weights = torch.relu(q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5).square()
    return joined(weights / (weights.sum(dim=-1, keepdim=True) + 1e-4) @ v)
    """,
    "width, heads",
    _HEADS,
)
GROUPED_ATTENTION = Network(
    "grouped_query_attention_with_rotation",
    {"": "batch=8/1 length=1024/16 width=2048 heads=16 shared=4"},
    "batch, length, width",
    """
    self.heads, self.shared = heads, shared
    self.q = nn.Linear(width, width, bias=False)
    self.kv = nn.Linear(width, 2 * shared * (width // heads), bias=False)
    self.out = nn.Linear(width, width, bias=False)
    """,
    """
    q = rotated(heads_of(self.q(x), self.heads))
    k, v = (heads_of(part, self.shared) for part in self.kv(x).chunk(2, dim=-1))
    k, v = (part.repeat_interleave(self.heads // self.shared, dim=1) for part in (rotated(k), v))
    return self.out(joined(F.scaled_dot_product_attention(q, k, v, is_causal=True)))
    """,
    "width, heads, shared",
    _HEADS
    + """

def rotated(x):
    half = x.shape[-1] // 2
    rates = 10000.0 ** (-torch.arange(half, device=x.device) / half)
    angles = torch.arange(x.shape[-2], device=x.device)[:, None] * rates
    one, two = x[..., :half], x[..., half:]
    return torch.cat([one * angles.cos() - two * angles.sin(), one * angles.sin() + two * angles.cos()], dim=-1)
""",
)
_BLOCK = """
class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (p.view(b, t, self.heads, -1).transpose(1, 2) for p in self.qkv(self.norm1(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.norm2(x))
"""
TRANSFORMER = Network(
    "transformer_block",
    {"": "batch=32/1 length=512/16 width=768 heads=12", "wide": "batch=8/1 length=512/16 width=2048 heads=16"},
    "batch, length, width",
    "self.block = Block(width, heads)",
    "self.block(x)",
    "width, heads",
    _BLOCK,
)
LANGUAGE = Network(
    "small_language_model",
    {"": "batch=8/1 length=384/16 words=32000 width=512 layers=4"},
    "",
    """
    self.embed = nn.Embedding(words, width)
    self.blocks = nn.Sequential(*[Block(width, 8) for _ in range(layers)])
    self.norm = nn.LayerNorm(width)
    self.head = nn.Linear(width, words, bias=False)
    """,
    "self.head(self.norm(self.blocks(self.embed(tokens))))",
    "words, width, layers",
    _BLOCK,
    ("torch.randint(0, words, (batch, length))",),
    "tokens",
)
VIT = Network(
    "image_transformer",
    {
        "small": "batch=64/1 side=224/16 width=384 layers=6 classes=1000",
        "tiny": "batch=192/1 side=192/16 width=192 layers=8 classes=1000",
    },
    "batch, 3, side, side",
    """
    self.patches = nn.Conv2d(3, width, 16, stride=16)
    self.token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
    self.blocks = nn.Sequential(*[Block(width, width // 64) for _ in range(layers)])
    self.head = nn.Linear(width, classes)
    """,
    """
    x = self.patches(x).flatten(2).transpose(1, 2)
    x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1)
    return self.head(self.blocks(x)[:, 0])
    """,
    "width, layers, classes",
    _BLOCK,
)
WINDOWS = Network(
    "attention_in_windows",
    {"": "batch=32/1 side=56/7 width=96 heads=3", "shifted": "batch=64/1 side=28/7 width=192 heads=6"},
    "batch, side, side, width",
    """
    self.heads, self.window = heads, 7
    self.norm = nn.LayerNorm(width)
    self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
    self.bias = nn.Parameter(torch.randn(heads, 49, 49) * 0.02)
    """,
    """
    b, h, w, c = x.shape
    y = torch.roll(self.norm(x), (-3, -3), (1, 2))
    y = y.view(b, h // 7, 7, w // 7, 7, c).transpose(2, 3).reshape(-1, 49, c)
    q, k, v = (part.view(-1, 49, self.heads, c // self.heads).transpose(1, 2) for part in self.qkv(y).chunk(3, dim=-1))
    weights = (q @ k.transpose(-2, -1) * (c // self.heads) ** -0.5 + self.bias).softmax(dim=-1)
    y = self.out((weights @ v).transpose(1, 2).reshape(-1, 49, c))
    y = y.view(b, h // 7, w // 7, 7, 7, c).transpose(2, 3).reshape(b, h, w, c)
    return x + torch.roll(y, (3, 3), (1, 2))
    """,
    "width, heads",
)
MIXER = Network(
    "mixer_of_patches",
    {"": "batch=128/1 patches=196 width=512"},
    "batch, patches, width",
    """
    self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
    self.over_patches = nn.Sequential(nn.Linear(patches, 256), nn.GELU(), nn.Linear(256, patches))
    self.over_width = nn.Sequential(nn.Linear(width, 2048), nn.GELU(), nn.Linear(2048, width))
    """,
    """
    x = x + self.over_patches(self.norm1(x).transpose(1, 2)).transpose(1, 2)
    return x + self.over_width(self.norm2(x))
    """,
    "patches, width",
)
LINEAR_ATTENTION = Network(
    "linear_attention",
    {"": "batch=16/1 length=4096/64 width=512 heads=8"},
    "batch, length, width",
    "self.heads = heads\nself.qkv = nn.Linear(width, 3 * width, bias=False)",
    """
    q, k, v = (heads_of(part, self.heads) for part in self.qkv(x).chunk(3, dim=-1))
    q, k = F.elu(q) + 1, F.elu(k) + 1
    state = k.transpose(-2, -1) @ v
    weight = q @ k.sum(dim=2).unsqueeze(-1)
    return joined(q @ state / (weight + 1e-6))
    """,
    "width, heads",
    _HEADS,
)
CROSS = Network(
    "cross_attention_of_latents",
    {"": "batch=16/1 length=6144/64 width=512 latents=256"},
    "batch, length, width",
    """
    self.latents = nn.Parameter(torch.randn(latents, width) * 0.02)
    self.q, self.kv, self.out = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(width, width)
    """,
    """
    k, v = (heads_of(part, 8) for part in self.kv(x).chunk(2, dim=-1))
    q = heads_of(self.q(self.latents).expand(x.shape[0], -1, -1), 8)
    return self.out(joined(F.scaled_dot_product_attention(q, k, v)))
    """,
    "width, latents",
    _HEADS,
)
EXPERTS = Network(
    "mixture_of_experts",
    {"": "tokens=8192/64 width=1024 experts=8"},
    "tokens, width",
    """
    self.router = nn.Linear(width, experts)
    self.up = nn.Parameter(torch.randn(experts, width, 2 * width) * width ** -0.5)
    self.down = nn.Parameter(torch.randn(experts, 2 * width, width) * width ** -0.5)
    """,
    """
    weights = torch.softmax(self.router(x), dim=-1)
    y = torch.einsum("tw,ewh->eth", x, self.up)
    y = torch.einsum("eth,ehw->etw", F.silu(y), self.down)
    return torch.einsum("te,etw->tw", weights, y)
    """,
    "width, experts",
)
DILATED = Network(
    "stack_of_dilated_signals",
    {"": "batch=16/1 length=16384/64 channels=96 layers=8"},
    "batch, channels, length",
    """
    self.both = nn.ModuleList(nn.Conv1d(channels, 2 * channels, 3, dilation=2 ** n, padding=2 ** n) for n in range(layers))
    self.out = nn.ModuleList(nn.Conv1d(channels, channels, 1) for _ in range(layers))
    """,
    """
    total = torch.zeros_like(x)
    for both, out in zip(self.both, self.out):
        filtered, gate = both(x).chunk(2, dim=1)
        y = out(torch.tanh(filtered) * torch.sigmoid(gate))
        x, total = x + y, total + y
    return torch.relu(total)
    """,
    "channels, layers",
)
SCAN = Network(
    "chunked_state_space",
    {"": "batch=16/1 chunks=32/4 width=512 state=64"},
    "batch, chunks * 32, width",
    """
    self.state = state
    self.decay = nn.Parameter(torch.rand(state) * 0.1 + 0.9)
    self.into, self.out = nn.Linear(width, state), nn.Linear(state, width)
    """,
    """
    b, t, c = x.shape
    y = self.into(x).view(b, t // 32, 32, self.state)
    steps = torch.arange(32, device=x.device)
    powers = torch.tril(steps[:, None] - steps).unsqueeze(-1)
    weights = self.decay ** powers * torch.ones(32, 32, device=x.device).tril().unsqueeze(-1)
    within = torch.einsum("ijs,bnjs->bnis", weights, y)
    carried = torch.cumsum(within[:, :, -1], dim=1) - within[:, :, -1]
    y = within + carried.unsqueeze(2) * self.decay ** (steps + 1).unsqueeze(-1)
    return self.out(y.reshape(b, t, -1))
    """,
    "width, state",
)
POINTS = Network(
    "shared_network_over_points",
    {"": "batch=64/1 points=8192/64 classes=40"},
    "batch, 3, points",
    """
    self.lift = nn.Sequential(
        nn.Conv1d(3, 64, 1), nn.BatchNorm1d(64), nn.ReLU(), nn.Conv1d(64, 128, 1), nn.BatchNorm1d(128), nn.ReLU(),
        nn.Conv1d(128, 512, 1),
    )
    self.head = nn.Sequential(nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, classes))
    """,
    "self.head(self.lift(x).amax(dim=2))",
    "classes",
)
CLUSTERS = Network(
    "soft_clusters_of_features",
    {"": "batch=96/1 points=1024/64 width=512 clusters=48"},
    "batch, points, width",
    """
    self.assign = nn.Linear(width, clusters)
    self.centres = nn.Parameter(torch.randn(clusters, width))
    """,
    """
    weights = torch.softmax(self.assign(x), dim=-1)
    summed = weights.transpose(1, 2) @ x - weights.sum(dim=1).unsqueeze(-1) * self.centres
    return F.normalize(F.normalize(summed, dim=2).flatten(1), dim=1)
    """,
    "width, clusters",
)

NETWORKS = [
    MLP, GATED, *RECURRENT, CELL, ATTENTION, RECTIFIED_ATTENTION, GROUPED_ATTENTION, TRANSFORMER, LANGUAGE, VIT, WINDOWS, MIXER,
    LINEAR_ATTENTION, CROSS, EXPERTS, DILATED, SCAN, POINTS, CLUSTERS,
]  # fmt: skip
