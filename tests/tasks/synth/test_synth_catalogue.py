"""Every operator in every form it can be written in, on torch's meta device; every block and network."""

from dataclasses import replace
from random import Random

import pytest
import torch

from bottega.tasks.synth.catalogue import CATALOGUE, FAMILIES, KINDS
from bottega.tasks.synth.catalogue.blocks import BLOCKS
from bottega.tasks.synth.catalogue.networks import NETWORKS
from bottega.tasks.synth.catalogue.table import Operator
from bottega.tasks.synth.catalogue.words import ALONE_STARTS, CHAIN_STARTS, CONTENTS, STARTS
from bottega.tasks.synth.compose import ModuleDraft, _Module
from bottega.tasks.synth.costs import TARGETS
from bottega.tasks.synth.networks import _BlockChoices, _network, build
from bottega.tasks.synth.style import draw_style
from bottega.tasks.synth.write import ModuleWriter


def drafted(operator: Operator, seed: int, device: str = "cpu") -> ModuleDraft | None:
    chance = Random(f"{operator.name}/{seed}")
    start = chance.choice(operator.starts or (*ALONE_STARTS, *CHAIN_STARTS))
    module = _Module(chance, draw_style(chance), start, device, operator.contents)
    return module.draft() if module.step(operator, alone=True) else None


def on_meta(source: str) -> torch.Tensor:
    space: dict = {}
    with torch.device("meta"):
        exec(compile(source, "task", "exec"), space)
        return space["Model"](*space["get_init_inputs"]())(*space["get_inputs"]())


def test_the_catalogue_is_broad() -> None:
    assert len(CATALOGUE) >= 370
    assert len(CATALOGUE) == sum(len(kind.operators) for kind in KINDS.values()), "a name is there twice"
    assert len(BLOCKS) + len(NETWORKS) >= 45
    assert len(FAMILIES) == 14
    for operator in CATALOGUE.values():
        assert set(operator.starts) <= set(STARTS) and (not operator.contents or operator.contents in CONTENTS), operator.name


@pytest.mark.rotates
@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "blocks"])
def test_every_operator_in_every_form(family: str) -> None:
    for operator in (entry for entry in CATALOGUE.values() if entry.family == family):
        for number, form in enumerate(operator.forms):
            only = replace(operator, forms=(form,))
            draft = next((made for seed in range(60) if (made := drafted(only, seed, ("cpu", "cuda")[seed % 2]))), None)
            assert draft is not None, f"{operator.name}, form {number} never fits: {form.lines}"
            source = ModuleWriter(draft, draw_style(Random(f"{operator.name}{number}")), str(number)).source(4)
            try:
                on_meta(source)
            except Exception as error:
                raise AssertionError(f"{operator.name}, form {number}: {error}\n{source}") from error


def test_blocks_and_networks_are_made_of_the_catalogues_operators() -> None:
    choices = _BlockChoices(("relu", "F.relu({})", "nn.ReLU()", 1.0), ("layer_norm", "nn.LayerNorm({})", 1.0), False)
    for entry in (*BLOCKS, *NETWORKS):
        assert set(choices.names(entry.operators)) <= set(CATALOGUE), entry.name


@pytest.mark.rotates
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
