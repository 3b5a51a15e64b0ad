"""How a backbone is asked when nobody says."""

from __future__ import annotations

from pathlib import Path

import pytest

from bottega.episodes import backbone_defaults
from bottega.episodes.backbone_defaults import (
    answer_tokens,
    likeliest_first,
    prompt_style,
    resample_count,
    strategy_for,
    temperature_for,
)


@pytest.fixture
def only_the_embedded_is_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backbone_defaults, "trained_style", lambda spec: "terse" if spec == "embedded" else None)


@pytest.mark.usefixtures("only_the_embedded_is_trained")
def test_the_users_word_counts_then_the_models_training_then_the_server() -> None:
    assert prompt_style("embedded") == "terse"
    assert prompt_style("embedded", "full") == "full"
    assert prompt_style("embedded:base") == "compact"
    assert prompt_style("server:m@http://localhost") == "full"


@pytest.mark.usefixtures("only_the_embedded_is_trained")
def test_a_trained_model_gives_its_likeliest_answer_where_one_is_asked_for() -> None:
    assert temperature_for("embedded", 1) == 0.0
    assert 0.0 < temperature_for("embedded", 8) < 1.0
    assert temperature_for("embedded", 8, 0.9) == 0.9
    assert temperature_for("embedded", 1, 0.9) == 0.9
    assert temperature_for("embedded:base", 1) == temperature_for("server:m@http://localhost", 8) == 1.0


@pytest.mark.usefixtures("only_the_embedded_is_trained")
def test_answers_may_be_as_long_as_the_model_learned_to_write() -> None:
    assert answer_tokens("embedded:base") < answer_tokens("embedded") < answer_tokens("server:m@http://localhost")
    assert answer_tokens("embedded", 64) == 64


def test_a_small_model_is_asked_again_where_it_slips() -> None:
    assert resample_count("terse") > 0 == resample_count("compact") == resample_count("full")
    assert resample_count("terse", 0) == 0 and resample_count("full", 2) == 2


def test_the_model_that_comes_along_is_asked_as_it_was_trained() -> None:
    shipped = Path(backbone_defaults.__file__).parents[1] / "backbone" / "shipped" / "bottega.difference"
    assert prompt_style("embedded") == ("terse" if shipped.is_file() else "compact")
    assert prompt_style("embedded:base") == "compact"


def test_a_trained_model_is_asked_for_several_first_answers_the_likeliest_among_them() -> None:
    assert strategy_for("embedded") == "parallel" and strategy_for("server:m@http://h") == "serial"
    assert strategy_for("embedded", "beam") == "beam"
    assert likeliest_first("embedded") and not likeliest_first("embedded", 0.8) and not likeliest_first("server:m@http://h")
