"""Operators along dimensions: reductions, norms, softmax, pooling, scans and losses. `catalogue.table` says how a row is read."""

REDUCING = """
[reduction] reductions 9 1.4
sum*2: torch.sum(x, dim={back}{keep}) | x.sum(dim={back}{keep}) | x.sum({back}{keep}) | x.sum(dim={places}{keep})
    | torch.sum(x, dim={places}{keep})
mean*2: torch.mean(x, dim={back}{keep}) | x.mean(dim={back}{keep}) | x.mean({back}{keep}) | x.mean(dim={places}{keep})
    | torch.mean(x, dim={places}{keep})
max*2: torch.max(x, dim={back}{keep})[0] | torch.max(x, dim={back}{keep}).values | x.max(dim={back}{keep})[0]
    | x.max(dim={back}{keep}).values
min*1.6: torch.min(x, dim={back}{keep})[0] | x.min(dim={back}{keep}).values | torch.min(x, dim={back}{keep}).values
amax: torch.amax(x, dim={back}{keep}) | x.amax(dim={back}{keep}) | torch.amax(x, dim={places}{keep}) | x.amax(dim={places}{keep})
amin: torch.amin(x, dim={back}{keep}) | x.amin(dim={back}{keep}) | torch.amin(x, dim={places}{keep}) | x.amin(dim={places}{keep})
spread: x.amax(dim={back}) - x.amin(dim={back}) | torch.amax(x, dim={back}) - torch.amin(x, dim={back})
std: torch.std(x, dim={back}{keep}{unbiased}) | x.std(dim={back}{keep}{unbiased}) | x.std(dim={places}{keep})
var: torch.var(x, dim={back}{keep}{unbiased}) | x.var(dim={back}{keep}{unbiased}) | x.var(dim={places}{keep})
l1_norm: torch.norm(x, p=1, dim={back}{keep}) | x.abs().sum(dim={back}{keep}) | torch.linalg.vector_norm(x, ord=1, dim={back}{keep})
l2_norm: torch.norm(x, p=2, dim={back}{keep}) | x.norm(dim={back}{keep}) | torch.linalg.vector_norm(x, dim={back}{keep})
    | torch.norm(x, dim={back}{keep})
    | torch.sqrt(torch.sum(x ** 2, dim={back}{keep}))
mean_square: torch.mean(x ** 2, dim={back}{keep}) | x.pow(2).mean(dim={back}{keep}) | x.square().mean({back}{keep})
mean_abs: torch.mean(torch.abs(x), dim={back}{keep}) | x.abs().mean(dim={back}{keep})
logsumexp*1.5: torch.logsumexp(x, dim={back}{keep}) | x.logsumexp(dim={back}{keep}) | x.logsumexp(dim={places}{keep})
prod~near_one: torch.prod(x, dim={back}{keep}) | x.prod(dim={back}{keep})
argmax@rows,sequence,maps2~normal: torch.argmax(x, dim={back}) | x.argmax(dim={back})
argmin@rows,sequence,maps2~normal: torch.argmin(x, dim={back}) | x.argmin(dim={back})
median@rows,sequence: torch.median(x, dim=-1)[0] | x.median(dim=-1).values
positive_share: (x > {slope}).float().mean(dim={back}) | torch.mean((x > {slope}).float(), dim={back})
weighted_sum: torch.sum(x * {other}, dim={back}) | (x * {other}).sum(dim={back})
masked_mean: (x * {zero_one}).sum(dim={back}) / {zero_one}.sum(dim={back}).clamp(min=1.0)
topk@rows,sequence: torch.topk(x, {2/4/5/8/16}, dim=-1)[0] | torch.topk(x, k={4/8/10}, dim=-1).values | x.topk({2/5/10/16}, dim=-1).values

[entropy] reductions 1.5 0.1
entropy: p = F.softmax(x, dim={back}) ; -(p * torch.log(p + {small})).sum(dim={back}{keep})
    | p = torch.softmax(x, dim={back}) ; -(p * F.log_softmax(x, dim={back})).sum(dim={back}{keep})
    | logp = F.log_softmax(x, dim={back}) ; -torch.sum(logp.exp() * logp, dim={back})
collision: p = F.softmax(x * 0.5, dim={back}) ; (p * p).sum(dim={back}{keep})

[norm] norms 8 0.9
batch_norm1d@rows,maps1: nn.BatchNorm1d({C}) | nn.BatchNorm1d({C}, eps={small}) | nn.BatchNorm1d({C}, momentum={0.01/0.05})
batch_norm2d*2: nn.BatchNorm2d({C}) | nn.BatchNorm2d({C}, eps={small}) | nn.BatchNorm2d({C}, momentum={0.01/0.05})
batch_norm3d: nn.BatchNorm3d({C}) | nn.BatchNorm3d({C}, eps={small}) | nn.BatchNorm3d({C}, momentum={0.01/0.05})
instance_norm1d@maps1: nn.InstanceNorm1d({C}) | nn.InstanceNorm1d({C}, affine=True) | F.instance_norm(x)
instance_norm2d@maps2: nn.InstanceNorm2d({C}) | nn.InstanceNorm2d({C}, affine=True) | F.instance_norm(x)
instance_norm3d@maps3: nn.InstanceNorm3d({C}) | nn.InstanceNorm3d({C}, affine=True) | F.instance_norm(x)
layer_norm*2.5@rows,sequence: nn.LayerNorm({F}) | nn.LayerNorm({F}, eps={small}) | F.layer_norm(x, ({F},)) | F.layer_norm(x, x.shape[-1:])
    | nn.LayerNorm({F}, elementwise_affine=False)
layer_norm_map@maps1,maps2: nn.LayerNorm([{sizes}]) | F.layer_norm(x, ({sizes},)) | F.layer_norm(x, x.shape[1:])
layer_norm_channels@maps1,maps2: {@norm}(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2) <- norm = nn.LayerNorm({C})
    | {@norm}(x.transpose(1, 2)).transpose(1, 2) <- norm = nn.LayerNorm({C})
rms_norm*1.6@rows,sequence: nn.RMSNorm({F}) | nn.RMSNorm({F}, eps={small}) | F.rms_norm(x, ({F},))
    | x / torch.sqrt(torch.mean(x ** 2, dim=-1, keepdim=True) + {small}) | x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + {small})
group_norm*2@maps1,maps2,maps3: nn.GroupNorm({divisor}, {C}) | nn.GroupNorm(num_groups={divisor}, num_channels={C})
    | F.group_norm(x, {divisor})
local_response_norm@maps1,maps2: nn.LocalResponseNorm({3/5})
    | F.local_response_norm(x, {3/5}, alpha={0.001/0.05}, beta={0.5/0.75}, k={1.0/2.0})
batch_norm_frozen: F.batch_norm(x, {@running_mean}, {@running_var}, {@weight}, {@bias}, training=False, eps={small})
    <- running_mean = buffer:torch.randn({C}) * 0.2 & running_var = buffer:torch.rand({C}) + 0.5
    & weight = nn.Parameter(torch.rand({C}) + 0.5)
    & bias = nn.Parameter(torch.randn({C}) * 0.2)

[formula_norm] norms 5 0.4
l2_normalize: F.normalize(x, dim={back}) | F.normalize(x, p=2, dim={back}) | x / torch.norm(x, p=2, dim={back}, keepdim=True)
    | x / (x.norm(dim={back}, keepdim=True) + {small}) | x / (x.pow(2).sum({back}, keepdim=True).sqrt() + {small})
l1_normalize: F.normalize(x, p=1, dim={back}) | x / torch.sum(torch.abs(x), dim={back}, keepdim=True)
    | x / (x.abs().sum(dim={back}, keepdim=True) + {small})
max_normalize: x / (x.abs().amax(dim={back}, keepdim=True) + {small}) | x / (torch.amax(torch.abs(x), dim={back}, keepdim=True) + {small})
mean_abs_normalize: x / (x.abs().mean(dim={back}, keepdim=True) + {small})
rms_along: x / torch.sqrt(torch.mean(x ** 2, dim={back}, keepdim=True) + {small})
    | x * torch.rsqrt(x.pow(2).mean({back}, keepdim=True) + {small})
    | rms = torch.sqrt(torch.mean(x ** 2, dim={back}, keepdim=True) + {small}) ; x / rms
standardize: (x - x.mean(dim={back}, keepdim=True)) / (x.std(dim={back}, keepdim=True) + {small})
    | (x - x.mean({back}, keepdim=True)) / torch.sqrt(x.var({back}, keepdim=True, unbiased=False) + {small})
mean_centre: x - x.mean(dim={back}, keepdim=True) | x - torch.mean(x, dim={back}, keepdim=True)
max_centre: x - torch.amax(x, dim={back}, keepdim=True) | x - torch.max(x, dim={back}, keepdim=True)[0]
log_centre: x - torch.logsumexp(x, dim={back}, keepdim=True)
frobenius_norm@sequence: x / torch.norm(x, dim=(1, 2), keepdim=True)
    | x / torch.sqrt(torch.sum(x ** 2, dim=(1, 2), keepdim=True)) * {10.0/50.0}

[softmax] softmax 2.5 0.6
softmax*2.5: nn.Softmax(dim={back}) | F.softmax(x, dim={back}) | torch.softmax(x, dim={back}) | x.softmax(dim={back})
log_softmax*1.5: nn.LogSoftmax(dim={back}) | F.log_softmax(x, dim={back}) | torch.log_softmax(x, dim={back}) | x.log_softmax(dim={back})
softmin: nn.Softmin(dim={back}) | F.softmin(x, dim={back}) | torch.softmax(-x, dim={back})
softmax_temperature: torch.softmax(x / {number}, dim={back}) | F.softmax(x / {number}, dim={back})
manual_softmax: e = torch.exp(x - x.max(dim={back}, keepdim=True)[0]) ; e / e.sum(dim={back}, keepdim=True)
    | e = torch.exp(x - torch.amax(x, dim={back}, keepdim=True)) ; e / torch.sum(e, dim={back}, keepdim=True)
masked_softmax@rows,sequence,heads: F.softmax(x.masked_fill({flags}, -1e4), dim=-1) | torch.softmax(x.masked_fill({flags}, -1e4), dim=-1)
scaled_masked_softmax@heads,sequence: torch.softmax(x * {slope} + {other}, dim=-1) | F.softmax({slope} * x + {other}, dim=-1)

[flattened] softmax 4 0.1
spatial_softmax@maps2,maps3: F.softmax(x.flatten(2), dim=-1).view_as(x) | F.normalize(torch.flatten(x, 2), dim=2).reshape(x.shape)
    | torch.softmax(x.reshape(x.shape[0], x.shape[1], -1), dim=2).reshape(x.shape)
spatial_reduction@maps2,maps3: torch.logsumexp(x.flatten(2), dim=2) | x.flatten(2).amax(dim=-1) | torch.flatten(x, 2).max(dim=2)[0]
    | x.view(x.shape[0], {C}, -1).mean(dim=-1) | x.flatten(2).std(dim=2)

[pooling] pooling 7 1.2
max_pool1d: nn.MaxPool1d({window}) | F.max_pool1d(x, {window}) | nn.MaxPool1d({2/3}, stride=2, dilation=2)
max_pool2d*2: nn.MaxPool2d({window}) | F.max_pool2d(x, {window}) | nn.MaxPool2d({2/3}, stride=2, dilation=2)
max_pool3d: nn.MaxPool3d({window}) | F.max_pool3d(x, {window}) | nn.MaxPool3d({2/3}, stride=2, dilation=2)
avg_pool1d: nn.AvgPool1d({window}) | F.avg_pool1d(x, {window})
avg_pool2d*2: nn.AvgPool2d({window}) | F.avg_pool2d(x, {window})
avg_pool3d: nn.AvgPool3d({window}) | F.avg_pool3d(x, {window})
adaptive_max_pool1d@maps1: nn.AdaptiveMaxPool1d({1/2/4/8}) | F.adaptive_max_pool1d(x, {1/2/4/8})
adaptive_max_pool2d@maps2: nn.AdaptiveMaxPool2d({1/2/4/7}) | F.adaptive_max_pool2d(x, {1/2/4/7})
adaptive_max_pool3d@maps3: nn.AdaptiveMaxPool3d({1/2/4}) | F.adaptive_max_pool3d(x, {1/2/4})
adaptive_avg_pool1d@maps1: nn.AdaptiveAvgPool1d({1/2/4/8}) | F.adaptive_avg_pool1d(x, {1/2/4/8})
adaptive_avg_pool2d@maps2: nn.AdaptiveAvgPool2d({1/2/4/7}) | F.adaptive_avg_pool2d(x, {1/2/4/7})
adaptive_avg_pool3d@maps3: nn.AdaptiveAvgPool3d({1/2/4}) | F.adaptive_avg_pool3d(x, {1/2/4})
lp_pool1d@maps1~uniform: nn.LPPool1d({2/3}, {2/3/4}, stride=2) | F.lp_pool1d(x, {2/3}, {2/3/4}, stride=2)
lp_pool2d@maps2~uniform: nn.LPPool2d({2/3}, {2/3/4}, stride=2) | F.lp_pool2d(x, {2/3}, {2/3/4}, stride=2)
global_avg_pool@maps2: x.mean(dim=(2, 3)) | torch.mean(x, dim=[2, 3]) | F.adaptive_avg_pool2d(x, 1).flatten(1) | x.flatten(2).mean(dim=-1)
global_max_pool@maps2: x.amax(dim=(2, 3)) | torch.amax(x, dim=(2, 3)) | F.adaptive_max_pool2d(x, 1).flatten(1) | x.flatten(2).max(dim=-1)[0]
global_logsumexp_pool@maps2: torch.logsumexp(x, dim=(2, 3)) | x.flatten(2).logsumexp(dim=-1)
group_pool@rows: {@layer}(x.unsqueeze(1)).squeeze(1) <- layer = nn.AvgPool1d({group}) | {@layer}(x.unsqueeze(1)).squeeze(1)
    <- layer = nn.MaxPool1d({group})
    | x.view(x.shape[0], -1, {group}).{reduced}(dim=2) | x.reshape(x.shape[0], {group}, -1).{reduced}(dim=-1)
    | x.unflatten(1, ({group}, -1)).{reduced}(1)

[scan] scans 1.5 0.9
cumsum*2: torch.cumsum(x, dim={back}) | x.cumsum(dim={back})
cumprod~near_one: torch.cumprod(x, dim={back}) | x.cumprod(dim={back})
cumprod_scaled: torch.cumprod(x * {slope}, dim={back})
cummax: torch.cummax(x, dim={back})[0] | torch.cummax(x, dim={back}).values | x.cummax({back}).values
cummin: torch.cummin(x, dim={back})[0] | x.cummin(dim={back}).values
logcumsumexp: torch.logcumsumexp(x, dim={back}) | x.logcumsumexp({back})
cumsum_reverse: torch.flip(torch.cumsum(torch.flip(x, dims=[{back}]), dim={back}), dims=[{back}])
    | torch.cumsum(x.flip({back}), dim={back}).flip({back})
    | x.sum(dim={back}, keepdim=True) - torch.cumsum(x, dim={back}) + x
cumsum_exclusive: torch.cumsum(x, dim={back}) - x | F.pad(torch.cumsum(x, dim=-1)[..., :-1], (1, 0))
cumsum_masked: torch.cumsum(x * {flags}, dim={back}) | (x * {flags}).cumsum(dim={back})
cumsum_share: x / (1.0 + torch.cumsum(torch.abs(x), dim={back}))
cummean@rows: torch.cumsum(x, dim=1) / torch.arange(1, x.size(1) + 1, device=x.device, dtype=x.dtype)
    | x.cumsum(dim=-1) / torch.arange(1, x.shape[-1] + 1, device=x.device)
difference: torch.diff(x, dim=-1) | x[..., 1:] - x[..., :-1] | torch.diff(x, n=1, dim=-1)
prefix_softmax@rows,sequence: w = torch.exp(x - x.amax(dim=-1, keepdim=True)) ; w / torch.cumsum(w, dim=-1)
exponential_average@steps~normal: h = torch.zeros_like(x[:, 0]) ; steps = [] ; for t in range(x.size(1)):
    ;     h = 0.9 * h + 0.1 * x[:, t] ;     steps.append(h)
    ; torch.stack(steps, dim=1)
    | h = x[:, 0] ; hs = [h] ; for t in range(1, x.shape[1]): ;     h = {slope} * h + (1.0 - {slope}) * x[:, t] ;     hs.append(h)
    ; torch.stack(hs, dim=1)
linear_recurrence@steps~normal: a = torch.sigmoid({other}) ; h = torch.zeros_like(x[:, 0]) ; hs = [] ; for t in range(x.size(1)):
    ;     h = a[:, t] * h + x[:, t] ;     hs.append(h) ; torch.stack(hs, dim=1)

[loss] losses 3 0.7
mse_loss*1.5@rows~scaled: F.mse_loss(x, {scaled}) | torch.mean((x - {scaled}) ** 2) | ((x - {scaled}) ** 2).mean()
mse_by_sample@rows: F.mse_loss(x, {other}, reduction="none").mean(dim=-1) | (x - {other}).pow(2).mean(dim=-1)
l1_loss@rows~scaled: F.l1_loss(x, {scaled}) | torch.mean(torch.abs(x - {scaled})) | torch.abs(x - {scaled}).sum() / x.numel()
smooth_l1_loss@rows~scaled: F.smooth_l1_loss(x, {scaled}) | F.smooth_l1_loss(x, {scaled}, beta={number})
huber_loss@rows~scaled: F.huber_loss(x, {scaled}, delta={number}) | F.huber_loss(x, {scaled}, reduction="mean", delta={number})
log_cosh_loss@rows~scaled: torch.mean(torch.log(torch.cosh(x - {scaled}))) | torch.log(torch.cosh(x - {scaled})).mean()
mean_error: F.mse_loss(x, {other}) | F.l1_loss(x, {other}) | F.smooth_l1_loss(x, {other}) | ((x - {other}) ** 2).mean()
    | F.binary_cross_entropy_with_logits(x, {other}) | torch.mean(torch.clamp(1 - x * {other}, min=0))
distance@rows: torch.norm(x - {other}, dim=1) | torch.clamp(((x - {other}) ** 2).sum(dim=1) - {number}, min=0)
bce_with_logits@rows~scaled: F.binary_cross_entropy_with_logits(x * 8.0, {zero_one})
    | F.binary_cross_entropy(torch.sigmoid(x * 10.0), {zero_one})
bce_by_sample@labels~wide: F.binary_cross_entropy_with_logits(x, {zero_one}, reduction="none").mean(dim=-1)
    | F.binary_cross_entropy_with_logits(x, {zero_one}, reduction="none").sum(dim=1)
focal_by_sample@labels~wide: ce = F.binary_cross_entropy_with_logits(x, {zero_one}, reduction="none")
    ; ((1 - torch.exp(-ce)) ** {power} * ce).mean(dim=1)
kl_div@rows~scaled: F.kl_div(torch.log_softmax(x, dim=-1), {shares}, reduction="batchmean")
    | F.kl_div(F.log_softmax(x, dim=1), {shares}, reduction="batchmean")
kl_by_sample@labels~wide: ({shares} * (torch.log({shares} + 1e-8) - F.log_softmax(x, dim=-1))).sum(dim=-1)
soft_cross_entropy@rows: -(F.softmax({other}, dim=1) * F.log_softmax(x, dim=1)).sum(dim=1)
squared_hinge@labels~wide: torch.mean(F.relu({number} - x * {signs}) ** 2, dim=1) | F.relu({number} - x * {signs}).square().mean(dim=-1)
hinge_scaled@rows~scaled: torch.mean(torch.clamp({slope} - x * {signs}, min=0)) | F.relu({slope} - x * {signs}).mean()
cosine_loss@rows: 1 - F.cosine_similarity(x, {other}, dim=1) | 1 - F.cosine_similarity(x, {other}, dim=-1)
cosine_embedding@rows: F.cosine_embedding_loss(x, {other}, {row_signs}, margin={slope}, reduction="none")
    | F.cosine_embedding_loss(x, {other}, {row_signs}, reduction="none")
margin_ranking@labels: F.margin_ranking_loss(x, {other}, {signs}, margin={slope}, reduction="none").mean(dim=1)
    | F.relu(-{signs} * (x - {other}) + {slope}).mean(dim=1)
poisson_nll@rows~scaled: F.poisson_nll_loss(x, {uniform}, log_input=True) | torch.mean(torch.exp(x) - {uniform} * x)
gaussian_nll@labels: 0.5 * (torch.log({positive}) + (x - {other}) ** 2 / {positive}).mean(dim=1)
soft_margin@labels~wide: F.soft_margin_loss(x, {signs}, reduction="none").mean(dim=-1) | torch.log1p(torch.exp(-{signs} * x)).mean(dim=-1)
dice_by_sample@labels~wide: p = torch.sigmoid(x) ; 1 - (2 * (p * {zero_one}).sum(dim=1) + 1) / (p.sum(dim=1) + {zero_one}.sum(dim=1) + 1)

[class_loss] losses 1 0.3
cross_entropy*2@rows~scaled_wide: F.cross_entropy(x, {labels})
cross_entropy_smoothed@rows~scaled_wide: F.cross_entropy(x, {labels}, label_smoothing={slope})
cross_entropy_by_sample@rows: F.cross_entropy(x, {labels}, reduction="none")
    | -torch.log_softmax(x, dim=1).gather(1, {labels}.unsqueeze(1)).squeeze(1)
nll_by_sample@rows: F.nll_loss(F.log_softmax(x, dim=1), {labels}, reduction="none")
    | torch.logsumexp(x, dim=1) - x.gather(1, {labels}.unsqueeze(1)).squeeze(1)
nll_loss@rows~scaled_wide: F.nll_loss(F.log_softmax(x, dim=1), {labels})
    | (torch.logsumexp(x, dim=1) - x.gather(1, {labels}.unsqueeze(1)).squeeze(1)).mean()
multi_margin@labels: F.multi_margin_loss(x, {labels}, margin={number}, reduction="none")

[triplet_loss] losses 0.7 0.1
triplet_margin@rows: F.triplet_margin_loss(x, {other}, {third}, margin={number}, reduction="none")
    | F.relu(((x - {other}) ** 2).sum(dim=1) - ((x - {third}) ** 2).sum(dim=1) + {number})
    | F.relu(torch.norm(x - {other}, dim=1) - torch.norm(x - {third}, dim=1) + {number})
    | F.softplus((x * {third}).sum(dim=-1) - (x * {other}).sum(dim=-1))
triplet_mean: F.relu(torch.norm(x - {other}, dim=1) - torch.norm(x - {third}, dim=1) + {number}).mean()
    | (F.cosine_similarity(x, {third}, dim=1) - F.cosine_similarity(x, {other}, dim=1) + {number}).clamp(min=0).mean()
"""
