"""The helper functions that a C++ or CUDA source needs. Their texts are those of the kernel library, from which `link` also takes them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bottega.compiler.library.cpp.functions import FUNCTIONS, spaced

VECTORS = {
    "exp": "exp_simd", "expm1": "expm1_simd", "tanh": "tanh_simd", "sigmoid": "sigmoid_simd", "erf": "erf_simd",
    "log": "log_simd", "log1p": "log1p_simd", "sin": "sin_simd", "cos": "cos_simd", "log1p_below_one": "log1p_below_one_simd",
}  # fmt: skip
"""Functions of fp32 that have a form which vectorises."""


class Prelude:
    """The functions that a file needs so far, in an order in which each is defined before it is used."""

    def __init__(self, on_gpu: bool = False) -> None:
        self._texts: dict[str, str] = {}
        self._on_gpu = on_gpu

    def use(self, name: str, kind: str = "float") -> None:
        """Have a function of the table defined, at a type where it has a choice (overloads where two are asked for)."""
        text, needs = FUNCTIONS[name]
        for need in needs:
            self.use(need)
        self._texts.setdefault(f"{name} {kind}" if "TYPE" in text else name, text.replace("TYPE", kind))

    def add(self, name: str, text: str) -> None:
        self._texts.setdefault(name, text)

    def text(self, functions: Sequence[str]) -> str:
        """Without arithmetic of indices that none of these functions calls any more."""
        texts: list[str] = []
        for text in reversed(self._texts.values()):  # each is defined before it is used
            name = re.match(r"static inline int64_t (\w+)\(", text)
            if name is None or any(re.search(rf"\b{name[1]}\b", other) for other in (*functions, *texts)):
                texts.insert(0, text)
        if self._on_gpu:
            texts = [_on_device(text) for text in texts]
        return "\n\n".join(spaced(texts))


def _on_device(text: str) -> str:
    """CUDA's functions are not in namespace std and are called from kernels."""
    if text.startswith("static inline float widen"):
        return "__device__ __forceinline__ float widen(uint16_t bits) { return __uint_as_float(uint32_t(bits) << 16); }"
    text = text.replace("static inline", "__device__ __forceinline__").replace("std::nearbyint", "rint").replace("std::", "")
    return text.replace("uint32_t bits;\n  memcpy(&bits, &value, 4);", "const uint32_t bits = __float_as_uint(value);")
