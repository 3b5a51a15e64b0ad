"""Nested values cross as a skeleton and tensors, and come back as they were; specs from outside are held to the arena."""

from __future__ import annotations

import collections
import itertools
import json
import math
from dataclasses import dataclass

import pytest
import torch

from bottega.judge.arena import Arena
from bottega.judge.runner import Runner
from bottega.judge.tensor_transport import (
    ALIGNMENT,
    TensorSpec,
    Unsupported,
    contiguous_stride,
    flatten,
    is_dense,
    lay_out,
    plain_values,
    same_shape,
    unflatten,
)
from bottega.judge.trials import plain_equal, skeleton_text
from bottega.judge.worker_link import RunnerFailed

TENSORS = {
    "matrix": torch.randn(5, 7),
    "transposed": torch.randn(5, 7).t(),
    "permuted": torch.randn(2, 3, 4).permute(2, 0, 1),
    "channels_last": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "strided": torch.randn(10, 10)[::2, 1::3],
    "expanded": torch.randn(1, 4).expand(3, 4),
    "slice": torch.randn(100)[17:40],
    "scalar": torch.tensor(3.5),
    "one": torch.ones(1, 1, 1),
    "empty": torch.empty(0),
    "empty_matrix": torch.empty(3, 0, 2),
    "bf16": torch.randn(9).bfloat16(),
    "fp16": torch.randn(9).half(),
    "fp64": torch.randn(9).double(),
    "bool": torch.tensor([True, False, True]),
    "int64": torch.tensor([-(2**62), 2**62]),
    "uint8": torch.tensor([0, 255], dtype=torch.uint8),
    "complex64": torch.randn(6, dtype=torch.complex64),
    "complex128": torch.randn(6, dtype=torch.complex128).reshape(2, 3).t(),
    "fp8": torch.randn(16).to(torch.float8_e4m3fn),
}


@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_comes_back_from_an_arena_as_it_was(name: str) -> None:
    tensor = TENSORS[name]
    (spec,), end = lay_out([tensor])
    spec = TensorSpec.from_json(json.loads(json.dumps(spec.to_json())))
    arena = Arena.create("cpu", end)
    view = spec.view(arena.base)
    view.copy_(tensor)
    again = spec.view(arena.base)
    assert (again.dtype, again.shape) == (tensor.dtype, tensor.shape)
    assert torch.equal(again.float() if name == "fp8" else again, tensor.float() if name == "fp8" else tensor)
    if is_dense(tensor.shape, tensor.stride()):
        assert again.stride() == tensor.stride()


def test_tensors_lie_apart_and_aligned() -> None:
    specs, end = lay_out(list(TENSORS.values()), start=3)
    assert all(spec.offset % ALIGNMENT == 0 for spec in specs)
    for before, after in itertools.pairwise(specs):
        assert before.offset + before.extent <= after.offset
    assert specs[-1].offset + specs[-1].extent <= end
    assert specs[0].offset == ALIGNMENT


@pytest.mark.parametrize(
    ("shape", "stride", "dense"),
    [
        ((2, 3), (3, 1), True),
        ((2, 3), (1, 2), True),
        ((2, 3), (4, 1), False),
        ((2, 3), (0, 1), False),
        ((2, 1, 3), (3, 99, 1), True),
        ((), (), True),
        ((4,), (2,), False),
        ((3, 0, 2), (2, 2, 1), True),
        ((0, 5), (1, 1), True),
    ],
)
def test_dense(shape: tuple[int, ...], stride: tuple[int, ...], dense: bool) -> None:
    assert is_dense(shape, stride) is dense


def test_contiguous_stride_is_torch_s() -> None:
    for shape in [(2, 3, 4), (5,), (), (1, 7, 1), (3, 0, 2)]:
        assert contiguous_stride(shape) == torch.empty(shape).stride()


ONE, TWO = torch.ones(2), torch.zeros(3)
Pair = collections.namedtuple("Pair", "first second")


@dataclass
class Fields:
    first: object
    second: object


@pytest.mark.parametrize(
    "value",
    [
        ONE,
        (ONE, TWO),
        [ONE, [TWO, (ONE,)]],
        {"a": ONE, "b": {"c": [TWO, 3], "d": None}},
        (ONE, 3, 2.5, True, None, "text", [], (), {}),
        {1: ONE, 0: TWO},
        (ONE, torch.float16, torch.int64),
        (ONE, torch.device("cpu")),
        (ONE, torch.device("cuda")),
        (ONE, torch.device("cuda:1")),
    ],
    ids=str,
)
def test_nested_values_come_back_as_they_were(value: object) -> None:
    skeleton, tensors = flatten(value)
    again = unflatten(json.loads(json.dumps(skeleton)), tensors)
    assert repr(again) == repr(value)
    assert all(one is two for one, two in zip(flatten(again)[1], tensors))


