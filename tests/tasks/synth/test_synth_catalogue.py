"""Every operator in every form it can be written in, on torch's meta device: it runs, and gives the shape that the catalogue says."""

from random import Random

import pytest
import torch

from bottega.tasks.synth.catalogue import CATALOGUE, FAMILIES
from bottega.tasks.synth.catalogue.blocks import BLOCKS
from bottega.tasks.synth.catalogue.networks import NETWORKS
from bottega.tasks.synth.costs import TARGETS
from bottega.tasks.synth.draw import Draw
from bottega.tasks.synth.graph import OperatorGraph
from bottega.tasks.synth.networks import _BlockChoices, _network, build
from bottega.tasks.synth.operator import FIELD, OPERANDS, Operator
from bottega.tasks.synth.style import draw_style
from bottega.tasks.synth.write import ModuleWriter


def drafted(operator: Operator, seed: int, device: str = "cpu") -> OperatorGraph | None:
    graph = OperatorGraph(Draw(Random(f"{operator.name}/{seed}"), TARGETS[device], lead=16))
    return graph if graph.apply(operator, graph.begin(operator), alone=True) is not None else None


def on_meta(source: str) -> torch.Tensor:
    try:
        return called(source, "meta")
    except (NotImplementedError, RuntimeError) as error:
        if "meta" not in str(error).lower():
            raise
        return called(source, "cpu")  # it looks at its values, and there are none


def called(source: str, device: str) -> torch.Tensor:
    space: dict = {}
    with torch.device(device):
        exec(compile(source, "task", "exec"), space)
        return space["Model"](*space["get_init_inputs"]())(*space["get_inputs"]())


def test_the_catalogue_is_broad() -> None:
    assert len(CATALOGUE) >= 300
    assert len(BLOCKS) + len(NETWORKS) >= 45
    assert len(FAMILIES) == 14


@pytest.mark.rotates
@pytest.mark.parametrize(
    "family",
    [
        pytest.param(family, marks=[pytest.mark.slow] if family == "recurrent" else [])
        for family in FAMILIES
        if family != "blocks"
    ],
)
def test_every_operator_in_every_form(family: str) -> None:
    class Fixed(ModuleWriter):
        wanted = 0

        def _form(self, node):
            return node.operator.forms[self.wanted]

    for operator in (entry for entry in CATALOGUE.values() if entry.family == family):
        drafts: list[OperatorGraph] = []
        for seed in range(24):
            graph = drafted(operator, seed, ("cpu", "cuda")[seed % 2]) if len(drafts) < len(operator.forms) else None
            drafts += [graph] if graph is not None else []
        assert drafts, f"{operator.name} never fits"
        for number in range(len(operator.forms)):
            graph = drafts[number % len(drafts)]
            writer = Fixed(graph, draw_style(Random(f"{operator.name}{number}")), Random(number))
            writer.wanted = number
            source = writer.source()
            try:
                out = on_meta(source)
            except Exception as error:
                raise AssertionError(f"{operator.name}, form {number}: {error}\n{source}") from error
            assert tuple(out.shape) == tuple(map(int, graph.nodes[-1].value.shape)), f"{operator.name}\n{source}"


def test_templates_name_only_what_there_is() -> None:
    for operator in CATALOGUE.values():
        for form in operator.forms:
            made = {hint for hint, _ in form.attributes}
            for text in FIELD.findall("\n".join([form.call, *(template for _, template in form.attributes)])):
                if text.startswith("@"):
                    assert text[1:] in made, (operator.name, text)
                elif text in OPERANDS:
                    assert OPERANDS.index(text) <= len(operator.others), (operator.name, text)
                elif not text.startswith(("=", ", ")):
                    assert text in operator.parameters, (operator.name, text)


def test_blocks_and_networks_are_made_of_the_catalogues_operators() -> None:
    choices = _BlockChoices(("relu", "F.relu({})", "nn.ReLU()", 1.0), ("layer_norm", "nn.LayerNorm({})", 1.0), False)
    for entry in (*BLOCKS, *NETWORKS):
        assert set(choices.names(entry.operators)) <= set(CATALOGUE), entry.name


def test_every_network_runs() -> None:
    for number, entry in enumerate(NETWORKS):
        for device in ("cpu", "cuda"):
            rng = Random(number)
            style = draw_style(rng)
            while style.constants == "inline":
                style = draw_style(rng)
            built = _network(rng, style, TARGETS[device], 4, entry)
            assert on_meta(built.source) is not None


@pytest.mark.slow
def test_every_block_runs_alone_and_in_a_row() -> None:
    seen = set()
    for seed in range(400):
        rng = Random(seed)
        style = draw_style(rng)
        if style.constants != "inline":
            built = build(rng, style, TARGETS[("cpu", "cuda")[seed % 2]], 4)
            seen.add(built.name.removesuffix("_stack").removesuffix("_headed"))
            assert on_meta(built.source) is not None
    assert len(seen & {entry.name for entry in BLOCKS}) >= 0.9 * len(BLOCKS)
