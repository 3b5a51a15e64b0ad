"""Matrix products in fp32 as three TF32 products: linear, matmul and its kin, over any strides; a matrix by a vector as row sums.

Halves are multiplied as they are and added up in fp32; large products of them are the library's, those that memory limits are ours.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"
import torch
import triton
import triton.language as tl

from bottega.compiler.library.triton.large import index_is_large, index_lanes, index_program
from bottega.compiler.library.triton.tiles import ALONE, half_tiles, kernel_ready, library_is_best, tile_warps, tiles

MATVEC_LEAST = 2**20
PRODUCT_NARROWEST = 64
PRODUCT_LEAST = 2**27
PRODUCT_SHORT = 256
PRODUCT_MANY = 1024


@triton.jit
def product_kernel(
    a_ptr, b_ptr, bias_ptr, out_ptr, M, N, K, inner,
    stride_ao, stride_ai, stride_am, stride_ak, stride_bo, stride_bi, stride_bk, stride_bn, stride_om, stride_on,
    SPLIT: tl.constexpr, EVEN: tl.constexpr, EVEN_K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    LARGE: tl.constexpr,
):  # fmt: skip
    pid, batch, piece = index_program(0, LARGE), tl.program_id(1).to(tl.int64), index_program(2, LARGE)
    # Eight tiles of rows at a time, so that programs that run together share operands in L2.
    wide = 8 * tl.cdiv(N, BN)
    first = pid // wide * 8
    height = tl.minimum(tl.cdiv(M, BM) - first, 8)
    row = ((first + pid % wide % height) * BM + index_lanes(BM, LARGE))[:, None]
    col = (pid % wide // height * BN + index_lanes(BN, LARGE))[None, :]
    a_ptr += batch // inner * stride_ao + batch % inner * stride_ai
    b_ptr += batch // inner * stride_bo + batch % inner * stride_bi
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(piece * BK, K, SPLIT * BK):
        k = start + index_lanes(BK, LARGE)
        a_at = a_ptr + row * stride_am + k[None, :] * stride_ak
        b_at = b_ptr + k[:, None] * stride_bk + col * stride_bn
        if EVEN:
            a = tl.load(a_at)
            b = tl.load(b_at)
        elif EVEN_K:
            a = tl.load(a_at, mask=row < M, other=0.0)
            b = tl.load(b_at, mask=col < N, other=0.0)
        else:
            a = tl.load(a_at, mask=(row < M) & (k[None, :] < K), other=0.0)
            b = tl.load(b_at, mask=(col < N) & (k[:, None] < K), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="tf32x3")
    if bias_ptr is not None:
        acc += tl.where(piece == 0, tl.load(bias_ptr + col, mask=col < N, other=0.0), 0.0)
    out_ptr += (piece * tl.num_programs(1) + batch) * M * N
    tl.store(out_ptr + row * stride_om + col * stride_on, acc, mask=(row < M) & (col < N))


def product(a, b, bias=None, turned=False, tile=None, warps=None, stages=None, splits=None):
    """a (outer, inner, M, K) @ b (outer, inner, K, N) + bias (N); turned: the result lies in memory column by column."""
    (outer, inner, M, K), N = a.shape, b.shape[-1]
    BM, BN, split, many = (tiles if a.dtype == torch.float32 else half_tiles)(M, N, K, outer * inner)
    narrow = ALONE and min(M, N) <= 64  # limited by memory: more programs at a time, with less each
    BK = 64 if K > 64 and K % 64 == 0 and not narrow else 32
    if tile is not None:
        (BM, BN, BK), split, many = tile, 1, tile_warps(tile)
    split = splits or split
    dtype = a.dtype if split == 1 else torch.float32
    out = torch.empty(split, outer, inner, *((N, M) if turned else (M, N)), device=a.device, dtype=dtype)
    grid = (triton.cdiv(M, BM) * triton.cdiv(N, BN), outer * inner, split)
    even = K % BK == 0
    product_kernel[grid](
        a, b, bias, out, M, N, K, inner, *a.stride(), *b.stride(), *((1, M) if turned else (N, 1)),
        SPLIT=split, EVEN=even and M % BM == 0 and N % BN == 0, EVEN_K=even, BM=BM, BN=BN, BK=BK,
        LARGE=index_is_large(a, b, out), num_warps=warps or many, num_stages=stages or (3 if K > BK else 1),
    )  # fmt: skip
    out = out[0] if split == 1 else out.sum(0).to(a.dtype)
    return out.transpose(-1, -2) if turned else out


def product_lies(x, axis):
    """Whether the matrix lies along this axis, of two, and can be read in vectors along it."""
    return x.stride(axis) == 1 and x.stride(-3 - axis) % (16 // x.element_size()) == 0 and x.shape[axis] % 16 == 0


def matrix_product(a, b, bias=None, tile=None, **choices):
    """a (..., M, K) @ b (..., K, N) with batches broadcast; operands are turned or copied so that the second lies along the depth."""
    M, N, K = a.shape[-2], b.shape[-1], a.shape[-1]
    if K % 16:
        a = torch.nn.functional.pad(a, (0, -K % 32))
        b = torch.nn.functional.pad(b.transpose(-1, -2), (0, -K % 32)).transpose(-1, -2)
        K = a.shape[-1]
    deep_a, deep_b = product_lies(a, -1), product_lies(b, -2) or (b.dtype != torch.float32 and product_lies(b, -1))
    if not deep_a and not deep_b and bias is None and a.numel() < b.numel():
        a, deep_a = a.contiguous(), True
    turned = bias is None and deep_a and not deep_b and product_lies(b, -1)
    if not turned and not deep_b:
        b = b.transpose(-1, -2).contiguous().transpose(-1, -2)
    if not deep_a and not product_lies(a, -2):
        a = a.contiguous()
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = a.expand(*batch, M, K), b.expand(*batch, K, N)
    if len(batch) > 2:
        a, b = a.flatten(0, -4), b.flatten(0, -4)
    while a.dim() < 4:
        a, b = a.unsqueeze(0), b.unsqueeze(0)
    if turned:
        tile = None if tile is None else (tile[1], tile[0], tile[2])
        out = product(b.transpose(-1, -2), a.transpose(-1, -2), None, True, tile, **choices).transpose(-1, -2)
    else:
        out = product(a, b, bias, False, tile, **choices)
    return out.reshape(*batch, M, N)


def product_pays(M, N, K, half=False):
    """Whether three TF32 products beat the library's fp32: not where little is computed for each element that is moved. Halves: only there."""
    if ALONE:
        return True
    if half:
        return K <= PRODUCT_SHORT and M >= PRODUCT_MANY and K % 16 == N % 16 == 0
    least = min(M, N, K)
    if N < PRODUCT_NARROWEST or M * N * K < PRODUCT_LEAST:
        return False
    return least >= 256 or (least >= 32 and K % 16 == 0 and (N % 16 == 0 or K >= 256))


