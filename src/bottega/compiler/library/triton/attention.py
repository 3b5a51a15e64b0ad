"""Attention: a block of queries stays, keys and values stream by, the softmax runs along; no score is ever stored.

In fp32; in halves only where nothing else of a file is a kernel, since the library's is better.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"
import torch
import triton
import triton.language as tl

from bottega.compiler.library.triton.large import index_is_large, index_lanes, index_program
from bottega.compiler.library.triton.tiles import ALONE, kernel_ready, library_is_best


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, mask_ptr, out_ptr, heads, shared, queries, keys, scale,
    stride_qb, stride_qh, stride_qm, stride_qd, stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd, stride_mb, stride_mh, stride_mm, stride_mn,
    CAUSAL: tl.constexpr, MASKED: tl.constexpr, ADDED: tl.constexpr, D: tl.constexpr, DV: tl.constexpr,
    WIDE_D: tl.constexpr, WIDE_DV: tl.constexpr, MORE: tl.constexpr, BQ: tl.constexpr, BK: tl.constexpr, LARGE: tl.constexpr,
):  # fmt: skip
    head, batch = tl.program_id(1).to(tl.int64) % heads, tl.program_id(1).to(tl.int64) // heads
    row = (index_program(0, LARGE) * BQ + index_lanes(BQ, LARGE))[:, None]
    d, col = index_lanes(WIDE_D, LARGE), index_lanes(WIDE_DV, LARGE)[None, :]
    q_ptr += batch * stride_qb + head * stride_qh
    k_ptr += batch * stride_kb + head // shared * stride_kh
    v_ptr += batch * stride_vb + head // shared * stride_vh
    q = tl.load(q_ptr + row * stride_qm + d[None, :] * stride_qd, mask=(row < queries) & (d[None, :] < D), other=0.0)
    if MORE:
        d_more, col_more = WIDE_D + index_lanes(MORE, LARGE), WIDE_DV + index_lanes(MORE, LARGE)[None, :]
        inside = (row < queries) & (d_more[None, :] < D)
        q_more = tl.load(q_ptr + row * stride_qm + d_more[None, :] * stride_qd, mask=inside, other=0.0)
        acc_more = tl.zeros((BQ, MORE), tl.float32)
    peak = tl.full((BQ, 1), -float("inf"), tl.float32)
    total = tl.zeros((BQ, 1), tl.float32)
    acc = tl.zeros((BQ, WIDE_DV), tl.float32)
    last = tl.minimum(keys, (index_program(0, LARGE) + 1) * BQ) if CAUSAL else keys
    for start in range(0, last, BK):
        key = start + index_lanes(BK, LARGE)
        across, down = key[None, :], key[:, None]
        kt = tl.load(k_ptr + across * stride_kn + d[:, None] * stride_kd, mask=(across < keys) & (d[:, None] < D), other=0.0)
        scores = tl.dot(q, kt, input_precision="tf32x3")
        if MORE:
            k_inside = (across < keys) & (d_more[:, None] < D)
            k_more = tl.load(k_ptr + across * stride_kn + d_more[:, None] * stride_kd, mask=k_inside, other=0.0)
            scores = tl.dot(q_more, k_more, scores, input_precision="tf32x3")
        scores *= scale
        seen = (across < keys) & (across <= row) if CAUSAL else across < keys
        if MASKED:
            at = mask_ptr + batch * stride_mb + head * stride_mh + row * stride_mm + across * stride_mn
            m = tl.load(at, mask=(row < queries) & (across < keys), other=0)
            if ADDED:
                m = m.to(tl.float32)
                scores += tl.where(m < -1e38, 0.5 * m, m) * 1.4426950408889634  # the lowest number times that is infinite
            else:
                seen = seen & (m != 0)
        scores = tl.where(seen, scores, -float("inf"))
        new = tl.maximum(peak, tl.max(scores, axis=1, keep_dims=True))
        level = tl.where(new == -float("inf"), 0.0, new) if MASKED else new
        p = tl.exp2(scores - level)
        fix = tl.exp2(peak - level)
        total = total * fix + tl.sum(p, axis=1, keep_dims=True)
        v = tl.load(v_ptr + down * stride_vn + col * stride_vd, mask=(down < keys) & (col < DV), other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * fix, input_precision="tf32x3")
        if MORE:
            v_inside = (down < keys) & (col_more < DV)
            v_more = tl.load(v_ptr + down * stride_vn + col_more * stride_vd, mask=v_inside, other=0.0)
            acc_more = tl.dot(p.to(v.dtype), v_more, acc_more * fix, input_precision="tf32x3")
        peak = new
    total = tl.where(total == 0, 1.0, total)
    out_at = out_ptr + (tl.program_id(1).to(tl.int64) * queries + row) * DV
    tl.store(out_at + col, acc / total, mask=(row < queries) & (col < DV))
    if MORE:
        tl.store(out_at + col_more, acc_more / total, mask=(row < queries) & (col_more < DV))


def attention_tile(queries, causal, width):
    """Queries and keys of a block, and its warps."""
    if width > 64:
        return (64, 32, 4) if width <= 128 else (32, 16, 4)
    return (64, 64, 4) if causal or queries < 1024 else (128, 32, 4)


def attention_pieces(width):
    """A power of two and, where that leaves much of the next one empty, another beside it: a head of 96 is 64 and 32."""
    whole = max(16, triton.next_power_of_2(width))
    first = whole // 2
    rest = max(16, triton.next_power_of_2(width - first)) if whole > 64 else whole
    return (first, rest) if first + rest < whole else (whole, 0)


def attention_by_kernel(query, key, value, mask, causal, scale, tile=None, warps=None, stages=None):
    """Attention of query (B, H, L, D) over key and value (B, G, S, D), where H is a multiple of G."""
    (B, H, L, D), (G, S), DV = query.shape, key.shape[1:3], value.shape[-1]
    BQ, BK, many = attention_tile(L, causal, max(D, DV)) if tile is None else (*tile, 4)
    value = value.mT.contiguous().mT  # along the keys, as the second product reads it
    out = torch.empty(B, H, L, DV, device=query.device, dtype=query.dtype)
    masked = mask is not None
    added = masked and mask.dtype != torch.bool
    seen = (mask if added else mask.view(torch.int8)).expand(B, H, L, S) if masked else None
    steps = seen.stride() if seen is not None else (0, 0, 0, 0)
    (wide, more), (wide_v, more_v) = attention_pieces(D), attention_pieces(DV)
    if more != more_v:
        wide, wide_v, more = max(16, triton.next_power_of_2(D)), max(16, triton.next_power_of_2(DV)), 0
    attention_kernel[(triton.cdiv(L, BQ), B * H)](
        query, key, value, seen, out, H, H // G, L, S, (D**-0.5 if scale is None else scale) * 1.4426950408889634,
        *query.stride(), *key.stride(), *value.stride(), *steps,
        CAUSAL=causal, MASKED=masked, ADDED=added, D=D, DV=DV, WIDE_D=wide, WIDE_DV=wide_v, MORE=more, BQ=BQ, BK=BK,
        LARGE=index_is_large(query, key, value, seen, out), num_warps=warps or many, num_stages=stages or 2,
    )  # fmt: skip
    return out


def scaled_dot_product_attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False, *, own=None, **choices
):
    """torch.nn.functional.scaled_dot_product_attention."""
    alike = query.dim() == key.dim() == value.dim() and query.dim() in (3, 4) and kernel_ready(query, key, value)
    if alike and own is not False:
        q, k, v = (x if x.dim() == 4 else x.unsqueeze(0) for x in (query, key, value))
        alike = q.shape[0] == k.shape[0] == v.shape[0] and k.shape[:3] == v.shape[:3] and q.shape[3] == k.shape[3]
        alike = alike and (q.shape[1] % k.shape[1] == 0 if enable_gqa and query.dim() == 4 else q.shape[1] == k.shape[1])
        widths, lengths = (q.shape[3], v.shape[3]), (q.shape[2], k.shape[2])
        pays = min(widths) >= 16 and max(widths) <= 64 and min(lengths) >= 16
        alike = (
            alike
            and ((pays and not library_is_best(query)) or ((own or ALONE) and max(widths) <= 256))
            and q.shape[0] * q.shape[1] <= 65535
        )
    if alike and attn_mask is not None:
        plain = attn_mask.dtype in (torch.bool, query.dtype) and attn_mask.dim() <= query.dim() and not is_causal
        wanted = torch.is_grad_enabled() and attn_mask.requires_grad
        alike = plain and not wanted and attn_mask.device == query.device
    if own is False or not alike or dropout_p > 0:
        return torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        ).contiguous()
    return attention_by_kernel(q, k, v, attn_mask, is_causal, scale, **choices).reshape(*query.shape[:-1], value.shape[-1])
