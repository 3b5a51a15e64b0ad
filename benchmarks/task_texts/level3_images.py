"""Networks of convolutions, as of level 3."""

from __future__ import annotations

from task_texts.network import Network

_IMAGE = "batch, 3, side, side"

_RESIDUAL = """
class Residual(nn.Module):
    def __init__(self, inside, outside, stride=1):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inside, outside, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(outside),
            nn.ReLU(),
            nn.Conv2d(outside, outside, 3, padding=1, bias=False),
            nn.BatchNorm2d(outside),
        )
        self.short = nn.Identity()
        if stride > 1 or inside != outside:
            self.short = nn.Sequential(nn.Conv2d(inside, outside, 1, stride=stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x):
        return torch.relu(self.body(x) + self.short(x))
"""
RESIDUAL_BLOCK = Network(
    "residual_block",
    {"": "batch=48/1 side=112/8 inside=64 outside=128", "deep": "batch=96/1 side=28/4 inside=256 outside=512"},
    "batch, inside, side, side",
    "self.block = Residual(inside, outside, stride=2)",
    "self.block(x)",
    "inside, outside",
    _RESIDUAL,
)
RESIDUAL_NET = Network(
    "small_residual_network",
    {"": "batch=64/2 side=192/32 classes=500"},
    _IMAGE,
    """
    self.stem = nn.Sequential(nn.Conv2d(3, 48, 5, stride=2, padding=2), nn.ReLU(), nn.MaxPool2d(2))
    self.stages = nn.Sequential(
        Residual(48, 48), Residual(48, 96, 2), Residual(96, 96), Residual(96, 192, 2), Residual(192, 384, 2)
    )
    self.head = nn.Linear(384, classes)
    """,
    "self.head(self.stages(self.stem(x)).mean(dim=(2, 3)))",
    "classes",
    _RESIDUAL,
)
BOTTLENECK = Network(
    "bottleneck",
    {"": "batch=64/1 side=56/8 channels=256 middle=64", "grouped": "batch=48/1 side=56/8 channels=512 middle=256"},
    "batch, channels, side, side",
    """
    groups = 32 if middle >= 256 else 1
    self.reduce = nn.Conv2d(channels, middle, 1, bias=False)
    self.bn1 = nn.BatchNorm2d(middle)
    self.conv = nn.Conv2d(middle, middle, 3, padding=1, groups=groups, bias=False)
    self.bn2 = nn.BatchNorm2d(middle)
    self.expand = nn.Conv2d(middle, channels, 1, bias=False)
    self.bn3 = nn.BatchNorm2d(channels)
    """,
    """
    y = torch.relu(self.bn1(self.reduce(x)))
    y = torch.relu(self.bn2(self.conv(y)))
    return torch.relu(self.bn3(self.expand(y)) + x)
    """,
    "channels, middle",
)
VGG = Network(
    "plain_convolution_network",
    {"eleven": "batch=48/1 side=160/32 classes=365 twice=0", "sixteen": "batch=32/1 side=192/32 classes=365 twice=1"},
    _IMAGE,
    """
    layers, inside = [], 3
    for outside in (48, 96, 192, 384, 384):
        for _ in range(1 + twice):
            layers += [nn.Conv2d(inside, outside, 3, padding=1), nn.ReLU(inplace=True)]
            inside = outside
        layers.append(nn.MaxPool2d(2))
    self.features = nn.Sequential(*layers)
    self.head = nn.Sequential(nn.Linear(384, 2048), nn.ReLU(), nn.Linear(2048, classes))
    """,
    "self.head(F.adaptive_avg_pool2d(self.features(x), 1).flatten(1))",
    "classes, twice",
)
INCEPTION = Network(
    "branches_of_several_windows",
    {"": "batch=32/1 side=96/8 channels=192", "late": "batch=96/1 side=24/8 channels=640"},
    "batch, channels, side, side",
    """
    third = channels // 4
    self.one = nn.Conv2d(channels, third, 1)
    self.three = nn.Sequential(nn.Conv2d(channels, third, 1), nn.ReLU(), nn.Conv2d(third, third + 32, 3, padding=1))
    self.five = nn.Sequential(nn.Conv2d(channels, 32, 1), nn.ReLU(), nn.Conv2d(32, 64, 5, padding=2))
    self.pool = nn.Sequential(nn.MaxPool2d(3, stride=1, padding=1), nn.Conv2d(channels, 48, 1))
    """,
    "torch.relu(torch.cat([self.one(x), self.three(x), self.five(x), self.pool(x)], dim=1))",
    "channels",
)
INVERTED = Network(
    "inverted_residual",
    {"": "batch=48/1 side=112/8 channels=24 expansion=6", "late": "batch=128/1 side=14/2 channels=112 expansion=4"},
    "batch, channels, side, side",
    """
    wide = channels * expansion
    self.body = nn.Sequential(
        nn.Conv2d(channels, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6(),
        nn.Conv2d(wide, wide, 3, padding=1, groups=wide, bias=False), nn.BatchNorm2d(wide), nn.ReLU6(),
        nn.Conv2d(wide, channels, 1, bias=False), nn.BatchNorm2d(channels),
    )
    """,
    "x + self.body(x)",
    "channels, expansion",
)
SEPARABLE_NET = Network(
    "separable_network",
    {"": "batch=96/1 side=192/32 classes=1000"},
    _IMAGE,
    """
    self.stem = nn.Conv2d(3, 32, 3, stride=2, padding=1)
    widths = (32, 64, 128, 128, 256, 256, 512)
    self.blocks = nn.ModuleList()
    for place, (inside, outside) in enumerate(zip(widths, widths[1:])):
        depth = nn.Conv2d(inside, inside, 3, stride=1 + place % 2, padding=1, groups=inside)
        self.blocks.append(nn.Sequential(depth, nn.BatchNorm2d(inside), nn.ReLU(), nn.Conv2d(inside, outside, 1), nn.ReLU()))
    self.head = nn.Linear(512, classes)
    """,
    """
    x = torch.relu(self.stem(x))
    for block in self.blocks:
        x = block(x)
    return self.head(x.mean((2, 3)))
    """,
    "classes",
)
SQUEEZE = Network(
    "squeeze_and_excite",
    {"": "batch=64/1 side=96/8 channels=128 reduction=8"},
    "batch, channels, side, side",
    """
    self.conv = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
    self.down = nn.Linear(channels, channels // reduction)
    self.up = nn.Linear(channels // reduction, channels)
    """,
    """
    y = F.silu(self.conv(x))
    weight = torch.sigmoid(self.up(F.silu(self.down(y.mean((2, 3))))))
    return x + y * weight[:, :, None, None]
    """,
    "channels, reduction",
)
DENSE = Network(
    "densely_connected_block",
    {"": "batch=24/1 side=64/8 channels=64 growth=32 layers=6"},
    "batch, channels, side, side",
    """
    self.layers = nn.ModuleList(
        nn.Sequential(nn.BatchNorm2d(channels + n * growth), nn.ReLU(), nn.Conv2d(channels + n * growth, growth, 3, padding=1))
        for n in range(layers)
    )
    """,
    """
    found = [x]
    for layer in self.layers:
        found.append(layer(torch.cat(found, dim=1)))
    return torch.cat(found, dim=1)
    """,
    "channels, growth, layers",
)
SHUFFLE = Network(
    "shuffled_groups",
    {"": "batch=64/1 side=56/8 channels=240 groups=3"},
    "batch, channels, side, side",
    """
    self.groups = groups
    self.first = nn.Conv2d(channels, channels // 4, 1, groups=groups)
    self.depth = nn.Conv2d(channels // 4, channels // 4, 3, padding=1, groups=channels // 4)
    self.last = nn.Conv2d(channels // 4, channels, 1, groups=groups)
    """,
    """
    y = torch.relu(self.first(x))
    b, c, h, w = y.shape
    y = y.view(b, self.groups, c // self.groups, h, w).transpose(1, 2).reshape(b, c, h, w)
    return torch.relu(x + self.last(self.depth(y)))
    """,
    "channels, groups",
)
CONVNEXT = Network(
    "wide_depthwise_block",
    {"": "batch=64/1 side=56/8 width=128"},
    "batch, width, side, side",
    """
    self.depth = nn.Conv2d(width, width, 7, padding=3, groups=width)
    self.norm = nn.LayerNorm(width, eps=1e-6)
    self.up = nn.Linear(width, 4 * width)
    self.down = nn.Linear(4 * width, width)
    self.scale = nn.Parameter(torch.full((width,), 0.3))
    """,
    """
    y = self.norm(self.depth(x).permute(0, 2, 3, 1))
    y = self.down(F.gelu(self.up(y))) * self.scale
    return x + y.permute(0, 3, 1, 2)
    """,
    "width",
)
_DOUBLE = """
def double(inside, outside):
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU(inplace=True),
        nn.Conv2d(outside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU(inplace=True),
    )
"""
UNET = Network(
    "encoder_and_decoder_with_skips",
    {"": "batch=8/1 side=320/16 base=40", "half": "batch=24/1 side=160/16 base=48"},
    _IMAGE,
    """
    self.down1, self.down2, self.middle = double(3, base), double(base, 2 * base), double(2 * base, 4 * base)
    self.grow2, self.up2 = nn.ConvTranspose2d(4 * base, 2 * base, 2, stride=2), double(4 * base, 2 * base)
    self.grow1, self.up1 = nn.ConvTranspose2d(2 * base, base, 2, stride=2), double(2 * base, base)
    self.head = nn.Conv2d(base, 4, 1)
    """,
    """
    one = self.down1(x)
    two = self.down2(F.max_pool2d(one, 2))
    y = self.middle(F.max_pool2d(two, 2))
    y = self.up2(torch.cat([self.grow2(y), two], dim=1))
    y = self.up1(torch.cat([self.grow1(y), one], dim=1))
    return self.head(y)
    """,
    "base",
    _DOUBLE,
)
PYRAMID = Network(
    "feature_pyramid",
    {"": "batch=16/1 side=128/16 channels=192"},
    "",
    """
    self.lateral = nn.ModuleList(nn.Conv2d(channels * 2 ** n, channels, 1) for n in range(3))
    self.smooth = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in range(3))
    """,
    """
    top = self.lateral[2](c)
    middle = self.lateral[1](b) + F.interpolate(top, scale_factor=2.0, mode="nearest")
    bottom = self.lateral[0](a) + F.interpolate(middle, scale_factor=2.0, mode="nearest")
    return self.smooth[0](bottom), self.smooth[1](middle), self.smooth[2](top)
    """,
    "channels",
    inputs=(
        "batch, channels, side, side",
        "batch, channels * 2, side // 2, side // 2",
        "batch, channels * 4, side // 4, side // 4",
    ),
    takes="a, b, c",
)
AUTOENCODER = Network(
    "convolutional_autoencoder",
    {"": "batch=64/1 side=128/16 base=48"},
    _IMAGE,
    """
    self.encode = nn.Sequential(
        nn.Conv2d(3, base, 4, stride=2, padding=1), nn.SiLU(), nn.Conv2d(base, 2 * base, 4, stride=2, padding=1), nn.SiLU()
    )
    self.middle = nn.Sequential(nn.GroupNorm(8, 2 * base), nn.Conv2d(2 * base, 2 * base, 3, padding=1), nn.SiLU())
    self.decode = nn.Sequential(
        nn.ConvTranspose2d(2 * base, base, 4, stride=2, padding=1), nn.SiLU(), nn.ConvTranspose2d(base, 3, 4, stride=2, padding=1)
    )
    """,
    "torch.sigmoid(self.decode(self.middle(self.encode(x))))",
    "base",
)
DIGITS = Network(
    "digits_network",
    {"": "batch=8192/8 classes=10"},
    "batch, 1, 32, 32",
    """
    self.conv1, self.conv2 = nn.Conv2d(1, 8, 5), nn.Conv2d(8, 20, 5)
    self.fc1, self.fc2 = nn.Linear(500, 128), nn.Linear(128, classes)
    """,
    """
    x = F.max_pool2d(torch.tanh(self.conv1(x)), 2)
    x = F.max_pool2d(torch.tanh(self.conv2(x)), 2)
    return self.fc2(torch.tanh(self.fc1(x.flatten(1))))
    """,
    "classes",
)
NETWORKS = [
    RESIDUAL_BLOCK, RESIDUAL_NET, BOTTLENECK, VGG, INCEPTION, INVERTED, SEPARABLE_NET, SQUEEZE, DENSE, SHUFFLE, CONVNEXT, UNET, PYRAMID,
    AUTOENCODER, DIGITS,
]  # fmt: skip