@triton.jit
def matvec_kernel(
    a_ptr, x_ptr, out_ptr, M, K, stride_am, stride_ak, stride_x,
    PIECES: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr, LARGE: tl.constexpr,
):  # fmt: skip
    row = (tl.program_id(0).to(tl.int64) * BM + index_lanes(BM, LARGE))[:, None]
    piece = index_program(1, LARGE)
    acc = tl.zeros((BM, BK), tl.float32)
    for start in range(piece * BK, K, PIECES * BK):
        k = (start + index_lanes(BK, LARGE))[None, :]
        a = tl.load(a_ptr + row * stride_am + k * stride_ak, mask=(row < M) & (k < K), other=0.0).to(tl.float32)
        acc += a * tl.load(x_ptr + k * stride_x, mask=k < K, other=0.0)
    total = tl.sum(acc, axis=1, keep_dims=True)
    tl.store(out_ptr + piece * M + row, total, mask=row < M)


def matvec(a, x, tile=None, warps=None, stages=None, splits=None):
    """a (M, K) @ x (K): each row a sum, long rows in pieces; a tile is rows and depth."""
    M, K = a.shape
    if a.stride(0) == 1 and a.stride(1) != 1:
        BM, BK = 128, 32
    else:
        BK = min(1024, max(32, triton.next_power_of_2(K)))
        BM = 4096 // BK
    if tile is not None:
        BM, BK = tile[0], tile[-1]
    blocks = triton.cdiv(M, BM)
    pieces = splits or max(1, min(triton.cdiv(2112, blocks), triton.cdiv(K, 4 * BK)))
    out = torch.empty(pieces, M, device=a.device, dtype=a.dtype if pieces == 1 else torch.float32)
    matvec_kernel[(blocks, pieces)](
        a, x, out, M, K, *a.stride(), x.stride(0), PIECES=pieces, BM=BM, BK=BK, LARGE=index_is_large(a, x), num_warps=warps or 8,
        num_stages=stages or 3,
    )  # fmt: skip
    return out[0] if pieces == 1 else out.sum(0).to(a.dtype)


def matvec_ready(a, x):
    """Whether the matrix is large enough, with rows or columns that can be read as they lie."""
    if not kernel_ready(a, x) or max(a.shape) >= 2**31:
        return False
    if a.numel() < MATVEC_LEAST and not ALONE:
        return False
    return 1 in a.stride()[-2:]


