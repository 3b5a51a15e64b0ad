"""Small networks whose shape changes on the way: classifiers, autoencoders, U-nets, recurrent and embedding models.

Their sizes are constants of the file; the batch comes on top. The layout is that of the norms.
"""

from __future__ import annotations

from bottega.tasks.synth.catalogue.template import templates

NETWORKS = templates("""
# plain_cnn nchw side=16,24,32,48 width=8,16,24,32 num_classes=10,20,100: conv2d*2 max_pool2d*2 act*3 linear*2
x = torch.randn(batch_size, 3, side, side)
--
self.conv1 = nn.Conv2d(3, width, 3, padding=1)
self.conv2 = nn.Conv2d(width, 2 * width, 3, padding=1)
self.fc1 = nn.Linear(2 * width * (side // 4) ** 2, 64)
self.fc2 = nn.Linear(64, num_classes)
--
x = F.max_pool2d(@act[self.conv1(x)], 2)
x = F.max_pool2d(@act[self.conv2(x)], 2)
x = x.flatten(1)
return self.fc2(@act[self.fc1(x)])

# vgg nchw side=16,24,32,48 width=8,16,24,32 num_classes=10,20,100: conv2d*6 relu*6 max_pool2d*3 linear
x = torch.randn(batch_size, 3, side, side)
--
layers, channels = [], 3
for out in (width, 2 * width, 4 * width):
    layers += [nn.Conv2d(channels, out, 3, padding=1), nn.ReLU(), nn.Conv2d(out, out, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    channels = out
self.features = nn.Sequential(*layers)
self.classifier = nn.Linear(4 * width * (side // 8) ** 2, num_classes)
--
return self.classifier(torch.flatten(self.features(x), 1))

# lenet nchw side=28,32 width=6,8,16 num_classes=10,20,100: conv2d*2 avg_pool2d*2 act*3 linear*2
x = torch.randn(batch_size, 1, side, side)
--
self.conv1 = nn.Conv2d(1, width, 5, padding=2)
self.conv2 = nn.Conv2d(width, 2 * width, 5)
self.pool = nn.AvgPool2d(2)
self.fc1 = nn.Linear(2 * width * ((side // 2 - 4) // 2) ** 2, 120)
self.fc2 = nn.Linear(120, num_classes)
--
x = self.pool(@act[self.conv1(x)])
x = self.pool(@act[self.conv2(x)])
x = @act[self.fc1(x.reshape(x.size(0), -1))]
return self.fc2(x)

# small_resnet nchw side=16,24,32,48 width=8,16,24,32 num_classes=10,20,100: conv2d*2 conv2d_strided*2 norm*3 act*3 add*2 adaptive_max_pool2d linear
x = torch.randn(batch_size, 3, side, side)
--
self.stem = nn.Conv2d(3, width, 3, padding=1, bias=False)
self.norm0 = @norm[width]
self.conv1 = nn.Conv2d(width, width, 3, padding=1, bias=False)
self.norm1 = @norm[width]
self.down = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1, bias=False)
self.norm2 = @norm[2 * width]
self.skip = nn.Conv2d(width, 2 * width, 1, stride=2)
self.head = nn.Linear(2 * width * 16, num_classes)
--
x = @act[self.norm0(self.stem(x))]
x = @act[x + self.norm1(self.conv1(x))]
x = @act[self.skip(x) + self.norm2(self.down(x))]
x = F.adaptive_max_pool2d(x, 4).flatten(1)
return self.head(x)

# unet nchw side=16,24,32,48 width=8,16,24,32: conv2d*5 conv_transpose2d*2 max_pool2d*2 concatenate*2 act*4
x = torch.randn(batch_size, 3, side, side)
--
self.enc1 = nn.Conv2d(3, width, 3, padding=1)
self.enc2 = nn.Conv2d(width, 2 * width, 3, padding=1)
self.bottom = nn.Conv2d(2 * width, 2 * width, 3, padding=1)
self.up1 = nn.ConvTranspose2d(2 * width, 2 * width, 2, stride=2)
self.dec1 = nn.Conv2d(4 * width, width, 3, padding=1)
self.up2 = nn.ConvTranspose2d(width, width, 2, stride=2)
self.dec2 = nn.Conv2d(2 * width, 3, 3, padding=1)
--
e1 = @act[self.enc1(x)]
e2 = @act[self.enc2(F.max_pool2d(e1, 2))]
b = @act[self.bottom(F.max_pool2d(e2, 2))]
d1 = @act[self.dec1(torch.cat([self.up1(b), e2], dim=1))]
return self.dec2(torch.cat([self.up2(d1), e1], dim=1))

# conv_autoencoder nchw side=16,24,32,48 width=8,16,24,32: conv2d_strided*2 conv_transpose2d*2 relu*3 tanh
x = torch.randn(batch_size, 3, side, side)
--
self.encoder = nn.Sequential(
    nn.Conv2d(3, width, 4, stride=2, padding=1),
    nn.ReLU(),
    nn.Conv2d(width, 2 * width, 4, stride=2, padding=1),
    nn.ReLU(),
)
self.decoder = nn.Sequential(
    nn.ConvTranspose2d(2 * width, width, 4, stride=2, padding=1),
    nn.ReLU(),
    nn.ConvTranspose2d(width, 3, 4, stride=2, padding=1),
)
--
return torch.tanh(self.decoder(self.encoder(x)))

# feature_pyramid nchw side=16,24,32,48 width=8,16,24,32: conv2d_strided*2 conv2d_pointwise*2 upsample_nearest add conv2d act*2
x = torch.randn(batch_size, 3, side, side)
--
self.c1 = nn.Conv2d(3, width, 3, stride=2, padding=1)
self.c2 = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
self.lateral1 = nn.Conv2d(width, width, 1)
self.lateral2 = nn.Conv2d(2 * width, width, 1)
self.smooth = nn.Conv2d(width, width, 3, padding=1)
--
c1 = @act[self.c1(x)]
c2 = @act[self.c2(c1)]
p2 = self.lateral2(c2)
p1 = self.lateral1(c1) + F.interpolate(p2, scale_factor=2, mode='nearest')
return self.smooth(p1)

# vision_transformer sequence side=16,32 patch=4,8 dim=64,96,128 num_heads=2,4 num_classes=10,100:
conv2d_strided embedding_positions norm*2 self_attention linear*4 gelu add*2 mean
x = torch.randn(batch_size, 3, side, side)
--
self.embed = nn.Conv2d(3, dim, patch, stride=patch)
self.position = nn.Parameter(torch.randn(1, (side // patch) ** 2, dim) * 0.02)
self.num_heads = num_heads
self.norm1 = @norm[dim]
self.qkv = nn.Linear(dim, 3 * dim)
self.proj = nn.Linear(dim, dim)
self.norm2 = @norm[dim]
self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
self.head = nn.Linear(dim, num_classes)
--
x = self.embed(x).flatten(2).transpose(1, 2) + self.position
b, n, c = x.shape
q, k, v = self.qkv(self.norm1(x)).reshape(b, n, 3, self.num_heads, c // self.num_heads).permute(2, 0, 3, 1, 4)
x = x + self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, c))
x = x + self.mlp(self.norm2(x))
return self.head(x.mean(dim=1))

# mlp rows in_features=64,128,200,512 hidden=128,256,400 num_classes=10,20,100: linear*3 act*2
x = torch.randn(batch_size, in_features)
--
self.fc1 = nn.Linear(in_features, hidden)
self.fc2 = nn.Linear(hidden, hidden)
self.fc3 = nn.Linear(hidden, num_classes)
--
x = @act[self.fc1(x)]
x = @act[self.fc2(x)]
return self.fc3(x)

# deep_mlp rows in_features=64,128,256 hidden=128,192,256 depth=3,4,6: linear*4 relu*3
x = torch.randn(batch_size, in_features)
--
layers, width = [], in_features
for _ in range(depth):
    layers += [nn.Linear(width, hidden), nn.ReLU()]
    width = hidden
self.net = nn.Sequential(*layers, nn.Linear(hidden, 1))
--
return self.net(x).squeeze(-1)

# rnn_classifier sequence seq_len=12,16,24 input_size=32,64 hidden_size=48,64,96 num_classes=10,20,100: lstm norm linear
x = torch.randn(batch_size, seq_len, input_size)
--
self.rnn = nn.LSTM(input_size, hidden_size, batch_first=True)
self.norm = @norm[hidden_size]
self.fc = nn.Linear(hidden_size, num_classes)
--
out, _ = self.rnn(x)
return self.fc(self.norm(out[:, -1]))

# token_gru sequence vocab_size=500,2000,5000 seq_len=12,16,24 embed_dim=32,64 hidden_size=48,64,96: embedding gru linear act
tokens = torch.randint(0, vocab_size, (batch_size, seq_len))
--
self.embedding = nn.Embedding(vocab_size, embed_dim)
self.gru = nn.GRU(embed_dim, hidden_size, batch_first=True)
self.head = nn.Linear(hidden_size, 16)
--
h, _ = self.gru(self.embedding(tokens))
return self.head(@act[h])

# temporal_conv ncl length=64,128,256 channels=16,32,48 kernel_size=3,5: conv1d_causal*3 act*3 add*3
x = torch.randn(batch_size, channels, length)
--
self.convs = nn.ModuleList([nn.Conv1d(channels, channels, kernel_size, padding=(kernel_size - 1) * 2 ** i, dilation=2 ** i) for i in range(3)])
--
for conv in self.convs:
    h = conv(x)[..., : x.size(-1)]
    x = x + @act[h]
return x

# wavenet ncl length=64,128,256 channels=16,32,48 depth=2,3,4: conv1d_causal*2 tanh sigmoid multiply add conv1d_pointwise act
x = torch.randn(batch_size, channels, length)
--
self.filters = nn.ModuleList([nn.Conv1d(channels, channels, 2, dilation=2 ** i) for i in range(depth)])
self.gates = nn.ModuleList([nn.Conv1d(channels, channels, 2, dilation=2 ** i) for i in range(depth)])
self.mix = nn.Conv1d(channels, channels, 1)
--
for i, (conv, gate) in enumerate(zip(self.filters, self.gates)):
    padded = F.pad(x, (2 ** i, 0))
    x = x + torch.tanh(conv(padded)) * torch.sigmoid(gate(padded))
return self.mix(@act[x])

# recommender rows num_users=2000,5000 num_items=1000,4000 dim=16,32,64 hidden=32,64,128: embedding*2 concatenate linear*2 act batched_inner add
user = torch.randint(0, num_users, (batch_size,))
item = torch.randint(0, num_items, (batch_size,))
--
self.users = nn.Embedding(num_users, dim)
self.items = nn.Embedding(num_items, dim)
self.fc1 = nn.Linear(2 * dim, hidden)
self.fc2 = nn.Linear(hidden, 1)
--
u, v = self.users(user), self.items(item)
h = @act[self.fc1(torch.cat([u, v], dim=-1))]
return self.fc2(h).squeeze(-1) + (u * v).sum(dim=-1)

# siamese rows in_features=64,128,256 hidden=64,128,256: linear*2 relu l2_normalize*2 batched_inner
left = torch.randn(batch_size, in_features)
right = torch.randn(batch_size, in_features)
--
self.encoder = nn.Sequential(nn.Linear(in_features, hidden), nn.ReLU(), nn.Linear(hidden, hidden))
--
a = F.normalize(self.encoder(left), dim=-1)
b = F.normalize(self.encoder(right), dim=-1)
return (a * b).sum(dim=-1)

# graph_convolution sequence nodes=64,100,128 in_features=16,32,64 hidden=32,64 out_features=16,32: linear*2 bmm*2 sum divide act
features = torch.randn(batch_size, nodes, in_features)
adjacency = (torch.rand(batch_size, nodes, nodes) < 0.2).float()
--
self.fc1 = nn.Linear(in_features, hidden, bias=False)
self.fc2 = nn.Linear(hidden, out_features, bias=False)
--
degree = adjacency.sum(dim=-1, keepdim=True).clamp(min=1)
h = @act[torch.bmm(adjacency, self.fc1(features)) / degree]
return torch.bmm(adjacency, self.fc2(h)) / degree

# point_net ncl points=64,128,256 width=32,64 num_classes=10,20,100: conv1d_pointwise*2 act*2 amax linear
x = torch.randn(batch_size, 3, points)
--
self.conv1 = nn.Conv1d(3, width, 1)
self.conv2 = nn.Conv1d(width, 2 * width, 1)
self.fc = nn.Linear(2 * width, num_classes)
--
x = @act[self.conv1(x)]
x = @act[self.conv2(x)]
return self.fc(x.amax(dim=-1))

# seq_attention sequence query_len=16,32 memory_len=32,64 dim=48,64,96 num_heads=2,4: cross_attention norm linear*2 relu add*2
query = torch.randn(batch_size, query_len, dim)
memory = torch.randn(batch_size, memory_len, dim)
--
self.attn = nn.MultiheadAttention(dim, num_heads, batch_first=True)
self.norm = @norm[dim]
self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.ReLU(), nn.Linear(4 * dim, dim))
--
h, _ = self.attn(query, memory, memory, need_weights=False)
x = self.norm(query + h)
return x + self.ff(x)
""")
