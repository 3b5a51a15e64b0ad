"""The rule by which layers pick their tiles, as text: it is part of the answer, and the same for products and convolutions."""

TILES = """
def tiles(rows, columns, depth):
    # Large tiles where they fill the device; else small ones, and the depth in pieces.
    BN = 128 if columns > 64 else 64
    if triton.cdiv(rows, 128) * triton.cdiv(columns, BN) >= 132:
        return 128, BN, 1, BN // 16
    count = triton.cdiv(rows, 64) * triton.cdiv(columns, 64)
    return 64, 64, max(1, min(8, 264 // count, depth // 256)), 4
"""
