"""Which style of prompts a backbone gets when nobody says."""

from __future__ import annotations

from pathlib import Path

import pytest

from bottega.app import prompt_style as place
from bottega.app.prompt_style import prompt_style


def test_the_users_word_counts_then_the_models_training_then_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "trained_style", lambda spec: "terse" if spec == "embedded" else None)
    assert prompt_style("embedded") == "terse"
    assert prompt_style("embedded", "full") == "full"
    assert prompt_style("embedded:base") == "compact"
    assert prompt_style("server:m@http://localhost") == "full"


def test_the_model_that_comes_along_is_asked_as_it_was_trained() -> None:
    shipped = Path(place.__file__).parents[1] / "backbone" / "shipped" / "bottega.difference"
    assert prompt_style("embedded") == ("terse" if shipped.is_file() else "compact")
    assert prompt_style("embedded:base") == "compact"
