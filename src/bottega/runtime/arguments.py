"""Turns what Python passes into what C expects: tensors into addresses, numbers into their declared width, or an error.

One converter is prepared per parameter when a library is loaded, so that a call costs a few microseconds.
Tensors are known by what they offer (`data_ptr`, `dtype`), which keeps torch out of the imports.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Literal

from .errors import ArgumentError
from .signature import SCALARS, CType, Signature

Place = Literal["cpu", "cuda"]
Converter = Callable[[Any], Any]

# C++ has no plain name for narrow floats, so integers of their width carry their bits.
_ONE_BYTE = ("int8", "uint8", "bool", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")
_TWO_BYTES = ("int16", "uint16", "float16", "bfloat16")
_BY_CODE: dict[str, tuple[str, ...]] = {
    **dict.fromkeys("bB", _ONE_BYTE),
    **dict.fromkeys("hH", _TWO_BYTES),
    **dict.fromkeys("iI", ("int32", "uint32")),
    **dict.fromkeys("qQ", ("int64", "uint64")),
    "f": ("float32", "complex64"),
    "d": ("float64", "complex128"),
    "?": ("bool",),
}
_BY_NAME: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("half", "__half", "half2", "__half2", "_Float16", "__fp16"), ("float16",)),
    **dict.fromkeys(("__nv_bfloat16", "nv_bfloat16", "__nv_bfloat162", "nv_bfloat162", "__bf16"), ("bfloat16",)),
    **dict.fromkeys(("float2", "float3", "float4"), _BY_CODE["f"]),
    "double2": _BY_CODE["d"],
}
_WIDTHS = {"b": 8, "B": 8, "h": 16, "H": 16, "i": 32, "I": 32, "q": 64, "Q": 64}
_FLOAT_LIMIT = 3.4028235677973366e38
"""From here on a double rounds to an infinite float."""


def converters(signature: Signature, place: Place) -> tuple[Converter, ...]:
    """One function per parameter that returns what is to be passed, or raises `ArgumentError`."""
    return tuple(
        _converter(parameter.type, f"{signature.name}: argument {number} ({parameter})", place)
        for number, parameter in enumerate(signature.parameters, 1)
    )


def wrong_argument_count(signature: Signature, given: int) -> ArgumentError:
    return ArgumentError(f"{signature} takes {len(signature.parameters)} arguments, but {given} were given")


def _converter(kind: CType, where: str, place: Place) -> Converter:
    if kind.pointers:
        return _pointer(kind, where, place)
    if kind.code is None:
        return _unsupported(where)
    if kind.code == "?":
        return _boolean(where)
    return _floating(where, kind.code) if kind.code in "fd" else _integer(where, kind.code)


def _pointer(kind: CType, where: str, place: Place) -> Converter:
    wanted: tuple[str, ...] = ()  # void*, a pointer to pointers, an unknown type: any tensor will do
    if kind.pointers == 1:
        wanted = _BY_CODE[SCALARS[kind.base]] if kind.base in SCALARS else _BY_NAME.get(kind.base, ())
    agreed: set[object] = set()

    def convert(value: Any) -> int:
        if value is None:
            return 0
        if type(value) is int:
            if 0 <= value < 2**64:
                return value
            raise ArgumentError(f"{where}: {value} is no address")
        try:
            address: int = value.data_ptr()
            here: bool = value.is_cuda if place == "cuda" else value.is_cpu
        except (AttributeError, RuntimeError):
            raise ArgumentError(f"{where} takes a tensor, an address or None, but got {_described(value)}") from None
        if not here:
            raise ArgumentError(f"{where} takes a {place.upper()} tensor, but got one on {value.device}")
        if not value.is_contiguous():
            raise ArgumentError(
                f"{where} got a non-contiguous tensor (shape {tuple(value.shape)}, strides {value.stride()}); "
                "pass x.contiguous(), or x.data_ptr() if the kernel knows these strides"
            )
        dtype = value.dtype
        if dtype not in agreed:
            if wanted and str(dtype).removeprefix("torch.") not in wanted:
                raise ArgumentError(f"{where} takes {' or '.join(wanted[:4])}, but got a tensor of {dtype}")
            agreed.add(dtype)
        return address

    return convert


def _integer(where: str, code: str) -> Converter:
    width = _WIDTHS[code]
    lowest, highest = (0, 2**width - 1) if code.isupper() else (-(2 ** (width - 1)), 2 ** (width - 1) - 1)

    def convert(value: Any) -> int:
        if type(value) is not int:
            if hasattr(value, "data_ptr"):
                raise ArgumentError(f"{where} takes a number, but got a tensor; pass x.item()")
            try:
                value = operator.index(value)
            except TypeError:
                raise ArgumentError(f"{where} takes a whole number, but got {_described(value)}") from None
        if lowest <= value <= highest:
            return int(value)
        wider = "; declare it int64_t" if width < 64 and -(2**63) <= value < 2**63 else ""
        raise ArgumentError(f"{where}: {value} does not fit into {width} bits; it must lie in {lowest} .. {highest}{wider}")

    return convert


def _floating(where: str, code: str) -> Converter:
    def convert(value: Any) -> float:
        if type(value) is not float:
            if hasattr(value, "data_ptr"):
                raise ArgumentError(f"{where} takes a number, but got a tensor; pass x.item()")
            try:
                value = value.__float__()
            except (AttributeError, TypeError, OverflowError):
                raise ArgumentError(f"{where} takes a number, but got {_described(value)}") from None
        if code == "f" and not -_FLOAT_LIMIT < value < _FLOAT_LIMIT and value - value == 0:
            raise ArgumentError(f"{where}: {value} does not fit into a float; pass float('inf') for infinity")
        return value  # type: ignore[no-any-return]

    return convert


def _boolean(where: str) -> Converter:
    def convert(value: Any) -> bool:
        if hasattr(value, "data_ptr") or value not in (0, 1):
            raise ArgumentError(f"{where} takes True or False, but got {_described(value)}")
        return bool(value)

    return convert


def _unsupported(where: str) -> Converter:
    def convert(value: Any) -> Any:
        raise ArgumentError(
            f"{where}: this type cannot be passed by value from Python; take it by pointer, or as a plain number"
        )

    return convert


def _described(value: object) -> str:
    text = repr(value) if isinstance(value, int | float | str | bytes) else ""
    return f"{type(value).__name__} {text[:40]}".rstrip()