def matmul(input, other, *, own=None, **choices):
    """torch.matmul."""
    a, b = input, other
    if own is False or a.dim() < 1 or b.dim() < 1 or a.shape[-1] != b.shape[max(-2, -b.dim())]:
        return torch.matmul(a, b).contiguous()
    if ALONE and a.dim() == 1 and b.dim() != 2:
        return matmul(a.unsqueeze(0), b, **choices).squeeze(-1 if b.dim() == 1 else -2)
    if a.dim() > 1 and (b.dim() == 1 or (b.dim() == 2 and b.shape[1] == 1)):
        x = b.reshape(-1)
        if ALONE and (a.dim() > 2 or 1 not in a.stride()):
            a = a.contiguous()
        if (a.dim() == 2 or a.is_contiguous()) and matvec_ready(a, x):
            return matvec(a.reshape(-1, a.shape[-1]), x, **choices).view(*a.shape[:-1], *b.shape[1:])
        return torch.matmul(a, b).contiguous()
    if b.dim() == 2 and (a.dim() == 1 or (a.dim() == 2 and a.shape[0] == 1)):
        x, matrix = a.reshape(-1), (b.contiguous() if ALONE and 1 not in b.stride() else b).transpose(0, 1)
        ready = matvec_ready(matrix, x)
        return matvec(matrix, x, **choices).view(*a.shape[:-1], b.shape[1]) if ready else torch.matmul(a, b).contiguous()
    if min(a.dim(), b.dim()) < 2 or not kernel_ready(a, b):
        return torch.matmul(a, b).contiguous()
    flat = a.reshape(-1, a.shape[-1]) if b.dim() == 2 and a.is_contiguous() else a
    (M, K), N = flat.shape[-2:], b.shape[-1]
    batch = torch.broadcast_shapes(flat.shape[:-2], b.shape[:-2])
    count = batch.numel()
    pays = product_pays(M, N, K, library_is_best(a)) and (ALONE or count == 1 or K % 16 == 0)
    if not (own or pays) or count > 65535:
        return torch.matmul(a, b).contiguous()
    out = matrix_product(flat, b, **choices)
    return out.view(*a.shape[:-1], N) if b.dim() == 2 else out


def mm(input, mat2, **choices):
    """torch.mm."""
    return matmul(input, mat2, **choices) if input.dim() == mat2.dim() == 2 else torch.mm(input, mat2)


def bmm(input, mat2, **choices):
    """torch.bmm."""
    alike = input.dim() == mat2.dim() == 3 and input.shape[0] == mat2.shape[0]
    return matmul(input, mat2, **choices) if alike else torch.bmm(input, mat2)


def linear(input, weight, bias=None, *, own=None, **choices):
    """torch.nn.functional.linear."""
    fits = input.dim() >= 1 and weight.dim() == 2 and input.shape[-1] == weight.shape[1] and kernel_ready(input, weight, bias)
    if fits and own is not False:
        (N, K), M = weight.shape, input.numel() // input.shape[-1]
        pays = own or product_pays(M, N, K, library_is_best(input))
        if pays and (bias is None or (bias.shape == (N,) and bias.is_contiguous())):
            return matrix_product(input.reshape(M, K), weight.t(), bias, **choices).view(*input.shape[:-1], N)
    return torch.nn.functional.linear(input, weight, bias).contiguous()


def einsum(equation, *operands, **choices):
    """torch.einsum; a sum over letters that two operands share is a product of matrices."""
    text = equation.replace(" ", "")
    terms, given, result = text.partition("->")
    names = terms.split(",")
    if not given:
        result = "".join(sorted(c for c in terms if c != "," and terms.count(c) == 1))
    if "." in text or len(operands) != 2 or len(names) != 2 or not kernel_ready(*operands):
        return torch.einsum(equation, *operands).contiguous()
    (left, right), (a, b) = names, operands
    sizes = dict(zip(left + right, a.shape + b.shape))
    unique = all(len(set(term)) == len(term) for term in (left, right, result))
    alike = len(left) == a.dim() and len(right) == b.dim() and all(a.shape[left.index(c)] == sizes[c] for c in left)
    both = [c for c in left if c in right]
    batch, depth = [c for c in both if c in result], [c for c in both if c not in result]
    rows, columns = [c for c in left if c not in right], [c for c in right if c not in left]
    outer = ALONE and rows and columns
    if not unique or not alike or not (depth or outer) or set(result) != {*batch, *rows, *columns}:
        return torch.einsum(equation, *operands).contiguous()

    def gathered(x, term, *groups):
        return x.permute([term.index(c) for group in groups for c in group])

    def size(group):
        return torch.Size(sizes[c] for c in group).numel()

    lead = [sizes[c] for c in batch]
    a = gathered(a, left, batch, rows, depth).reshape(*lead, size(rows), size(depth))
    b = gathered(b, right, batch, depth, columns).reshape(*lead, size(depth), size(columns))
    out = matmul(a, b, **choices).reshape([sizes[c] for c in (*batch, *rows, *columns)])
    return gathered(out, [*batch, *rows, *columns], result).contiguous()
