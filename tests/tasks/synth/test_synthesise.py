"""Samples: always the same, of the levels and families that were asked for, and modules that really run."""

import subprocess
import sys
from collections.abc import Iterator
from random import Random

import pytest
import torch

from bottega.core.errors import UsageError
from bottega.tasks.synth import CATALOGUE, FAMILIES, synthesise
from bottega.tasks.synth.costs import TARGETS

SAMPLE = range(16)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Beside other tests a second thread only waits."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def run_eagerly(source: str) -> tuple[torch.Tensor, torch.Tensor]:
    space: dict = {}
    exec(compile(source, "task", "exec"), space)
    torch.manual_seed(0)
    model = space["Model"](*space["get_init_inputs"]())
    with torch.no_grad():
        return model(*space["get_inputs"]()), model(*space["get_inputs"]())


@pytest.mark.rotates
def test_the_same_seed_and_number_are_the_same_task_in_another_process() -> None:
    code = "from bottega.tasks.synth import synthesise\nprint([synthesise(3, i, 'cuda').task.id for i in (9, 2, 30)])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert told == str([synthesise(3, index, "cuda").task.id for index in (9, 2, 30)])


def test_other_seeds_numbers_and_devices_are_other_tasks() -> None:
    ids = {synthesise(seed, index, device).task.id for seed in (1, 2) for index in range(2) for device in ("cpu", "cuda")}
    assert len(ids) == 8


def test_torch_is_imported_only_where_a_task_is_drawn() -> None:
    code = "import sys; import bottega.tasks.synth; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_what_is_said_of_a_sample_is_true() -> None:
    for index in SAMPLE:
        made = synthesise(4, index, "cpu")
        made.task.validate()
        assert set(made.operators) <= set(CATALOGUE)
        assert list(made.operators) == sorted(made.operators)
        assert made.family in made.families or made.level == 3
        assert set(made.families) <= set(FAMILIES)
        assert (made.structure == "single") == (made.level == 1) == (len(made.operators) == 1)
        assert (made.structure == "network") == (made.level == 3)
        assert TARGETS["cpu"].shortest_ms <= made.estimate_ms <= TARGETS["cpu"].longest_ms
        assert f"level:{made.level}" in made.task.tags


@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "blocks"])
def test_a_family_that_is_asked_for_is_there(family: str) -> None:
    for index in range(4):
        assert family in synthesise(1, index, "cpu", levels=(1,), families=(family,)).families


def test_levels_that_are_asked_for() -> None:
    assert {synthesise(1, index, "cpu", levels=(3,)).level for index in range(4)} == {3}
    assert {synthesise(1, index, "cpu", levels=(1, 2)).level for index in range(12)} == {1, 2}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"device": "tpu"}, "unknown device"),
        ({"levels": (4,)}, "levels 1, 2 and 3"),
        ({"levels": ()}, "none"),
        ({"families": ("convolutoins",)}, "unknown family"),
        ({"levels": (3,), "families": ("losses",)}, "no operator of losses"),
    ],
)
def test_what_does_not_exist_is_refused(options: dict, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        synthesise(0, 0, **options)


@pytest.mark.slow
def test_samples_run_and_their_outputs_depend_on_their_inputs() -> None:
    poor = []
    for index in SAMPLE:
        made = synthesise(11, index, "cpu")
        one, two = run_eagerly(made.task.source)
        if not one.is_floating_point():
            continue
        finite = bool(torch.isfinite(one).all())
        size = max(float(one.double().square().mean()) ** 0.5, 1e-30)
        change = float((one.double() - two.double()).square().mean()) ** 0.5 / size
        if not finite or size < 1e-4 or change < 2e-2:
            poor.append((index, made.operators, finite, size, change))
    assert len(poor) <= 2, poor


@pytest.mark.slow
def test_shares_of_structures_data_types_and_styles() -> None:
    rng = Random(5)
    made = [synthesise(6, rng.randrange(10**6), "cuda") for _ in range(150)]
    assert {sample.structure for sample in made} >= {"single", "chain", "residual", "inputs", "network"}
    assert 0.03 < sum(sample.dtype != "float32" for sample in made) / len(made) < 0.3
    sources = [sample.task.source for sample in made]
    for trait in (
        "nn.Sequential",
        '"""',
        "# ",
        "import torch.nn.functional as F",
        "super(Model, self)",
        "-> torch.Tensor",
        "torch.rand(",
    ):
        assert 0 < sum(trait in source for source in sources) < len(sources), trait
