"""What the tests of the starter cards share: the cards, one check for each example, and how far an answer may be from torch."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from bottega.core.skill import Skill
from bottega.skills.starter import starter_cards

CARDS = {card.name: card for card in starter_cards()}
CHECKS: dict[str, Callable[[Any, str], None]] = {}


def kind(card: Skill) -> str:
    """What the example is: `cpp`, `cuda` or `triton` source, or a `module` of Python that builds its own C++."""
    if "__global__" in card.example:
        return "cuda"
    if "import torch" not in card.example:
        return "cpp"
    return "triton" if "@triton.jit" in card.example else "module"


def names(*kinds: str) -> list[str]:
    return [name for name, card in CARDS.items() if kind(card) in kinds]


def checks(name: str) -> Callable[[Callable[[Any, str], None]], Callable[[Any, str], None]]:
    """The decorated function runs the example of this card and compares it with torch."""

    def keep(check: Callable[[Any, str], None]) -> Callable[[Any, str], None]:
        assert name in CARDS and name not in CHECKS, name
        CHECKS[name] = check
        return check

    return keep


def run_check(name: str, example: Any, device: str) -> None:
    torch.manual_seed(1)
    CHECKS[name](example, device)


def import_text(text: str, name: str, folder: Path) -> Any:
    """A module from text, by way of a file: Triton reads the source of its functions from there."""
    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(f"starter_{name}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def close(got: torch.Tensor, want: torch.Tensor, limit: float = 2e-6) -> None:
    """Right to a few units in the last place of fp32, relative to an element's size plus the root mean square."""
    assert got.shape == want.shape, (got.shape, want.shape)
    limit *= 5 if got.is_cuda else 1  # its exp, division and split products are good to a few units more
    got, want = got.detach().double().cpu(), want.detach().double().cpu()
    assert torch.equal(got.isnan(), want.isnan()) and torch.equal(got.isinf(), want.isinf())
    fine = want.isfinite()
    got, want = got[fine], want[fine]
    error = ((got - want).abs() / (want.abs() + want.square().mean().sqrt() + 1e-30)).max()
    assert error <= limit, f"relative error {error:.2e}"


def normal(*shape: int, device: str = "cpu", offset: float = 0.0) -> torch.Tensor:
    return (torch.randn(*shape, dtype=torch.float64) + offset).float().to(device)


def due(request: pytest.FixtureRequest, test: Callable[..., None]) -> list[str]:
    """The examples whose cases of this test run: what a fixture builds for all of them, it builds for these alone."""
    items = [item for item in request.session.items if isinstance(item, pytest.Function) and item.originalname == test.__name__]
    return [item.callspec.params["name"] for item in items]