def test_floats_that_json_does_not_know_come_back() -> None:
    skeleton, _ = flatten((math.inf, -math.inf, math.nan))
    again = unflatten(json.loads(json.dumps(skeleton, allow_nan=False)), [])
    assert again[:2] == (math.inf, -math.inf)
    assert math.isnan(again[2])


@pytest.mark.parametrize("value", [object(), {ONE: 1}, {("a",): 1}, {1.5, 2}, lambda: 0, {"a": {None: 1}}])
def test_other_values_are_refused(value: object) -> None:
    with pytest.raises(Unsupported):
        flatten(value)


def test_bottomless_nesting_is_refused() -> None:
    nest: list = []
    nest.append(nest)
    with pytest.raises(Unsupported, match="nested"):
        flatten(nest)


def skeleton(value: object) -> object:
    return flatten(value)[0]


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ((ONE, TWO), [TWO, ONE], True),
        ((ONE, TWO), (ONE,), False),
        ((ONE,), ONE, False),
        ({"a": ONE, "b": 1}, {"b": 2, "a": TWO}, True),
        ({"a": ONE}, {"b": ONE}, False),
        ({"a": ONE}, {"a": ONE, "b": 1}, False),
        ((ONE, 1), (ONE, 2.5), True),
        ((ONE, 1), (ONE, TWO), False),
        ((ONE, math.inf), (ONE, 1.0), True),
        (Pair(ONE, TWO), (ONE, TWO), True),
        (Pair(ONE, TWO), [ONE, TWO], True),
        (Pair(ONE, TWO), {"first": ONE, "second": TWO}, False),
        (Fields(ONE, TWO), {"second": TWO, "first": ONE}, True),
        (Fields(ONE, TWO), collections.OrderedDict(first=ONE, second=TWO), True),
        (Fields(ONE, None), {"first": ONE}, False),
        ({1: ONE}, {"1": ONE}, False),
        ({1: ONE}, {True: ONE}, True),
        ((ONE, None), (ONE, TWO), False),
    ],
)
def test_structures_are_compared_without_values(left: object, right: object, same: bool) -> None:
    assert same_shape(skeleton(left), skeleton(right)) is same


def test_tensors_of_a_dictionary_come_in_the_order_of_its_keys_and_its_entries_in_their_own() -> None:
    value = {"b": ONE, 10: TWO, "a": [TWO, ONE], 9: ONE}
    skeleton, tensors = flatten(value)
    assert [id(tensor) for tensor in tensors] == [id(tensor) for tensor in (ONE, TWO, TWO, ONE, ONE)]
    assert list(unflatten(skeleton, tensors)) == ["b", 10, "a", 9]
    again = flatten({9: ONE, "a": [TWO, ONE], "b": ONE, 10: TWO})[1]
    assert [id(tensor) for tensor in again] == [id(tensor) for tensor in tensors]


def test_a_named_tuple_comes_back_with_its_names() -> None:
    skeleton, tensors = flatten((Pair(ONE, 3), 1))
    again = unflatten(json.loads(json.dumps(skeleton)), tensors)
    assert again[0].first is ONE and again[0].second == 3 and again[0] == (ONE, 3)


def test_floats_become_tensors_where_that_is_asked_for() -> None:
    skeleton, tensors = flatten((ONE, 2.5, 3, True, [1e-9], 1 + 2j, math.nan), torch.float32)
    assert [tensor.dtype for tensor in tensors] == [torch.float32] * 3 + [torch.complex64, torch.float32]
    assert [tensor.shape for tensor in tensors[1:]] == [torch.Size([])] * 4
    assert tensors[2].item() == pytest.approx(1e-9)
    assert plain_values(skeleton) == [3, True]
    assert skeleton_text(skeleton) == "tuple(tensor, float, 3, True, list(float), float, … 7 in all)"
    wide = flatten(2.5, torch.float64)[1]
    assert [tensor.dtype for tensor in wide] == [torch.float64]
    assert not same_shape(flatten(2.5, torch.float32)[0], flatten(torch.tensor(2.5), torch.float32)[0])
    assert not same_shape(flatten(2.5, torch.float32)[0], flatten(2, torch.float32)[0])


