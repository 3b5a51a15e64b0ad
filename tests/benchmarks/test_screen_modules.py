"""The screen tells right from wrong, what is refused for which reason, and half A from half B."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from screen_modules import WARM, differs, half_of, kind_of, screen, table
from small_configurations import LAYERS, WIDTH, Called, shrunk


def _row(module: str, outcome: str, reason: str = "") -> dict[str, Any]:
    return {"module": module, "language": "cpp", "dtype": "float32", "outcome": outcome, "reason": reason, "seconds": 1.0}


def test_the_table_counts_the_last_outcome_and_tells_reasons_of_half_a_alone() -> None:
    names = [f"layer{number}" for number in range(20)]
    a, b = ([name for name in names if half_of(name) == half] for half in "AB")
    rows = [
        _row(a[0], "refused", "x: pad: 3 sides"),
        _row(a[1], "refused", "y: pad: 12 sides"),
        _row(b[0], "wrong", "far off"),
        _row(a[2], "wrong"),
    ]
    lines = list(table([*rows, _row(a[2], "right")]))
    assert "| cpp, float32, A | 2 | 1 | 0 |" in lines and "| cpp, float32, B | 0 | 0 | 1 |" in lines
    assert any(line.startswith("| refused | pad: … sides | 2 |") for line in lines) and not any(
        "far off" in line for line in lines
    )
    assert kind_of("nn.X.1: cannot: 'abc' 17") == "cannot: … …"


def test_a_result_is_wrong_where_it_is_further_off_than_eager() -> None:
    truth = [torch.linspace(0, 1, 50).double()]
    eager = [truth[0].float()]
    assert not differs([eager[0] + 1e-6], eager, truth, 2e-5)
    assert "off" in differs([eager[0] + 1e-3], eager, truth, 2e-5)
    assert "torch.float64" in differs([truth[0]], eager, truth, 2e-5) and "results" in differs([], eager, truth, 2e-5)
    held = [torch.where(eager[0] > 0.5, torch.inf, eager[0])]
    assert "inf off" in differs(eager, held, [held[0].double()], 2e-5) and not differs(held, held, [held[0].double()], 2e-5)


def test_configurations_are_made_small_by_their_names() -> None:
    given = {
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "layer_types": ["full"] * 32,
        "text_config": {"vocab_size": 99999},
        "id2label": {0: "a"},
    }
    small = shrunk(given)
    assert small["hidden_size"] == WIDTH and len(small["layer_types"]) == small["num_hidden_layers"] == LAYERS
    assert small["text_config"]["vocab_size"] < 1000 and small["id2label"] == {0: "a"}


@pytest.mark.rotates
def test_a_module_is_screened() -> None:
    assert screen(WARM, "warm", "cpp", "float32") == ("right", "")
    outcome, reason = screen(WARM.replace("x + 1", "x[x > 0]"), "mask", "cpp", "float32")
    assert outcome == "refused" and "index" in reason
    assert screen(WARM.replace("x + 1", "x.missing"), "broken", "cpp", "float32")[0] == "eager fails"


@pytest.mark.slow
def test_each_class_of_a_family_is_called_once() -> None:
    pytest.importorskip("transformers")
    calls = Called.of("transformers:llama")
    assert {"Llama.LlamaDecoderLayer", "Llama.LlamaMLP"} <= {call.name for call in calls}
    assert not any("Llama" in call.text for call in calls if call.name == "Llama.LlamaMLP")
