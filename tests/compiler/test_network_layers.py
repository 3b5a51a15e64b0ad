"""Networks whose layers are exchanged compute what they did, say what they said, and are captured only where a graph is true to them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from network_tasks import ASKS, COUNTS, DRAWS, HELD, HOST, KEEPS, MIXED, MLP, NETWORKS, RESIDUAL, network
from small_tasks import SMALL
from triton_process import interpreted

from bottega.compiler.layers.network import read_network
from bottega.compiler.layers.observe import has_kernel, observe
from bottega.compiler.layers.steps import layer_steps
from bottega.compiler.step_compiler import StepCompiler, passes_of

HERE = Path(__file__).parent
LIMIT = 5e-6


def found_in(what: str) -> dict[str, float]:
    found: dict[str, float] = interpreted(HERE / "layers_interpreted.py", what)
    return found


@pytest.mark.slow
def test_layers_compute_what_torchs_do_in_every_configuration() -> None:
    found = found_in("layers")
    assert {name: error for name, error in found.items() if not error < LIMIT} == {}


@pytest.mark.slow
def test_networks_compute_what_they_did() -> None:
    found = found_in("networks")
    assert set(found) == set(NETWORKS)
    assert {name: error for name, error in found.items() if not error < LIMIT} == {}


def sources(source: str, **barred: tuple[str, ...]) -> dict[str, str]:
    return {step.technique: step.candidate.source for step in layer_steps(network("net", source), **barred)}


def test_layers_are_found_however_they_are_spelled_and_told_from_their_kind() -> None:
    calls = [(call.kind, has_kernel(call)) for call in observe(read_network(NETWORKS["mixed"])).calls]
    kinds = ["Conv1d", "Conv2d", "ConvTranspose2d", "Linear", "Linear"]
    assert calls == list(zip(kinds, [True, True, True, False, True], strict=True))


def test_a_name_that_the_task_has_is_the_tasks() -> None:
    assert "layer.__class__ = Linear" in sources(MLP)["linear_layers"]
    spelled = MLP.replace("import torch.nn as nn", "import torch.nn as nn\nfrom torch.nn import Linear")
    assert set(sources(spelled.replace("nn.Linear(", "Linear("))) == {"captured"}


@pytest.mark.rotates
@pytest.mark.parametrize("source", [RESIDUAL, MIXED, MLP])
def test_every_step_parses_and_the_graph_stands_around_the_same_layers(source: str) -> None:
    found = sources(source)
    for text in found.values():
        ast.parse(text)
        assert "class ModelNew" in text
        assert ("CUDAGraph" in text) == ("self.static_x.copy_(x)" in text) == ("self.graph = None" in text)
    assert "triton" not in found["captured"]
    last = [text for name, text in found.items() if name.endswith("_layers")][-1]
    assert functions(last) == functions(found["graph_replay"])


def functions(text: str) -> list[str]:
    return [ast.unparse(node) for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]


def obstacle(source: str) -> str:
    return observe(read_network(network("net", source))).obstacle


def test_what_a_graph_would_not_repeat_is_not_captured() -> None:
    assert obstacle(MLP) == obstacle(RESIDUAL) == obstacle(HELD) == ""
    assert "random" in obstacle(DRAWS)
    assert "keeps self.last" in obstacle(KEEPS)
    assert "host" in obstacle(HOST)
    assert "changes what the module keeps" in obstacle(COUNTS)
    assert layer_steps(network("asks", ASKS)) == []
    assert set(sources(KEEPS)) == {"linear_layers"}


def test_several_results_are_copied_out_one_by_one() -> None:
    assert "return tuple(out.clone() for out in self.static_out)" in sources(MIXED)["captured"]


def test_a_step_grows_from_the_one_before() -> None:
    steps = layer_steps(NETWORKS["residual"])
    assert [step.technique for step in steps] == [
        "captured",
        "convolution_layers",
        "linear_layers",
        "norm_layers",
        "graph_replay",
    ]
    assert [step.candidate.parent for step in steps[:2]] == [None, None]
    assert [step.candidate.parent for step in steps[2:]] == [step.candidate.id for step in steps[1:4]]
    assert layer_steps(NETWORKS["residual"], {step.technique for step in steps}) == []


def test_layers_too_small_for_our_kernels_are_left_to_torch() -> None:
    small = MLP.replace("[40, 70, 33, 700, 36, 32]", "[40, 30, 20, 24, 20, 8]")
    assert set(sources(small)) == {"captured"}


def test_one_module_alone_is_no_network() -> None:
    assert all(layer_steps(given) == [] for given in SMALL if "Linear" in given.source and "Conv" not in given.source)


@pytest.mark.rotates
def test_a_long_network_is_taught_by_its_layers_alone() -> None:
    deep = RESIDUAL.replace("(16, 32, 2)]", "(16, 32, 2), (32, 32, 1), (32, 48, 2), (48, 48, 1)]").replace(
        "Linear(32, ", "Linear(48, "
    )
    course = StepCompiler().build(network("deep", deep), "triton")
    assert course.steps[0].technique == "captured"
    assert course.steps[-1].technique == "graph_replay"
    assert "naive" not in {step.technique for step in course.steps}
    short = StepCompiler().build(NETWORKS["mlp"], "triton")
    assert short.steps[0].technique == "naive"
    assert short.steps[-1].technique == "graph_replay"


def test_techniques_are_listed_for_triton_alone() -> None:
    assert {"captured", "convolution_layers", "linear_layers"} <= {technique.name for technique in passes_of("triton")}
    assert not {"captured", "convolution_layers"} & {technique.name for technique in passes_of("cpp")}
