"""Operators that treat every element alone, and those of two tensors of one shape. `catalogue.table` says how a row is read."""

POINTWISE = """
[activation] activations 19 1.2
relu*3: nn.ReLU() | F.relu(x) | torch.relu(x) | x.relu() | x.clamp(min=0) | torch.clamp(x, min=0.0) | torch.maximum(x, torch.zeros_like(x))
relu6: nn.ReLU6() | F.relu6(x) | torch.clamp(x, 0, 6)
leaky_relu*1.5: nn.LeakyReLU({slope}) | F.leaky_relu(x, {slope}) | F.leaky_relu(x, negative_slope={slope})
    | torch.where(x > 0, x, {slope} * x)
elu: nn.ELU({number}) | nn.ELU(alpha={number}) | F.elu(x, alpha={number})
selu: nn.SELU() | F.selu(x) | torch.selu(x)
celu: nn.CELU({number}) | F.celu(x, alpha={number}) | F.celu(x)
gelu*2: nn.GELU() | F.gelu(x) | 0.5 * x * (1.0 + torch.erf(x / math.sqrt(2.0))) | 0.5 * x * (1 + torch.erf(x * 0.7071067811865476))
gelu_tanh: nn.GELU(approximate="tanh") | F.gelu(x, approximate="tanh")
    | 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x ** 3)))
    | 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * torch.pow(x, 3))))
quick_gelu: x * torch.sigmoid(1.702 * x)
silu*2.5: nn.SiLU() | F.silu(x) | x * torch.sigmoid(x) | x * x.sigmoid() | torch.sigmoid(x) * x | x / (1 + torch.exp(-x))
mish*1.5: nn.Mish() | F.mish(x) | x * torch.tanh(F.softplus(x)) | torch.tanh(F.softplus(x)) * x
sigmoid*2: nn.Sigmoid() | torch.sigmoid(x) | x.sigmoid() | F.sigmoid(x) | 1.0 / (1.0 + torch.exp(-x))
    | torch.reciprocal(1.0 + torch.exp(-x))
tanh*2: nn.Tanh() | torch.tanh(x) | x.tanh() | F.tanh(x)
softplus: nn.Softplus() | F.softplus(x) | torch.log1p(torch.exp(x)) | torch.log(1 + torch.exp(x))
softplus_beta: nn.Softplus(beta={number}) | F.softplus(x, beta={number}) | F.softplus(x, beta={number}, threshold=10)
    | F.softplus(x, {number})
softsign: nn.Softsign() | F.softsign(x) | x / (1 + torch.abs(x)) | x / (x.abs() + 1)
hardswish: nn.Hardswish() | F.hardswish(x) | x * torch.clamp(x + 3, 0, 6) / 6 | x * F.relu6(x + 3) / 6
hardsigmoid: nn.Hardsigmoid() | F.hardsigmoid(x) | torch.clamp(x / 6 + 0.5, 0, 1) | F.relu6(x + 3) / 6
hardtanh: nn.Hardtanh({low}, {high}) | F.hardtanh(x, min_val={low}, max_val={high}) | nn.Hardtanh(min_val={low}, max_val={high})
hardshrink: nn.Hardshrink({slope}) | F.hardshrink(x, {slope}) | torch.where(x.abs() > {slope}, x, torch.zeros_like(x))
softshrink: nn.Softshrink({slope}) | F.softshrink(x, {slope})
tanhshrink: nn.Tanhshrink() | F.tanhshrink(x) | x - torch.tanh(x)
logsigmoid: nn.LogSigmoid() | F.logsigmoid(x) | -F.softplus(-x)
threshold: nn.Threshold({slope}, {number}) | F.threshold(x, {slope}, {number})
squared_relu: torch.relu(x) ** 2 | F.relu(x).square() | torch.square(F.relu(x)) | F.relu(x) * F.relu(x)
swish_beta: x * torch.sigmoid({number} * x)
tanh_exp: x * torch.tanh(torch.exp(x))
bent_identity: (torch.sqrt(x * x + 1) - 1) / 2 + x | (((x ** 2) + 1).sqrt() - 1) * 0.5 + x
prelu: nn.PReLU() | nn.PReLU({C}) | F.prelu(x, {@slope}) <- slope = nn.Parameter(torch.full(({C},), 0.25))
channel_swish: x * torch.sigmoid({gain} * x)

[cut] activations 4 0.2
glu: F.glu(x, dim={back}) | a, b = x.chunk(2, dim={back}) ; a * torch.sigmoid(b) | x[:, :{half}] * torch.sigmoid(x[:, {half}:])
swiglu: a, b = x.chunk(2, dim={back}) ; F.silu(a) * b | u, v = torch.split(x, {half}, dim={back}) ; F.silu(u) * v
    | gate, value = torch.chunk(x, 2, dim={back}) ; gate * torch.sigmoid(gate) * value
geglu: value, gate = x.chunk(2, dim={back}) ; value * F.gelu(gate) | a, b = torch.chunk(x, 2, dim={back}) ; F.gelu(a) * b
reglu: a, b = torch.chunk(x, 2, dim={back}) ; torch.relu(a) * b | value, gate = x.chunk(2, dim={back}) ; value * F.relu(gate)
tanh_gate: h1, h2 = x.split([{half}, {half}], dim={back}) ; torch.tanh(h1) * torch.sigmoid(h2)
    | a, b = torch.chunk(x, 2, dim={back}) ; torch.tanh(b) + a
halves: left, right = x.narrow({dim}, 0, {half}), x.narrow({dim}, {half}, {half}) ; torch.maximum(left, right)
    | a, b = x.chunk(2, dim={back}) ; a - b | u, v = x.chunk(2, dim={back}) ; u + {slope} * v

[function] elementwise 8 0.8
exp: torch.exp(x) | x.exp()
exp2: torch.exp2(x) | 2.0 ** x
expm1: torch.expm1(x) | x.expm1() | torch.exp(x) - 1
log~positive: torch.log(x) | x.log()
log2~positive: torch.log2(x) | x.log2()
log1p~uniform: torch.log1p(x) | x.log1p() | torch.log(1 + x)
log_abs: torch.log1p(torch.abs(x)) | torch.log(x.abs() + 1.0) | torch.log1p(x.abs())
log_square: torch.log(x * x + {small})
signed_log: torch.sign(x) * torch.log1p(torch.abs(x))
sqrt~uniform: torch.sqrt(x) | x.sqrt()
sqrt_abs: torch.sqrt(torch.abs(x) + {small})
signed_sqrt: torch.sign(x) * torch.sqrt(torch.abs(x) + {small}) | x.sign() * (x.abs() + 1e-4).sqrt()
rsqrt~positive: torch.rsqrt(x) | x.rsqrt() | 1.0 / torch.sqrt(x)
reciprocal~positive: torch.reciprocal(x) | 1.0 / x | x.reciprocal()
square: torch.square(x) | x ** 2 | x.pow(2) | x * x | torch.pow(x, 2) | torch.pow(x, {power})
cube: x ** 3 | x.pow(3) | torch.pow(x, 3)
power~positive: torch.pow(x, {exponent}) | x ** {exponent} | x.pow({exponent})
abs: torch.abs(x) | x.abs()
negate: -x | torch.neg(x) | x.neg()
sin: torch.sin(x) | x.sin()
cos: torch.cos(x) | x.cos()
atan: torch.atan(x) | x.atan()
asinh: torch.asinh(x) | x.asinh()
sinh: torch.sinh(x) | x.sinh()
erf: torch.erf(x) | x.erf()
snake: x + torch.sin({number} * x) ** 2 / {number}
gaussian: torch.exp(-x ** 2 / 2) | torch.exp(-0.5 * x * x) | (x.square() * -0.5).exp() | torch.exp(-x * x)
logit~inner: torch.logit(x) | x.logit() | torch.log(x / (1 - x))
atanh~open: torch.atanh(x) | 0.5 * torch.log((1 + x) / (1 - x))
clamp*1.5: torch.clamp(x, {low}, {high}) | x.clamp({low}, {high}) | torch.clamp(x, min={low}, max={high}) | x.clip({low}, {high})
clamp_min: torch.clamp(x, min={low}) | x.clamp(min={low}) | torch.clamp_min(x, {low}) | torch.max(x, torch.tensor({low}, device=x.device))
clamp_max: torch.clamp(x, max={high}) | x.clamp(max={high}) | x.clamp_max({high}) | torch.minimum(x, torch.tensor({high}, device=x.device))
softcap: {number} * torch.tanh(x / {number}) | torch.tanh(x / {number}) * {number}
smooth_abs: torch.sqrt(x * x + {slope}) | torch.sqrt(x ** 2 + {slope}) | (x.square() + {slope}).sqrt()
polynomial: {slope} * x * x + {number} * x | {slope} * x ** 2 + {number} * x
below_tanh: torch.minimum(x, torch.tanh(x))
scaled_below: torch.where(x > {slope}, x, x * {number})

[arithmetic] elementwise 13 0.1
add_constant*1.6: x + {number} | torch.add(x, {number}) | x.add({number})
subtract_constant: x - {number} | torch.sub(x, {number}) | {number} - x
scale*2: x * {number} | {number} * x | torch.mul(x, {number}) | x * -{number}
divide_constant: x / {number} | torch.div(x, {number}) | x / {power}
affine: x * {slope} + {number} | {slope} * x + {number} | (x + {number}) * {slope}
inverse: {number} / (1.0 + torch.abs(x))

[parameter] elementwise 16 0.3
bias_add*2: x + {shift} | x + {some_shift} | x + {flat_shift}.view(1, {C}{ones}) | x + {flat_shift}.reshape(1, -1{ones})
    | x + {some_shift} * 2.0
    | x + torch.tanh({shift})
bias_subtract: x - {shift} | x - {some_shift}
channel_scale*2: x * {gain} | x * {some_gain} | x * (1.0 + {some_shift}) | x * {flat_gain}[None, :{nones}]
    | x * {flat_gain}.view(1, -1{ones})
    | x * {flat_gain}[:{nones}]
channel_divide: x / {gain} | x / torch.abs({gain})
channel_gate: x * torch.exp({shift}) | x * F.softplus({gain}) | x * torch.sigmoid({some_gain})
learned_scalar: x * {one_gain} | {one_gain} * x

[residual] elementwise 8 0.5
add*3: x + {other} | torch.add(x, {other}) | {other} + x | {other} + {slope} * x
subtract: x - {other} | torch.sub(x, {other}) | {other} - x
multiply*2: x * {other} | torch.mul(x, {other}) | x * {other} + {other}
divide: x / ({other}.abs() + 1.0) | torch.div(x, {other}.abs() + 1.0) | x / (1.0 + torch.abs({other}))
maximum: torch.maximum(x, {other}) | torch.max(x, {other})
minimum: torch.minimum(x, {other}) | torch.min(x, {other})
gated: x * torch.sigmoid({other}) | torch.sigmoid(x) * {other} | x * F.silu({other}) | torch.tanh(x) * torch.sigmoid({other})
hypot: torch.hypot(x, {other}) | torch.sqrt(x ** 2 + {other} ** 2 + 1e-8)
atan2: torch.atan2(x, {other})
logaddexp: torch.logaddexp(x, {other})
squared_difference: (x - {other}) ** 2 | torch.square(x - {other}) | (x - {other}).pow(2)
lerp: torch.lerp({other}, x, {slope}) | torch.lerp(x, {other}, {slope}) | x + {slope} * ({other} - x)
    | (1 - {slope}) * x + {slope} * {other}
addcmul: torch.addcmul(x, {other}, {third}, value={number}) | x + {number} * {other} * {third}

[keep] elementwise 5 0
keep: identity = x ; F.relu(x) | h = x ; torch.tanh(x) | kept = x ; F.gelu(x) | before = x ; x * {number} | z = x ; torch.sigmoid(x)
    | identity = x ; F.silu(x)

[gate] elementwise 6 0.1
pooled_gate: g = x.{reduced}(dim={back}, keepdim=True) ; x * torch.sigmoid(g)
    | s = x.{reduced}(dim={places}, keepdim=True) ; x * F.hardsigmoid(s)
    | gate = torch.sigmoid(x.{reduced}(dim={places}, keepdim=True) * {gain}) ; x * gate
    | summary = torch.tanh(x.{reduced}(dim={back}, keepdim=True) + {one_gain}) ; x + x * summary
    | g = F.softplus(x.{reduced}(dim={places}, keepdim=True)) ; x / (1.0 + torch.abs(g))
pooled_shift: level = x.{reduced}(dim={back}, keepdim=True) ; x - level | s = F.relu(x.{reduced}(dim={back}, keepdim=True)) ; x + s

[shared_input] elementwise 4 0.1
add_row_vector*2: x + {shared} | torch.add(x, {shared}) | x - {shared}
scale_rows: x * {shared} | torch.mul(x, {shared})
masked_by_sign: x.masked_fill({shared} < 0, {number}) | torch.where({shared} > 0, x, {slope} * x)
outer_sum: x.unsqueeze(2) + {rows}.unsqueeze(1) | x[:, :, None] + {rows}[:, None, :]

[flagged] elementwise 4.5 0.2
where: torch.where({flags}, x, {third}) | torch.where({flags}, x, {slope} * x) | torch.where({shared_flags}, x, torch.zeros_like(x))
    | torch.where(~{shared_flags}, x, x * {number})
masked_fill*2: x.masked_fill({flags}, {number}) | torch.masked_fill(x, {flags}, {number}) | x.masked_fill(~{shared_flags}, 0.0)
    | x.masked_fill({whole} == 0, 0.0)
mask_multiply: x * {shared_flags} | x * (~{flags}) | x * ({whole} > 0)
masked_rows*1.5: x * {rows} | x.masked_fill({rows}.unsqueeze(1) < 0, {number}) | torch.where({rows} > 0, x, {slope} * x)
    | x - {number} * (1.0 - {rows}.unsqueeze(1)) | x.masked_fill(~({rows} > 0), 0.0)
"""
