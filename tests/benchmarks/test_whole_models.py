"""The table of whole models: what was measured stays, what is missing is told from what is done, and every model can be built and called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from whole_models import MODELS, missing, named, table

from bottega.app.open_model import open_model
from bottega.core.verdict import Speedup
from bottega.episodes.delivery.whole_model import FormResult, Part, PartResult, WholeModel
from bottega.tasks.module import Wanted


def written(folder: Path, *forms: FormResult) -> Path:
    out = folder / "bert_base-run"
    out.mkdir()
    whole = WholeModel(forms, ("eager", "compile", "autotune"))
    (out / "whole_model.json").write_text(json.dumps(whole.to_json()))
    return out


def test_a_run_that_was_cut_off_has_a_row_and_goes_on_with_what_is_missing(tmp_path: Path) -> None:
    kept = (PartResult(Part("BertLayer", ("0", "1"), "modules/layer"), None, True),)
    over: dict[str, Any] = {"eager": Speedup(2.0, 1.9, 2.1), "compile": Speedup(1.2, 1.1, 1.3)}
    out = written(
        tmp_path,
        FormResult("eager", kept, {"eager": Speedup(1.5, 1.4, 1.6)}, times_ms={"eager": 9.0}),
        FormResult("compile", kept, over, Speedup(1.3, 1.25, 1.4), missing="time was over before every part was tried"),
        FormResult("autotune", missing="not measured: compiling the model was not over in time"),
    )
    assert missing(out, ["eager", "compile", "autotune"]) == ["autotune"]
    assert missing(tmp_path / "none", ["eager"]) == ["eager"]
    *_, row = table(tmp_path)
    assert "| 9.00 | 2.000 (1.900 to 2.100), compile | 1.300 (1.250 to 1.400), eager |  | BertLayer in 2 places |" in row


def test_models_begin_in_the_order_in_which_they_are_named() -> None:
    assert [model.name for model in named("vit_base,bert_base")] == ["vit_base", "bert_base"] and named("") == list(MODELS)
    with pytest.raises(typer.BadParameter, match="no model is called llama; there are"):
        named("llama")


@torch.no_grad()
def test_every_model_is_built_and_called(tmp_path: Path) -> None:
    for model in MODELS:
        folder, inputs = model.write(tmp_path, small=True)
        made, given = open_model(f"hf:{folder}", Wanted(inputs=inputs), "cpu")
        assert made(*given.positional, **given.keywords)[0].isfinite().all(), model.name
