"""Small networks whose shape changes on the way: classifiers, autoencoders, U-nets, recurrent and embedding models."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NetworkTemplate:
    name: str
    sizes: tuple[tuple[str, tuple[int, ...]], ...]
    """Constants of the file, with what they may be; the batch comes on top."""
    arguments: str
    """Names that the constructor takes."""
    init: str
    forward: str
    inputs: tuple[tuple[str, str], ...]
    """Name and expression of each input."""
    operators: str
    norm: str = "nchw"


def _image(channels: str = "3") -> tuple[tuple[str, str], ...]:
    return (("x", f"torch.randn(batch_size, {channels}, side, side)"),)


_CLASSES = ("num_classes", (10, 20, 100))
_SIDE = ("side", (16, 24, 32, 48))
_WIDTH = ("width", (8, 16, 24, 32))

NETWORKS = (
    NetworkTemplate(
        "plain_cnn",
        (_SIDE, _WIDTH, _CLASSES),
        "side width num_classes",
        (
            "self.conv1 = nn.Conv2d(3, width, 3, padding=1)\n"
            "self.conv2 = nn.Conv2d(width, 2 * width, 3, padding=1)\n"
            "self.fc1 = nn.Linear(2 * width * (side // 4) ** 2, 64)\nself.fc2 = nn.Linear(64, num_classes)"
        ),
        (
            "x = F.max_pool2d(@act[self.conv1(x)], 2)\nx = F.max_pool2d(@act[self.conv2(x)], 2)\nx = x.flatten(1)\n"
            "return self.fc2(@act[self.fc1(x)])"
        ),
        _image(),
        "conv2d conv2d max_pool2d max_pool2d act act act linear linear",
    ),
    NetworkTemplate(
        "vgg",
        (_SIDE, _WIDTH, _CLASSES),
        "side width num_classes",
        (
            "layers, channels = [], 3\nfor out in (width, 2 * width, 4 * width):\n"
            "    layers += [nn.Conv2d(channels, out, 3, padding=1), nn.ReLU(), nn.Conv2d(out, out, 3, padding=1), nn.ReLU(), "
            "nn.MaxPool2d(2)]\n"
            "    channels = out\nself.features = nn.Sequential(*layers)\n"
            "self.classifier = nn.Linear(4 * width * (side // 8) ** 2, num_classes)"
        ),
        "return self.classifier(torch.flatten(self.features(x), 1))",
        _image(),
        "conv2d conv2d conv2d conv2d conv2d conv2d relu relu relu relu relu relu max_pool2d max_pool2d max_pool2d linear",
    ),
    NetworkTemplate(
        "lenet",
        (("side", (28, 32)), ("width", (6, 8, 16)), _CLASSES),
        "side width num_classes",
        (
            "self.conv1 = nn.Conv2d(1, width, 5, padding=2)\nself.conv2 = nn.Conv2d(width, 2 * width, 5)\n"
            "self.pool = nn.AvgPool2d(2)\nself.fc1 = nn.Linear(2 * width * ((side // 2 - 4) // 2) ** 2, 120)\n"
            "self.fc2 = nn.Linear(120, num_classes)"
        ),
        (
            "x = self.pool(@act[self.conv1(x)])\nx = self.pool(@act[self.conv2(x)])\n"
            "x = @act[self.fc1(x.reshape(x.size(0), -1))]\nreturn self.fc2(x)"
        ),
        _image("1"),
        "conv2d conv2d avg_pool2d avg_pool2d act act act linear linear",
    ),
    NetworkTemplate(
        "small_resnet",
        (_SIDE, _WIDTH, _CLASSES),
        "width num_classes",
        (
            "self.stem = nn.Conv2d(3, width, 3, padding=1, bias=False)\nself.norm0 = @norm[width]\n"
            "self.conv1 = nn.Conv2d(width, width, 3, padding=1, bias=False)\nself.norm1 = @norm[width]\n"
            "self.down = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1, bias=False)\n"
            "self.norm2 = @norm[2 * width]\nself.skip = nn.Conv2d(width, 2 * width, 1, stride=2)\n"
            "self.head = nn.Linear(2 * width * 16, num_classes)"
        ),
        (
            "x = @act[self.norm0(self.stem(x))]\nx = @act[x + self.norm1(self.conv1(x))]\n"
            "x = @act[self.skip(x) + self.norm2(self.down(x))]\nx = F.adaptive_max_pool2d(x, 4).flatten(1)\n"
            "return self.head(x)"
        ),
        _image(),
        "conv2d conv2d conv2d_strided conv2d_strided norm norm norm act act act add add adaptive_max_pool2d linear",
    ),
    NetworkTemplate(
        "unet",
        (_SIDE, _WIDTH),
        "width",
        (
            "self.enc1 = nn.Conv2d(3, width, 3, padding=1)\nself.enc2 = nn.Conv2d(width, 2 * width, 3, padding=1)\n"
            "self.bottom = nn.Conv2d(2 * width, 2 * width, 3, padding=1)\n"
            "self.up1 = nn.ConvTranspose2d(2 * width, 2 * width, 2, stride=2)\n"
            "self.dec1 = nn.Conv2d(4 * width, width, 3, padding=1)\n"
            "self.up2 = nn.ConvTranspose2d(width, width, 2, stride=2)\n"
            "self.dec2 = nn.Conv2d(2 * width, 3, 3, padding=1)"
        ),
        (
            "e1 = @act[self.enc1(x)]\ne2 = @act[self.enc2(F.max_pool2d(e1, 2))]\n"
            "b = @act[self.bottom(F.max_pool2d(e2, 2))]\n"
            "d1 = @act[self.dec1(torch.cat([self.up1(b), e2], dim=1))]\n"
            "return self.dec2(torch.cat([self.up2(d1), e1], dim=1))"
        ),
        _image(),
        (
            "conv2d conv2d conv2d conv2d conv2d conv_transpose2d conv_transpose2d max_pool2d max_pool2d concatenate concatenate "
            "act act act act"
        ),
    ),
    NetworkTemplate(
        "conv_autoencoder",
        (_SIDE, _WIDTH),
        "width",
        (
            "self.encoder = nn.Sequential(\n    nn.Conv2d(3, width, 4, stride=2, padding=1),\n    nn.ReLU(),\n"
            "    nn.Conv2d(width, 2 * width, 4, stride=2, padding=1),\n    nn.ReLU(),\n)\n"
            "self.decoder = nn.Sequential(\n    nn.ConvTranspose2d(2 * width, width, 4, stride=2, padding=1),\n"
            "    nn.ReLU(),\n    nn.ConvTranspose2d(width, 3, 4, stride=2, padding=1),\n)"
        ),
        "return torch.tanh(self.decoder(self.encoder(x)))",
        _image(),
        "conv2d_strided conv2d_strided conv_transpose2d conv_transpose2d relu relu relu tanh",
    ),
    NetworkTemplate(
        "feature_pyramid",
        (_SIDE, _WIDTH),
        "width",
        (
            "self.c1 = nn.Conv2d(3, width, 3, stride=2, padding=1)\n"
            "self.c2 = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)\n"
            "self.lateral1 = nn.Conv2d(width, width, 1)\nself.lateral2 = nn.Conv2d(2 * width, width, 1)\n"
            "self.smooth = nn.Conv2d(width, width, 3, padding=1)"
        ),
        (
            "c1 = @act[self.c1(x)]\nc2 = @act[self.c2(c1)]\np2 = self.lateral2(c2)\n"
            "p1 = self.lateral1(c1) + F.interpolate(p2, scale_factor=2, mode='nearest')\nreturn self.smooth(p1)"
        ),
        _image(),
        "conv2d_strided conv2d_strided conv2d_pointwise conv2d_pointwise upsample_nearest add conv2d act act",
    ),
    NetworkTemplate(
        "vision_transformer",
        (("side", (16, 32)), ("patch", (4, 8)), ("dim", (64, 96, 128)), ("num_heads", (2, 4)), _CLASSES),
        "side patch dim num_heads num_classes",
        (
            "self.embed = nn.Conv2d(3, dim, patch, stride=patch)\n"
            "self.position = nn.Parameter(torch.randn(1, (side // patch) ** 2, dim) * 0.02)\n"
            "self.num_heads = num_heads\nself.norm1 = @norm[dim]\nself.qkv = nn.Linear(dim, 3 * dim)\n"
            "self.proj = nn.Linear(dim, dim)\nself.norm2 = @norm[dim]\n"
            "self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))\n"
            "self.head = nn.Linear(dim, num_classes)"
        ),
        (
            "x = self.embed(x).flatten(2).transpose(1, 2) + self.position\nb, n, c = x.shape\n"
            "q, k, v = self.qkv(self.norm1(x)).reshape(b, n, 3, self.num_heads, c // self.num_heads).permute(2, 0, 3, 1, 4)\n"
            "x = x + self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, c))\n"
            "x = x + self.mlp(self.norm2(x))\nreturn self.head(x.mean(dim=1))"
        ),
        _image(),
        "conv2d_strided embedding_positions norm norm self_attention linear linear linear gelu add add mean linear",
        norm="sequence",
    ),
    NetworkTemplate(
        "mlp",
        (("in_features", (64, 128, 200, 512)), ("hidden", (128, 256, 400)), _CLASSES),
        "in_features hidden num_classes",
        (
            "self.fc1 = nn.Linear(in_features, hidden)\nself.fc2 = nn.Linear(hidden, hidden)\n"
            "self.fc3 = nn.Linear(hidden, num_classes)"
        ),
        "x = @act[self.fc1(x)]\nx = @act[self.fc2(x)]\nreturn self.fc3(x)",
        (("x", "torch.randn(batch_size, in_features)"),),
        "linear linear linear act act",
        norm="rows",
    ),
    NetworkTemplate(
        "deep_mlp",
        (("in_features", (64, 128, 256)), ("hidden", (128, 192, 256)), ("depth", (3, 4, 6))),
        "in_features hidden depth",
        (
            "layers, width = [], in_features\nfor _ in range(depth):\n"
            "    layers += [nn.Linear(width, hidden), nn.ReLU()]\n    width = hidden\n"
            "self.net = nn.Sequential(*layers, nn.Linear(hidden, 1))"
        ),
        "return self.net(x).squeeze(-1)",
        (("x", "torch.randn(batch_size, in_features)"),),
        "linear linear linear linear relu relu relu",
        norm="rows",
    ),
    NetworkTemplate(
        "rnn_classifier",
        (("seq_len", (12, 16, 24)), ("input_size", (32, 64)), ("hidden_size", (48, 64, 96)), _CLASSES),
        "input_size hidden_size num_classes",
        (
            "self.rnn = nn.LSTM(input_size, hidden_size, batch_first=True)\nself.norm = @norm[hidden_size]\n"
            "self.fc = nn.Linear(hidden_size, num_classes)"
        ),
        "out, _ = self.rnn(x)\nreturn self.fc(self.norm(out[:, -1]))",
        (("x", "torch.randn(batch_size, seq_len, input_size)"),),
        "lstm norm linear",
        norm="sequence",
    ),
    NetworkTemplate(
        "token_gru",
        (("vocab_size", (500, 2000, 5000)), ("seq_len", (12, 16, 24)), ("embed_dim", (32, 64)), ("hidden_size", (48, 64, 96))),
        "vocab_size embed_dim hidden_size",
        (
            "self.embedding = nn.Embedding(vocab_size, embed_dim)\n"
            "self.gru = nn.GRU(embed_dim, hidden_size, batch_first=True)\nself.head = nn.Linear(hidden_size, 16)"
        ),
        "h, _ = self.gru(self.embedding(tokens))\nreturn self.head(@act[h])",
        (("tokens", "torch.randint(0, vocab_size, (batch_size, seq_len))"),),
        "embedding gru linear act",
        norm="sequence",
    ),
    NetworkTemplate(
        "temporal_conv",
        (("length", (64, 128, 256)), ("channels", (16, 32, 48)), ("kernel_size", (3, 5))),
        "channels kernel_size",
        (
            "self.convs = nn.ModuleList([nn.Conv1d(channels, channels, kernel_size, padding=(kernel_size - 1) * 2 ** i, dilation=2 "
            "** i) for i in range(3)])"
        ),
        "for conv in self.convs:\n    h = conv(x)[..., : x.size(-1)]\n    x = x + @act[h]\nreturn x",
        (("x", "torch.randn(batch_size, channels, length)"),),
        "conv1d_causal conv1d_causal conv1d_causal act act act add add add",
        norm="ncl",
    ),
    NetworkTemplate(
        "wavenet",
        (("length", (64, 128, 256)), ("channels", (16, 32, 48)), ("depth", (2, 3, 4))),
        "channels depth",
        (
            "self.filters = nn.ModuleList([nn.Conv1d(channels, channels, 2, dilation=2 ** i) for i in range(depth)])\n"
            "self.gates = nn.ModuleList([nn.Conv1d(channels, channels, 2, dilation=2 ** i) for i in range(depth)])\n"
            "self.mix = nn.Conv1d(channels, channels, 1)"
        ),
        (
            "for i, (conv, gate) in enumerate(zip(self.filters, self.gates)):\n    padded = F.pad(x, (2 ** i, 0))\n"
            "    x = x + torch.tanh(conv(padded)) * torch.sigmoid(gate(padded))\nreturn self.mix(@act[x])"
        ),
        (("x", "torch.randn(batch_size, channels, length)"),),
        "conv1d_causal conv1d_causal tanh sigmoid multiply add conv1d_pointwise act",
        norm="ncl",
    ),
    NetworkTemplate(
        "recommender",
        (("num_users", (2000, 5000)), ("num_items", (1000, 4000)), ("dim", (16, 32, 64)), ("hidden", (32, 64, 128))),
        "num_users num_items dim hidden",
        (
            "self.users = nn.Embedding(num_users, dim)\nself.items = nn.Embedding(num_items, dim)\n"
            "self.fc1 = nn.Linear(2 * dim, hidden)\nself.fc2 = nn.Linear(hidden, 1)"
        ),
        (
            "u, v = self.users(user), self.items(item)\nh = @act[self.fc1(torch.cat([u, v], dim=-1))]\n"
            "return self.fc2(h).squeeze(-1) + (u * v).sum(dim=-1)"
        ),
        (("user", "torch.randint(0, num_users, (batch_size,))"), ("item", "torch.randint(0, num_items, (batch_size,))")),
        "embedding embedding concatenate linear linear act batched_inner add",
        norm="rows",
    ),
    NetworkTemplate(
        "siamese",
        (("in_features", (64, 128, 256)), ("hidden", (64, 128, 256))),
        "in_features hidden",
        "self.encoder = nn.Sequential(nn.Linear(in_features, hidden), nn.ReLU(), nn.Linear(hidden, hidden))",
        (
            "a = F.normalize(self.encoder(left), dim=-1)\nb = F.normalize(self.encoder(right), dim=-1)\n"
            "return (a * b).sum(dim=-1)"
        ),
        (("left", "torch.randn(batch_size, in_features)"), ("right", "torch.randn(batch_size, in_features)")),
        "linear linear relu l2_normalize l2_normalize batched_inner",
        norm="rows",
    ),
    NetworkTemplate(
        "graph_convolution",
        (("nodes", (64, 100, 128)), ("in_features", (16, 32, 64)), ("hidden", (32, 64)), ("out_features", (16, 32))),
        "in_features hidden out_features",
        ("self.fc1 = nn.Linear(in_features, hidden, bias=False)\nself.fc2 = nn.Linear(hidden, out_features, bias=False)"),
        (
            "degree = adjacency.sum(dim=-1, keepdim=True).clamp(min=1)\n"
            "h = @act[torch.bmm(adjacency, self.fc1(features)) / degree]\n"
            "return torch.bmm(adjacency, self.fc2(h)) / degree"
        ),
        (
            ("features", "torch.randn(batch_size, nodes, in_features)"),
            ("adjacency", "(torch.rand(batch_size, nodes, nodes) < 0.2).float()"),
        ),
        "linear linear bmm bmm sum divide act",
        norm="sequence",
    ),
    NetworkTemplate(
        "point_net",
        (("points", (64, 128, 256)), ("width", (32, 64)), _CLASSES),
        "width num_classes",
        (
            "self.conv1 = nn.Conv1d(3, width, 1)\nself.conv2 = nn.Conv1d(width, 2 * width, 1)\n"
            "self.fc = nn.Linear(2 * width, num_classes)"
        ),
        "x = @act[self.conv1(x)]\nx = @act[self.conv2(x)]\nreturn self.fc(x.amax(dim=-1))",
        (("x", "torch.randn(batch_size, 3, points)"),),
        "conv1d_pointwise conv1d_pointwise act act amax linear",
        norm="ncl",
    ),
    NetworkTemplate(
        "seq_attention",
        (("query_len", (16, 32)), ("memory_len", (32, 64)), ("dim", (48, 64, 96)), ("num_heads", (2, 4))),
        "dim num_heads",
        (
            "self.attn = nn.MultiheadAttention(dim, num_heads, batch_first=True)\nself.norm = @norm[dim]\n"
            "self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.ReLU(), nn.Linear(4 * dim, dim))"
        ),
        ("h, _ = self.attn(query, memory, memory, need_weights=False)\nx = self.norm(query + h)\nreturn x + self.ff(x)"),
        (("query", "torch.randn(batch_size, query_len, dim)"), ("memory", "torch.randn(batch_size, memory_len, dim)")),
        "cross_attention norm linear relu linear add add",
        norm="sequence",
    ),
)