REFUSED = {
    "sparse": (lambda: torch.eye(3).to_sparse(), "to_dense"),
    "compressed": (lambda: torch.eye(3).to_sparse_csr(), "to_dense"),
    "blocked by a library": (lambda: torch.eye(3).to_mkldnn(), "to_dense"),
    "nested": (lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), "nested"),
    "jagged": (lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged), "nested"),
    "quantized": (lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8), "dequantize"),
    "meta": (lambda: torch.empty(3, device="meta"), "meta"),
    "masked": (lambda: torch.masked.masked_tensor(torch.ones(2), torch.tensor([True, False])), "MaskedTensor"),
    "four bits": (lambda: torch.zeros(4, dtype=torch.uint8).view(torch.float4_e2m1fn_x2), "uint8"),
    "bits": (lambda: torch.zeros(4, dtype=torch.uint8).view(torch.bits8), "uint8"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", REFUSED)
def test_a_tensor_without_plain_memory_is_refused_with_what_to_do(name: str) -> None:
    make, word = REFUSED[name]
    with pytest.raises(Unsupported, match=word):
        lay_out([make()])


class Labelled(torch.Tensor):
    pass


@pytest.mark.parametrize(
    "tensor", [torch.ones(3).as_subclass(Labelled), torch.nn.Parameter(torch.ones(3)), torch.empty(0).as_subclass(Labelled)]
)
def test_a_tensor_of_another_class_with_memory_is_taken(tensor: torch.Tensor) -> None:
    assert lay_out([tensor])[0][0].shape == tuple(tensor.shape)


def test_plain_values_come_in_the_same_order_for_equal_dictionaries() -> None:
    assert plain_values(skeleton({"b": 2, "a": 1, "c": ONE})) == plain_values(skeleton({"c": ONE, "a": 1, "b": 2})) == [1, 2]


@pytest.mark.parametrize(
    "garbage",
    [
        None,
        5,
        [],
        {},
        {"a": 1, "b": 2},
        {"tuple": 5},
        {"tuple": None},
        {"tuple": [5, None]},
        {"dict": 5},
        {"dict": [1, 2]},
        {"dict": [["a"], ["b"]]},
        {"list": {"a": 1}},
        {"named": [1, 2]},
        {"named": {"a": 1}},
        {"fields": [["a", {"tensor": 0}], ["a", {"tensor": 0}]]},
        {"dict": [[1.0, {"tensor": 0}], [[], {"tensor": 0}]]},
        {"dict": [[None, {"tensor": 0}], ["b", {"tensor": 0}]]},
    ],
    ids=str,
)
def test_a_forged_skeleton_is_another_structure_and_no_exception(garbage: object) -> None:
    for expected in (skeleton((ONE, TWO)), skeleton({"a": ONE, "b": TWO}), skeleton(ONE)):
        assert same_shape(garbage, expected) is False
    assert isinstance(skeleton_text(garbage), str)


def test_a_forged_deep_skeleton_is_survived() -> None:
    deep: dict = {"tensor": 0}
    for _ in range(900):
        deep = {"tuple": [deep]}
    assert same_shape(deep, skeleton((ONE,))) is False
    assert len(skeleton_text(deep)) < 5000


def test_a_sketch_is_bounded() -> None:
    assert len(skeleton_text(skeleton(tuple(tuple(str(j) * 100 for j in range(50)) for _ in range(50))))) < 5000
    assert skeleton_text(skeleton((ONE, {"a": TWO}, 3))) == "tuple(tensor, {a: tensor}, 3)"


@pytest.mark.parametrize(
    ("expected", "got", "equal"),
    [
        (3, 3, True),
        (3, 4, False),
        (1, True, False),
        (True, 1, False),
        ("a", "a", True),
        (None, None, True),
        (None, 0, False),
        (3, [3], False),
        (3, "3", False),
    ],
)
def test_plain_values_are_compared(expected: object, got: object, equal: bool) -> None:
    assert plain_equal(expected, got) is equal


@pytest.mark.parametrize(
    "spec",
    [
        ["float32", [4], [1], 1],
        ["float32", [4], [1], 1 << 20],
        ["float32", [4], [1], -4],
        ["float32", [4], [1], 10**30],
        ["float32", [4], [1], -(10**30)],
        ["float32", [1 << 40], [1], 0],
        ["float32", [10**30], [1], 0],
        ["float32", [4], [1 << 40], 0],
        ["float32", [1], [-5], 0],
        ["float32", [1], [10**30], 0],
        ["float32", [4], [1, 2, 3], 0],
        ["float32", [-4], [1], 0],
        ["nonsense", [4], [1], 0],
        ["Tensor", [4], [1], 0],
        ["float32", [4096], [1], 4096],
    ],
    ids=str,
)
def test_a_forged_spec_never_leaves_the_arena(spec: list) -> None:
    """A spec comes out of the candidate's process. It reads from the arena, or it is called forged; nothing else."""
    runner = Runner("candidate", None, None, "cpu")  # type: ignore[arg-type]  # nothing is said or stopped here
    runner.outputs = Arena.create("cpu", 8192)
    try:
        (view,) = runner.output_views([TensorSpec.from_json(spec)])
    except RunnerFailed as failure:
        assert failure.kind == "forged"
    else:
        base = runner.outputs.base.data_ptr()
        assert base <= view.data_ptr() <= base + 8192 - view.numel() * view.itemsize


def test_a_skeleton_that_is_nested_too_deeply_is_malformed_and_never_printed() -> None:
    nest: list = []
    for _ in range(100_000):
        nest = [nest]
    assert not same_shape({"dict": [[nest, {"tensor": 0}]]}, {"dict": [["a", {"tensor": 0}]]})
    assert skeleton_text({"value": nest}) == "a list"
    assert skeleton_text({"dict": [[nest, {"value": nest}]]}) == "{: a list}"
