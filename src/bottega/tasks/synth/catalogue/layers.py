"""Operators with weights, products of tensors, attention, recurrence, and those that move data. `catalogue.table` says how a row is read."""

LAYERS = """
[linear] matmul 2 0.6
linear*6@rows,sequence: nn.Linear({F}, {out}{bias})
low_rank_linear@rows,sequence: {@up}({@down}(x)) <- down = nn.Linear({F}, {8/16/32/64}, bias=False) & up = nn.Linear({8/16/32/64}, {out})
linear_functional*1.5@rows: F.linear(x, {turned_matrix}, {row}) | x @ {matrix} + {row} | torch.addmm({row}, x, {matrix})

[matmul] matmul 1 0.3
matmul_weight*2@rows,sequence: torch.matmul(x, {matrix}) | x @ {matrix} | x @ {turned_matrix}.t() | F.linear(x, {turned_matrix})
    | torch.matmul(x, {turned_matrix}.T)
batched_linear@sequence: torch.einsum("bsd,df->bsf", x, {matrix}) | torch.einsum("...d,df->...f", x, {matrix})
grouped_linear@heads: torch.einsum("bhsd,hde->bhse", x, {head_matrix}) | torch.matmul(x, {head_matrix})

[along_sequence] matmul 0.5 0.1
bmm*1.8@sequence: torch.bmm(x, {columns}) | x @ {columns} | torch.matmul(x, {columns}) | torch.einsum("bij,bjk->bik", x, {columns})
bmm_transposed@sequence: torch.bmm(x, {turned}.transpose(1, 2)) | torch.matmul(x, {turned}.transpose(-2, -1))
    | torch.einsum("bid,bjd->bij", x, {turned})
    | x @ {turned}.mT
baddbmm@sequence: torch.baddbmm({row}, x, {columns}) | torch.bmm(x, {columns}) + {row}
conv_along@sequence: {@layer}(x.transpose(1, 2)).transpose(1, 2) <- layer = nn.Conv1d({F}, {out}, 3, padding=1)

[prototypes] matmul 2.5 0.1
prototypes: F.linear(x, F.normalize({bank}, dim=-1)) | F.linear(F.normalize(x, dim=-1), F.normalize({bank}, dim=1))
    | torch.matmul(x, torch.tanh({bank}).t())
    | x @ ({bank} * 0.1).T | F.normalize(x, dim=-1) @ {bank}.t()

[twin] matmul 4 0.1
twin_gate: torch.tanh(A) * torch.sigmoid(B) | A * torch.sigmoid(B) | F.silu(A) * B | A * F.gelu(B) | torch.sigmoid(A) * B
    | A * F.softplus(B)
    | x + A * torch.sigmoid(B) | torch.relu(A) * F.hardsigmoid(B) | F.relu(A) * torch.tanh(B)
twin_join: F.relu(A) + B | torch.maximum(A, B) | F.relu(A + B) | A * B | torch.cos(A) + torch.sin(B) | F.elu(A) - B
twin_concatenation: torch.cat([A, B], dim=1) | torch.cat([F.relu(A), B], dim=1) | torch.cat((A, torch.tanh(B)), dim=1)

[product] matmul 0 1.0
matmul*3@rows: torch.matmul(x, {weights}) | x @ {weights} | torch.mm(x, {weights}) | x.matmul({weights})
matmul_transposed_a@rows: torch.matmul(x.T, {tall}) | x.t() @ {tall} | torch.mm(x.t(), {tall})
matmul_transposed_b@rows: torch.matmul(x, {turned_weights}.T) | x @ {turned_weights}.t() | torch.mm(x, {turned_weights}.t())
matmul_transposed_both@rows: torch.matmul(x.T, {wide}.T) | x.t() @ {wide}.t()
matmul_tall_skinny@skinny: torch.matmul(x, {weights}) | x @ {weights} | torch.mm(x, {weights})
matmul_deep@deep: torch.matmul(x, {narrow_weights}) | x @ {narrow_weights}
matrix_vector@rows: torch.matmul(x, {vector}) | x @ {vector} | torch.mv(x, {vector})
matmul_3d_by_2d@sequence: torch.matmul(x, {weights}) | x @ {weights} | torch.einsum("bmk,kn->bmn", x, {weights})
    | torch.tensordot(x, {weights}, dims=1)
matmul_4d_by_2d@heads: torch.matmul(x, {weights}) | torch.einsum("bijl,lk->bijk", x, {weights})
einsum_bilinear@rows: torch.einsum("bi,bj->bij", x, {few_rows}) | x.unsqueeze(2) * {few_rows}.unsqueeze(1)
    | torch.bmm(x.unsqueeze(2), {few_rows}.unsqueeze(1))
einsum_contract@sequence: torch.einsum("bid,bjd->bij", x, {turned}).sum(dim=-1) | torch.einsum("bid,bjd->bi", x, {turned})
outer@vector: torch.outer(x, {row_vector}) | x[:, None] * {row_vector}[None, :] | x.unsqueeze(1) @ {row_vector}.unsqueeze(0)
batched_inner@rows: torch.sum(x * {other}, dim=-1) | torch.einsum("bd,bd->b", x, {other}) | (x * {other}).sum(-1)
matmul_upper@squares: torch.triu(torch.matmul(x, {other})) | torch.matmul(torch.triu(x), torch.triu({other})) | torch.triu(x) @ {other}
matmul_lower@squares: torch.tril(torch.matmul(x, {other})) | torch.matmul(torch.tril(x), torch.tril({other})) | torch.tril(x) @ {other}
matmul_symmetric@squares: torch.matmul(0.5 * (x + x.transpose(1, 2)), {other}) | (x + x.mT) @ {other}
diagonal_matmul@vector: torch.diag(x) @ {tall} | x.unsqueeze(1) * {tall} | torch.matmul(torch.diag(x), {tall})
gemm_affine@rows: torch.addmm({tall}, x, {weights}, beta={number}, alpha={slope}) | {slope} * (x @ {weights}) + {number} * {tall}
    | {slope} * torch.matmul(x, {weights}) + {number} * {tall}
gram@sequence: torch.bmm(x, x.transpose(1, 2)) | x @ x.transpose(-1, -2) | torch.einsum("bcd,bed->bce", x, x)
bilinear@labels: {@bilinear}(x, {few_rows}) <- bilinear = nn.Bilinear({F}, {few}, {16/32/64})
matmul_chain@rows: torch.matmul(torch.matmul(x, {first_factor}), {second_factor}) | x @ {first_factor} @ {second_factor}
cdist@rows: torch.cdist(x, {turned_weights}) | torch.cdist(x, {turned_weights}, p=2.0)
cosine_matrix@rows: F.normalize(x, dim=-1) @ F.normalize({turned_weights}, dim=-1).T
    | torch.matmul(F.normalize(x, dim=1), F.normalize({turned_weights}, dim=1).t())

[conv] convolutions 2 1.7
conv1d*2@maps1: nn.Conv1d({C}, {planes}, {kernel}{bias})
conv1d_dilated@maps1: nn.Conv1d({C}, {planes}, 3, padding={2/3/4}, dilation={2/3/4}{bias})
conv1d_strided@maps1: nn.Conv1d({C}, {planes}, {3/4/5/7}, stride={2/3/4}{bias})
    | nn.Conv1d({C}, {planes}, kernel_size={3/5/7}, stride={2/3}, padding=1{bias})
conv1d_pointwise@maps1: nn.Conv1d({C}, {planes}, 1{bias}) | nn.Conv1d({C}, {planes}, kernel_size=1{bias})
conv1d_depthwise@maps1: nn.Conv1d({C}, {C}, {3, padding=1/5, padding=2/7/15, padding=7}, groups={C}{bias})
conv1d_causal@maps1: {@conv}(F.pad(x, (2, 0))) <- conv = nn.Conv1d({C}, {planes}, 3) | {@conv}(x)[..., :-2]
    <- conv = nn.Conv1d({C}, {planes}, 3, padding=2)
    | {@conv}(F.pad(x, (8, 0))) <- conv = nn.Conv1d({C}, {planes}, 5, dilation=2)
conv1d_functional@maps1: F.conv1d(x, {@weight}, padding=1) <- weight = nn.Parameter(torch.randn({planes}, {C}, 3) * 0.1)
    | F.conv1d(x, {@weight}, {@bias}, stride=2) <- weight = nn.Parameter(torch.randn({planes}, {C}, 5) * 0.1)
    & bias = nn.Parameter(torch.randn({planes}))
conv2d*8@maps2: nn.Conv2d({C}, {planes}, {kernel}{bias}) | nn.Conv2d({C}, {planes}, kernel_size=3, padding=1{bias})
    | nn.Conv2d({C}, {planes}, {kernel})
conv2d_dilated@maps2: nn.Conv2d({C}, {planes}, 3, padding={2/3}, dilation={2/3}{bias})
conv2d_strided@maps2: nn.Conv2d({C}, {planes}, {3/4/5/7}, stride={2/3}{bias})
    | nn.Conv2d({C}, {planes}, kernel_size={3/5/7}, stride=2, padding=1{bias})
conv2d_asymmetric@maps2: nn.Conv2d({C}, {planes}, {odd_kernel})
conv2d_uneven@maps2: nn.Conv2d({C}, {planes}, {(3, 3)/(3, 5)/(5, 5)}, stride={(1, 2)/(2, 1)}, padding={(1, 2)/(0, 1)/(2, 1)})
conv2d_large_kernel@maps2: nn.Conv2d({C}, {8/16/24}, {9, padding=4/11, padding=5/9}{bias})
conv2d_grouped@maps2: nn.Conv2d({C}, {C}, 3, padding=1, groups={divisor}{bias}) | nn.Conv2d({C}, {planes}, 3, groups={divisor}{bias})
conv2d_depthwise*1.5@maps2: nn.Conv2d({C}, {C}, {3, padding=1/5, padding=2/7, padding=3/3, stride=2}, groups={C}{bias})
conv2d_depthwise_asymmetric@maps2: nn.Conv2d({C}, {C}, {(3, 7)/(1, 5)/(5, 1)/(7, 3)}, groups={C}{bias})
conv2d_depth_multiplier@maps2: nn.Conv2d({C}, {2/3} * {C}, 3, padding=1, groups={C}{bias})
conv2d_pointwise*1.5@maps2: nn.Conv2d({C}, {planes}, 1{bias}) | nn.Conv2d({C}, {planes}, kernel_size=1{bias})
conv2d_functional@maps2: F.conv2d(x, {@weight}, padding=1) <- weight = nn.Parameter(torch.randn({planes}, {C}, 3, 3) * 0.1)
    | F.conv2d(x, {@weight}, {@bias}, stride=2) <- weight = nn.Parameter(torch.randn({planes}, {C}, 3, 3) * 0.1)
    & bias = nn.Parameter(torch.randn({planes}))
conv2d_separable@maps2: {@pointwise}({@depthwise}(x)) <- depthwise = nn.Conv2d({C}, {C}, 3, padding=1, groups={C})
    & pointwise = nn.Conv2d({C}, {planes}, 1)
    | h = {@depthwise}(x) ; {@pointwise}(h) <- depthwise = nn.Conv2d({C}, {C}, 5, padding=2, groups={C})
    & pointwise = nn.Conv2d({C}, {planes}, kernel_size=1)
conv2d_padded@maps2: nn.Conv2d({C}, {planes}, 3, padding=1, padding_mode="{reflect/replicate/circular}")
    | nn.Conv2d({C}, {planes}, kernel_size=5, padding=2, padding_mode="{reflect/replicate/circular}")
conv3d*3@maps3: nn.Conv3d({C}, {planes}, {kernel}{bias})
conv3d_asymmetric@maps3: nn.Conv3d({C}, {planes}, {(1, 3, 3)/(3, 1, 1)/(3, 5, 5)/(3, 3, 1)}{bias})
conv3d_grouped@maps3: nn.Conv3d({C}, {C}, 3, padding=1, groups={divisor}{bias})
unfold@maps2: nn.Unfold(kernel_size={2/3/4}, stride={1/2}) | F.unfold(x, {2/3/4}, stride={1/2})

[conv_transpose] convolutions 1 0.7
conv_transpose1d@maps1: nn.ConvTranspose1d({C}, {planes}, {turned_kernel}{bias})
conv_transpose2d*3@maps2: nn.ConvTranspose2d({C}, {planes}, {turned_kernel}{bias})
conv_transpose2d_asymmetric@maps2: nn.ConvTranspose2d({C}, {planes}, {(3, 5)/(5, 3)/(2, 4)}, stride={1/(2, 1)/(1, 2)}{bias})
conv_transpose2d_dilated@maps2: nn.ConvTranspose2d({C}, {planes}, 3, stride={1/2}, padding={0/1/2}, dilation={2/3}{bias})
conv_transpose2d_grouped@maps2: nn.ConvTranspose2d({C}, {C}, {3/4}, stride={1/2}, padding=1, groups={divisor}{bias})
conv_transpose3d*2@maps3: nn.ConvTranspose3d({C}, {planes}, {turned_kernel}{bias})
conv_transpose3d_asymmetric@maps3: nn.ConvTranspose3d({C}, {planes}, {(1, 3, 3)/(3, 5, 5)/(3, 1, 3)}, stride={1/(1, 2, 2)}{bias})

[recurrent] recurrent 3 0.4
rnn@sequence: {@rnn}(x)[0] <- rnn = nn.RNN({F}, {hidden}{layers}, batch_first=True{both}) | out, _ = {@rnn}(x) ; out
    <- rnn = nn.RNN({F}, {hidden}{layers}, batch_first=True)
gru@sequence: {@gru}(x)[0] <- gru = nn.GRU({F}, {hidden}{layers}, batch_first=True) | out, _ = {@gru}(x) ; out
    <- gru = nn.GRU({F}, {hidden}{layers}, batch_first=True)
lstm@sequence: {@lstm}(x)[0] <- lstm = nn.LSTM({F}, {hidden}{layers}, batch_first=True) | out, _ = {@lstm}(x) ; out
    <- lstm = nn.LSTM({F}, {hidden}{layers}, batch_first=True)
gru_bidirectional@sequence: {@gru}(x)[0] <- gru = nn.GRU({F}, {hidden}{layers}, batch_first=True, bidirectional=True)
lstm_bidirectional@sequence: {@lstm}(x)[0] <- lstm = nn.LSTM({F}, {hidden}{layers}, batch_first=True, bidirectional=True)
gru_last@sequence: {@gru}(x)[0][:, -1] <- gru = nn.GRU({F}, {hidden}{layers}, batch_first=True) | out, _ = {@gru}(x) ; out[:, -1, :]
    <- gru = nn.GRU({F}, {hidden}, batch_first=True)
gru_mean@sequence: out, _ = {@gru}(x) ; out.mean(dim=1) <- gru = nn.GRU({F}, {hidden}, batch_first=True)
gru_state@sequence: {@gru}(x, {state})[0] <- gru = nn.GRU({F}, {hidden}, batch_first=True)
lstm_last@sequence: {@lstm}(x)[0][:, -1] <- lstm = nn.LSTM({F}, {hidden}{layers}, batch_first=True) | out, _ = {@lstm}(x) ; out[:, -1]
    <- lstm = nn.LSTM({F}, {hidden}, batch_first=True)
rnn_relu_last@sequence: out, _ = {@rnn}(x) ; out[:, -1] <- rnn = nn.RNN({F}, {hidden}{layers}, batch_first=True, nonlinearity="relu")
rnn_state_last@sequence: out, state_out = {@rnn}(x, {state}) ; out[:, -1, :] <- rnn = nn.RNN({F}, {hidden}, batch_first=True)

[cell] recurrent 0 0.3
rnn_cell@rows: {@cell}(x, {memory_state}) <- cell = nn.RNNCell({F}, {hidden})
gru_cell@rows: {@cell}(x, {memory_state}) <- cell = nn.GRUCell({F}, {hidden})
lstm_cell@rows: h, c = {@cell}(x, ({memory_state}, {cell_state})) ; h + c <- cell = nn.LSTMCell({F}, {hidden})
minimal_gated_unit@rows: f = torch.sigmoid({@forget}(torch.cat([x, {memory_state}], dim=1)))
    ; c = torch.tanh({@update}(torch.cat([x, f * {memory_state}], dim=1)))
    ; (1 - f) * {memory_state} + f * c <- forget = nn.Linear({F} + {hidden}, {hidden}) & update = nn.Linear({F} + {hidden}, {hidden})
rnn_step_concat@rows: torch.tanh({@i2h}(torch.cat((x, {memory_state}), dim=1))) <- i2h = nn.Linear({F} + {hidden}, {hidden})
    | torch.tanh({@inner}(x) + {@recurrent}({memory_state})) <- inner = nn.Linear({F}, {hidden})
    & recurrent = nn.Linear({hidden}, {hidden}, bias=False)
rnn_unrolled@steps: h = torch.zeros(x.size(0), {hidden}, device=x.device, dtype=x.dtype) ; for t in range(x.size(1)):
    ;     h = torch.tanh({@inner}(x[:, t]) + {@outer}(h))
    ; h <- inner = nn.Linear({F}, {hidden}) & outer = nn.Linear({hidden}, {hidden}, bias=False)
    | h = x.new_zeros(x.shape[0], {hidden}) ; hs = [] ; for t in range(x.shape[1]): ;     h = {@cell}(x[:, t], h) ;     hs.append(h)
    ; torch.stack(hs, dim=1).sum(dim=1)
    <- cell = nn.GRUCell({F}, {hidden})
gated_recurrence@steps: v = {@value}(x) ; f = torch.sigmoid({@forget}(x)) ; h = torch.zeros_like(v[:, 0]) ; hs = []
    ; for t in range(x.size(1)):
    ;     h = f[:, t] * h + (1 - f[:, t]) * v[:, t] ;     hs.append(h) ; torch.stack(hs, dim=1)
    <- value = nn.Linear({F}, {hidden}) & forget = nn.Linear({F}, {hidden})

[scores] attention 1 0
scores: torch.matmul(x, {keys}.transpose(-2, -1)) * 0.125 | (x @ {keys}.transpose(-1, -2)) / {F} ** 0.5 | x @ {keys}.transpose(-2, -1)
    | torch.bmm(x, {keys}.transpose(1, 2)) * {F} ** -0.5 | 0.1 * torch.matmul(x, {keys}.transpose(-1, -2))

[mask] attention 1 0
score_mask: x + {added} | x - {added} | x + {hiding} | x.masked_fill({seen}, -1e9) | x.masked_fill(~{seen}, -10000.0)
    | torch.where({seen}, x, -1e4)
    | x.masked_fill({hidden_keys}[:, None, :] == 0, -1e9) | x.masked_fill({hidden_keys}[:, None, None, :] == 0, -10000.0)

[weights] attention 1 0
attention_weights: F.softmax(x, dim=-1) | torch.softmax(x, dim=-1) | x.softmax(-1) | F.log_softmax(x, dim=-1)

[weighted] attention 1 0
weighted_values: torch.matmul(x, {values}) | x @ {values}

[attention] attention 0 1.1
sdpa*1.5@heads: F.scaled_dot_product_attention(x, {key}, {value})
sdpa_causal@heads: F.scaled_dot_product_attention(x, {key}, {value}, is_causal=True)
sdpa_bias@heads: F.scaled_dot_product_attention(x, {key}, {value}, attn_mask={score_bias})
attention*1.5@heads: s = torch.matmul(x, {key}.transpose(-2, -1)) / math.sqrt(x.size(-1)) ; w = torch.softmax(s, dim=-1)
    ; torch.matmul(w, {value})
    | attn = (x @ {key}.transpose(-1, -2)) * x.shape[-1] ** -0.5 ; attn = attn.softmax(dim=-1) ; attn @ {value}
    | s = torch.einsum("bhqd,bhkd->bhqk", x, {key}) / x.shape[-1] ** 0.5 ; torch.einsum("bhqk,bhkd->bhqd", F.softmax(s, dim=-1), {value})
attention_causal@heads: s = x @ {key}.transpose(-2, -1) / math.sqrt(x.size(-1))
    ; hidden = torch.triu(torch.ones(x.size(-2), x.size(-2), dtype=torch.bool, device=x.device), diagonal=1)
    ; s = s.masked_fill(hidden, float("-inf"))
    ; torch.softmax(s, dim=-1) @ {value}
attention_softcap@heads: s = x @ {key}.transpose(-2, -1) * {0.125/0.25} ; s = {5.0/10.0/20.0} * torch.tanh(s / {5.0/10.0/20.0})
    ; torch.softmax(s, dim=-1) @ {value}
attention_relu@heads: s = torch.relu(x @ {key}.transpose(-2, -1)) / x.size(-2) ; s @ {value}
attention_sigmoid@heads: w = torch.sigmoid(torch.matmul(x, {key}.transpose(-2, -1)) * {0.125/0.25}) ; torch.matmul(w, {value}) / x.size(-2)
linear_attention@heads: q = F.elu(x) + 1 ; k = F.elu({key}) + 1 ; kv = k.transpose(-2, -1) @ {value}
    ; (q @ kv) / (q @ k.sum(dim=-2).unsqueeze(-1))
    | q = torch.softmax(x, dim=-1) ; k = torch.softmax({key}, dim=-2) ; q @ (k.transpose(-2, -1) @ {value})
attention_alibi@heads: n = x.size(-2) ; far = torch.arange(n, device=x.device)[None, :] - torch.arange(n, device=x.device)[:, None]
    ; s = x @ {key}.transpose(-2, -1) / math.sqrt(x.size(-1)) - {slope} * far.abs() ; torch.softmax(s, dim=-1) @ {value}
attention_window@heads: i = torch.arange(x.size(-2), device=x.device) ; far = (i[:, None] - i[None, :]).abs() > {8/16/32}
    ; s = (x @ {key}.transpose(-2, -1)) * x.size(-1) ** -0.5 ; s = s.masked_fill(far, float("-inf")) ; s.softmax(dim=-1) @ {value}
attention_grouped@heads: k = {few_keys}.repeat_interleave(2, dim=1) ; v = {few_values}.repeat_interleave(2, dim=1)
    ; F.scaled_dot_product_attention(x, k, v)
attention_cross@heads: F.scaled_dot_product_attention(x, {keys}, {key_values})
    | torch.softmax(x @ {keys}.transpose(-2, -1) / math.sqrt(x.size(-1)), dim=-1) @ {key_values}
rotary@heads: x1, x2 = x.chunk(2, dim=-1) ; x * {cosine} + torch.cat((-x2, x1), dim=-1) * {sine}
    | x1, x2 = x[..., ::2], x[..., 1::2] ; x * {cosine} + torch.stack((-x2, x1), dim=-1).flatten(-2) * {sine}
self_attention@embedded: b, n, c = x.shape ; q, k, v = {@qkv}(x).reshape(b, n, 3, {2/4/8}, c // {2/4/8}).permute(2, 0, 3, 1, 4)
    ; o = F.scaled_dot_product_attention(q, k, v) ; {@proj}(o.transpose(1, 2).reshape(b, n, c)) <- qkv = nn.Linear({F}, 3 * {F})
    & proj = nn.Linear({F}, {F})
    | b, n, c = x.shape ; q, k, v = {@qkv}(x).reshape(b, n, 3, {2/4/8}, c // {2/4/8}).permute(2, 0, 3, 1, 4)
    ; o = ((q @ k.transpose(-2, -1)) * (c // {2/4/8}) ** -0.5).softmax(dim=-1) @ v ; {@proj}(o.transpose(1, 2).reshape(b, n, c))
    <- qkv = nn.Linear({F}, 3 * {F}) & proj = nn.Linear({F}, {F})
self_attention_causal@embedded: b, n, c = x.shape ; q, k, v = {@qkv}(x).reshape(b, n, 3, {2/4/8}, c // {2/4/8}).permute(2, 0, 3, 1, 4)
    ; o = F.scaled_dot_product_attention(q, k, v, is_causal=True) ; {@proj}(o.transpose(1, 2).reshape(b, n, c))
    <- qkv = nn.Linear({F}, 3 * {F}) & proj = nn.Linear({F}, {F})
multihead_attention@embedded: {@attn}(x, x, x)[0] <- attn = nn.MultiheadAttention({F}, {2/4/8}, batch_first=True)
    | out, _ = {@attn}(x, x, x, need_weights=False) ; out <- attn = nn.MultiheadAttention({F}, {2/4/8}, batch_first=True)
cross_attention@embedded: {@attn}(x, {memory}, {memory}, need_weights=False)[0]
    <- attn = nn.MultiheadAttention({F}, {2/4/8}, batch_first=True)
attention_pooling@embedded: w = torch.softmax({@score}(x), dim=1) ; (w * x).sum(dim=1) <- score = nn.Linear({F}, 1, bias=False)
    | w = F.softmax(x @ {@query}, dim=1) ; torch.einsum("bn,bnd->bd", w, x) <- query = nn.Parameter(torch.randn({F}) * {F} ** -0.5)

[look] indexing 6 0.2
flatten: torch.flatten(x, 1) | x.flatten(2) | x.reshape(x.shape[0], -1) | x.view(x.shape[0], 8, -1)
transpose: x.transpose(1, 2) | x.flatten(2).transpose(1, 2)
crop: x[:, :, 2:, :-2] | x[..., 1:-1, 1:-1] | x[:, :, 2:-2] | x[..., :-1]
last_step: x[:, -1]
squeeze: x.squeeze(-1).squeeze(-1) | x.unsqueeze(1)
pad_constant: F.pad(x, ({1/2/3}, {0/1/2}), value={0.0/1.0}) | F.pad(x, (1, 1, 1, 1)) | F.pad(x, ({1/2}, {0/1}), mode="constant", value=1.0)
dropout: nn.Dropout(0.0)

[cat] indexing 1.5 0.1
concatenate: torch.cat([x, {other}], dim={dim}) | torch.cat((x, {other}), dim={dim})
stack_max: torch.stack([x, {other}], dim=0).max(dim=0)[0] | torch.stack((x, {other})).amax(dim=0)

[move] indexing 1 1.0
embedding*1.5@tokens: nn.Embedding({vocabulary}, {width}) | F.embedding(x, {@table})
    <- table = nn.Parameter(torch.randn({vocabulary}, {width}))
    | {@table}[x] <- table = nn.Parameter(torch.randn({vocabulary}, {width}))
embedding_bag@tokens: nn.EmbeddingBag({vocabulary}, {width}, mode="{sum/mean/max}")
embedding_positions@tokens: {@tokens}(x) + {@positions}.weight <- tokens = nn.Embedding({vocabulary}, {width})
    & positions = nn.Embedding({F}, {width})
    | at = torch.arange(x.size(1), device=x.device) ; {@tokens}(x) + {@positions}(at)
    <- tokens = nn.Embedding({vocabulary}, {width}) & positions = nn.Embedding({F}, {width})
one_hot_sum@tokens: F.one_hot(x, {vocabulary}).float().mean(dim=1) | F.one_hot(x, num_classes={vocabulary}).float().sum(dim=1)
gather@rows: torch.gather(x, 1, {index}) | torch.gather(x, dim=1, index={index}) | x.gather(1, {index})
take_along_dim@sequence: torch.take_along_dim(x, {deep_index}, dim=-1)
index_select@rows,sequence: torch.index_select(x, -1, {picks}) | x.index_select(-1, {picks}) | torch.index_select(x, 0, {row_picks})
row_lookup@rows: x[{row_picks}] | x[{row_picks}, :]
scatter_add@rows: torch.zeros({bins}, x.size(1), device=x.device, dtype=x.dtype).index_add_(0, {groups}, x)
    | torch.zeros({bins}, x.shape[1], device=x.device, dtype=x.dtype).index_add(0, {groups}, x)
scatter_rows@rows: torch.zeros_like(x).scatter_add(1, {same_index}, x) | torch.zeros_like(x).scatter_add_(1, {same_index}, x)
sort@rows: torch.sort(x, dim=-1)[0] | torch.sort(x, dim=-1, descending=True).values | x.sort(dim=-1).values
argsort@rows~normal: torch.argsort(x, dim=-1) | x.argsort(dim=-1, descending=True)
roll: torch.roll(x, shifts={1/2/3/5}, dims={dim}) | torch.roll(x, {1/2/5}, dims={dim}) + x | x.roll(-{1/4}, dims={dim})
flip: torch.flip(x, dims=[{dim}]) | x.flip({back})
transpose_copy@sequence,maps1: x.transpose(1, 2).contiguous() | x.permute(0, 2, 1).contiguous()
channels_last@maps2: x.permute(0, 2, 3, 1).contiguous() | torch.permute(x, (0, 2, 3, 1)).contiguous()
split_heads@embedded: x.view(x.size(0), x.size(1), {2/4/8}, -1).transpose(1, 2).contiguous()
    | x.reshape(*x.shape[:2], {2/4/8}, -1).permute(0, 2, 1, 3).contiguous()
pixel_shuffle@maps2: nn.PixelShuffle({2/3}) | F.pixel_shuffle(x, {2/3})
pixel_unshuffle@maps2: nn.PixelUnshuffle(2) | F.pixel_unshuffle(x, 2)
channel_shuffle@maps2: nn.ChannelShuffle({2/4}) | x.view(x.size(0), {2/4}, -1, x.size(2), x.size(3)).transpose(1, 2).reshape(x.shape)
pad_reflect@maps2: nn.ReflectionPad2d({1/2/3}) | F.pad(x, ({1/2}, {1/2}, {1/2}, {1/2}), mode="reflect")
pad_replicate@maps2: nn.ReplicationPad2d({1/2}) | F.pad(x, ({1/2}, {1/2}, {1/2}, {1/2}), mode="replicate")
upsample_nearest@maps2: nn.Upsample(scale_factor={2/3}, mode="nearest") | F.interpolate(x, scale_factor={2/3}, mode="nearest")
    | F.interpolate(x, scale_factor={2/3})
upsample_bilinear@maps2: nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
    | F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
repeat_interleave@sequence,heads,maps2: torch.repeat_interleave(x, {2/3/4}, dim=1) | x.repeat_interleave({2/3/4}, dim=1)
triangle@sequence,heads: torch.tril(x) | torch.triu(x) | torch.tril(x, diagonal=-1)
cosine_similarity@rows,sequence: F.cosine_similarity(x, {other}, dim=-1)
pairwise_distance@rows: F.pairwise_distance(x, {other}) | torch.norm(x - {other}, dim=-1)
    | torch.sqrt(((x - {other}) ** 2).sum(dim=-1) + 1e-6)
token_shift@sequence: back = F.pad(x, (0, 0, 1, 0))[:, :-1] ; x * {@mix} + back * (1 - {@mix}) <- mix = nn.Parameter(torch.rand({F}))
    | back = torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], dim=1) ; x + {@mix} * (back - x) <- mix = nn.Parameter(torch.rand({F}))
"""
