"""Blocks that keep their shape, so that they stand alone or one behind the other in a network.

`channels`, `dim` or `features` is what every block takes first, a multiple of `multiple` or else of 8.
"""

from __future__ import annotations

from bottega.tasks.synth.catalogue.template import templates

BLOCKS = templates("""
# residual_conv nchw: conv2d*2 norm*2 act*2 add
self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
self.norm1 = @norm[channels]
self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
self.norm2 = @norm[channels]
--
out = @act[self.norm1(self.conv1(x))]
out = self.norm2(self.conv2(out))
return @act[out + x]

# preact_residual nchw: conv2d*2 norm*2 act*2 add
self.norm1 = @norm[channels]
self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
self.norm2 = @norm[channels]
self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
--
h = self.conv1(@act[self.norm1(x)])
h = self.conv2(@act[self.norm2(h)])
return x + h

# bottleneck nchw multiple=32 reduction=2,4: conv2d_pointwise*2 conv2d norm*3 act*3 add
mid = channels // reduction
self.reduce = nn.Conv2d(channels, mid, 1, bias=False)
self.norm1 = @norm[mid]
self.conv = nn.Conv2d(mid, mid, 3, padding=1, bias=False)
self.norm2 = @norm[mid]
self.expand = nn.Conv2d(mid, channels, 1, bias=False)
self.norm3 = @norm[channels]
--
identity = x
out = @act[self.norm1(self.reduce(x))]
out = @act[self.norm2(self.conv(out))]
out = self.norm3(self.expand(out))
return @act[out + identity]

# inverted_residual nchw expansion=2,3,4: conv2d_pointwise*2 conv2d_depthwise norm*3 act*2 add
hidden = channels * expansion
self.expand = nn.Conv2d(channels, hidden, 1, bias=False)
self.norm1 = @norm[hidden]
self.depthwise = nn.Conv2d(hidden, hidden, 3, padding=1, groups=hidden, bias=False)
self.norm2 = @norm[hidden]
self.project = nn.Conv2d(hidden, channels, 1, bias=False)
self.norm3 = @norm[channels]
--
h = @act[self.norm1(self.expand(x))]
h = @act[self.norm2(self.depthwise(h))]
return x + self.norm3(self.project(h))

# squeeze_excite nchw reduction=2,4,8: conv2d act global_avg_pool linear*2 relu sigmoid multiply
self.conv = nn.Conv2d(channels, channels, 3, padding=1)
self.fc1 = nn.Linear(channels, channels // reduction)
self.fc2 = nn.Linear(channels // reduction, channels)
--
x = @act[self.conv(x)]
s = x.mean(dim=(2, 3))
s = torch.sigmoid(self.fc2(torch.relu(self.fc1(s))))
return x * s[:, :, None, None]

# channel_attention_max nchw reduction=2,4,8: global_avg_pool global_max_pool linear*2 sigmoid multiply mean amax concatenate conv2d
self.mlp = nn.Sequential(nn.Linear(channels, channels // reduction), nn.ReLU(), nn.Linear(channels // reduction, channels))
self.conv = nn.Conv2d(2, 1, 7, padding=3)
--
b, c = x.shape[:2]
scale = torch.sigmoid(self.mlp(x.mean(dim=(2, 3))) + self.mlp(x.amax(dim=(2, 3)))).view(b, c, 1, 1)
x = x * scale
spatial = torch.cat([x.mean(dim=1, keepdim=True), x.amax(dim=1, keepdim=True)], dim=1)
return x * torch.sigmoid(self.conv(spatial))

# convnext nchw expansion=2,4: conv2d_depthwise layer_norm linear*2 act channel_scale add
self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
self.norm = nn.LayerNorm(channels)
self.fc1 = nn.Linear(channels, expansion * channels)
self.fc2 = nn.Linear(expansion * channels, channels)
self.gamma = nn.Parameter(0.5 * torch.ones(channels))
--
h = self.depthwise(x).permute(0, 2, 3, 1)
h = self.norm(h)
h = self.fc2(@act[self.fc1(h)])
h = (self.gamma * h).permute(0, 3, 1, 2)
return x + h

# dense_layer nchw growth=8,16,32: norm*2 conv2d conv2d_pointwise act*2 concatenate
self.norm1 = @norm[channels]
self.conv1 = nn.Conv2d(channels, growth, 3, padding=1, bias=False)
self.norm2 = @norm[channels + growth]
self.conv2 = nn.Conv2d(channels + growth, channels, 1, bias=False)
--
h = self.conv1(@act[self.norm1(x)])
h = torch.cat([x, h], dim=1)
return self.conv2(@act[self.norm2(h)])

# inception nchw: conv2d_pointwise conv2d*2 max_pool2d concatenate act relu*2
quarter = channels // 4
self.branch1 = nn.Conv2d(channels, quarter, 1)
self.branch3 = nn.Sequential(nn.Conv2d(channels, quarter, 1), nn.ReLU(), nn.Conv2d(quarter, quarter, 3, padding=1))
self.branch5 = nn.Sequential(nn.Conv2d(channels, quarter, 1), nn.ReLU(), nn.Conv2d(quarter, quarter, 5, padding=2))
self.pool_proj = nn.Conv2d(channels, channels - 3 * quarter, 1)
--
a = self.branch1(x)
b = self.branch3(x)
c = self.branch5(x)
d = self.pool_proj(F.max_pool2d(x, 3, stride=1, padding=1))
return @act[torch.cat([a, b, c, d], dim=1)]

# fire nchw: conv2d_pointwise*2 conv2d act*3 concatenate
self.squeeze = nn.Conv2d(channels, channels // 4, 1)
self.expand1 = nn.Conv2d(channels // 4, channels // 2, 1)
self.expand3 = nn.Conv2d(channels // 4, channels // 2, 3, padding=1)
--
s = @act[self.squeeze(x)]
return torch.cat([@act[self.expand1(s)], @act[self.expand3(s)]], dim=1)

# shuffle_unit nchw: conv2d_pointwise*2 conv2d_depthwise norm*2 act*2 concatenate channel_shuffle
half = channels // 2
self.conv1 = nn.Conv2d(half, half, 1, bias=False)
self.norm1 = @norm[half]
self.depthwise = nn.Conv2d(half, half, 3, padding=1, groups=half, bias=False)
self.norm2 = @norm[half]
self.conv2 = nn.Conv2d(half, half, 1)
--
left, right = x.chunk(2, dim=1)
right = @act[self.norm1(self.conv1(right))]
right = self.norm2(self.depthwise(right))
right = @act[self.conv2(right)]
out = torch.cat([left, right], dim=1)
b, c, h, w = out.shape
return out.view(b, 2, c // 2, h, w).transpose(1, 2).reshape(b, c, h, w)

# depthwise_separable_block nchw: conv2d_depthwise conv2d_pointwise norm*2 act*2
self.depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False)
self.norm1 = @norm[channels]
self.pointwise = nn.Conv2d(channels, channels, 1, bias=False)
self.norm2 = @norm[channels]
--
x = @act[self.norm1(self.depthwise(x))]
return @act[self.norm2(self.pointwise(x))]

# conv_gate nchw: conv2d*2 act sigmoid multiply
self.features = nn.Conv2d(channels, channels, 3, padding=1)
self.gate = nn.Conv2d(channels, channels, 3, padding=1)
--
return @act[self.features(x)] * torch.sigmoid(self.gate(x))

# dilated_context nchw: conv2d conv2d_dilated*2 conv2d_pointwise act*3 concatenate add
self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
self.conv2 = nn.Conv2d(channels, channels, 3, padding=2, dilation=2)
self.conv3 = nn.Conv2d(channels, channels, 3, padding=4, dilation=4)
self.fuse = nn.Conv2d(3 * channels, channels, 1)
--
h = torch.cat([@act[self.conv1(x)], @act[self.conv2(x)], @act[self.conv3(x)]], dim=1)
return self.fuse(h) + x

# hourglass nchw: conv2d_strided conv2d conv_transpose2d act*2 add
self.down = nn.Conv2d(channels, 2 * channels, 4, stride=2, padding=1)
self.middle = nn.Conv2d(2 * channels, 2 * channels, 3, padding=1)
self.up = nn.ConvTranspose2d(2 * channels, channels, 4, stride=2, padding=1)
--
h = @act[self.down(x)]
h = @act[self.middle(h)]
return x + self.up(h)

# transformer_encoder sequence multiple=16 num_heads=2,4,8: norm*2 self_attention linear*2 act add*2
self.num_heads = num_heads
self.norm1 = @norm[dim]
self.qkv = nn.Linear(dim, 3 * dim)
self.proj = nn.Linear(dim, dim)
self.norm2 = @norm[dim]
self.fc1 = nn.Linear(dim, 4 * dim)
self.fc2 = nn.Linear(4 * dim, dim)
--
b, n, c = x.shape
qkv = self.qkv(self.norm1(x)).reshape(b, n, 3, self.num_heads, c // self.num_heads).permute(2, 0, 3, 1, 4)
attn = F.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2])
x = x + self.proj(attn.transpose(1, 2).reshape(b, n, c))
return x + self.fc2(@act[self.fc1(self.norm2(x))])

# transformer_decoder sequence multiple=16 num_heads=2,4,8: norm*2 attention_causal linear*6 gelu add*2
self.num_heads = num_heads
self.norm1 = @norm[dim]
self.query = nn.Linear(dim, dim)
self.key = nn.Linear(dim, dim, bias=False)
self.value = nn.Linear(dim, dim)
self.out = nn.Linear(dim, dim)
self.norm2 = @norm[dim]
self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
--
b, t, c = x.shape
h = self.norm1(x)
q, k, v = (layer(h).view(b, t, self.num_heads, -1).transpose(1, 2) for layer in (self.query, self.key, self.value))
scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
mask = torch.triu(torch.ones(t, t, dtype=torch.bool, device=x.device), diagonal=1)
weights = torch.softmax(scores.masked_fill(mask, float('-inf')), dim=-1)
x = x + self.out((weights @ v).transpose(1, 2).reshape(b, t, c))
return x + self.mlp(self.norm2(x))

# gated_mlp sequence hidden=128,256,344,512: norm linear*3 act multiply add
self.norm = @norm[dim]
self.gate = nn.Linear(dim, hidden, bias=False)
self.up = nn.Linear(dim, hidden, bias=False)
self.down = nn.Linear(hidden, dim, bias=False)
--
h = self.norm(x)
return x + self.down(@act[self.gate(h)] * self.up(h))

# mlp_block sequence hidden=128,256,512: norm linear*2 act add
self.norm = @norm[dim]
self.fc1 = nn.Linear(dim, hidden)
self.fc2 = nn.Linear(hidden, dim)
--
return x + self.fc2(@act[self.fc1(self.norm(x))])

# mixer sequence token_hidden=32,64,128: norm*2 linear*4 gelu*2 transpose_copy add*2
self.norm1 = @norm[dim]
self.token_mix = nn.Sequential(nn.Linear(tokens, token_hidden), nn.GELU(), nn.Linear(token_hidden, tokens))
self.norm2 = @norm[dim]
self.channel_mix = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
--
x = x + self.token_mix(self.norm1(x).transpose(1, 2)).transpose(1, 2)
return x + self.channel_mix(self.norm2(x))

# linear_attention_block sequence multiple=16 num_heads=2,4: norm linear*2 linear_attention elu*2 add
self.num_heads = num_heads
self.qkv = nn.Linear(dim, 3 * dim, bias=False)
self.out = nn.Linear(dim, dim)
self.norm = @norm[dim]
--
b, n, c = x.shape
q, k, v = self.qkv(self.norm(x)).view(b, n, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
q, k = F.elu(q) + 1, F.elu(k) + 1
context = k.transpose(-2, -1) @ v
normaliser = q @ k.sum(dim=-2).unsqueeze(-1)
h = (q @ context) / normaliser
return x + self.out(h.transpose(1, 2).reshape(b, n, c))

# conv_module sequence kernel_size=7,15,31: norm conv1d_pointwise*2 glu conv1d_depthwise act add
self.norm = @norm[dim]
self.pointwise1 = nn.Conv1d(dim, 2 * dim, 1)
self.depthwise = nn.Conv1d(dim, dim, kernel_size, padding=kernel_size // 2, groups=dim)
self.pointwise2 = nn.Conv1d(dim, dim, 1)
--
h = self.norm(x).transpose(1, 2)
h = F.glu(self.pointwise1(h), dim=1)
h = @act[self.depthwise(h)]
return x + self.pointwise2(h).transpose(1, 2)

# gru_block sequence: norm gru linear act add
self.norm = @norm[dim]
self.gru = nn.GRU(dim, dim, batch_first=True)
self.proj = nn.Linear(dim, dim)
--
h, _ = self.gru(self.norm(x))
return x + self.proj(@act[h])

# expert_mixture sequence num_experts=2,4 hidden=64,128,256: linear softmax batched_linear*2 act weighted_sum
self.router = nn.Linear(dim, num_experts, bias=False)
self.up = nn.Parameter(torch.randn(num_experts, dim, hidden) * dim ** -0.5)
self.down = nn.Parameter(torch.randn(num_experts, hidden, dim) * hidden ** -0.5)
--
weights = torch.softmax(self.router(x), dim=-1)
h = @act[torch.einsum('bsd,edh->ebsh', x, self.up)]
y = torch.einsum('ebsh,ehd->ebsd', h, self.down)
return torch.einsum('ebsd,bse->bsd', y, weights)

# retention sequence decay=80,90,95: linear*2 norm bmm*2 sigmoid multiply
self.qkv = nn.Linear(dim, 3 * dim, bias=False)
self.gate = nn.Linear(dim, dim)
self.norm = @norm[dim]
self.decay = decay / 100
--
n = x.size(1)
q, k, v = self.qkv(x).chunk(3, dim=-1)
i = torch.arange(n, device=x.device)
lag = i[:, None] - i[None, :]
d = torch.where(lag >= 0, self.decay ** lag.clamp(min=0).to(x.dtype), torch.zeros((), device=x.device, dtype=x.dtype))
h = (q @ k.transpose(1, 2) * x.size(-1) ** -0.5 * d) @ v
return torch.sigmoid(self.gate(x)) * self.norm(h)

# residual_mlp rows hidden=128,256,512,1024: norm linear*2 act add
self.norm = @norm[features]
self.fc1 = nn.Linear(features, hidden)
self.fc2 = nn.Linear(hidden, features)
--
return x + self.fc2(@act[self.fc1(self.norm(x))])

# highway rows: linear*2 sigmoid act multiply lerp
self.transform = nn.Linear(features, features)
self.gate = nn.Linear(features, features)
--
t = torch.sigmoid(self.gate(x))
return t * @act[self.transform(x)] + (1 - t) * x

# cross_layer rows: linear multiply add norm
self.weight = nn.Linear(features, features)
self.norm = @norm[features]
--
return self.norm(x * self.weight(x) + x)

# bottleneck_adapter rows rank=16,32,64: linear*2 act add norm
self.down = nn.Linear(features, rank)
self.up = nn.Linear(rank, features)
self.norm = @norm[features]
--
return self.norm(x + self.up(@act[self.down(x)]))

# glu_layer rows: linear norm glu add
self.proj = nn.Linear(features, 2 * features)
self.norm = @norm[features]
--
value, gate = self.proj(self.norm(x)).chunk(2, dim=-1)
return x + value * torch.sigmoid(gate)
""")
