"""`bottega model` from a run's folder to a file and back, over a tiny base in the embedded model's make."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

torch = pytest.importorskip("torch")
pytest.importorskip("transformers", reason="a model in this process needs transformers")
sys.path.append(str(Path(__file__).parents[1] / "backbone"))

from tiny_gguf import write_tiny  # noqa: E402

from bottega.app.cli import app  # noqa: E402
from bottega.backbone.delta import state_of  # noqa: E402
from bottega.backbone.embedded import read_embedded  # noqa: E402
from bottega.backbone.loading import load, trained_style  # noqa: E402
from bottega.core.errors import BackboneError, UsageError  # noqa: E402
from bottega.train.checkpoint import export_model  # noqa: E402


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an RL run that began with the model of a cold start, each with its settings and its model."""
    write_tiny(tmp_path / "site")
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setenv("BOTTEGA_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    model, tokenizer = read_embedded()
    torch.manual_seed(0)
    for name, config in (
        ("cold", {"stage": "sft", "data": str(tmp_path / "data"), "config": {"model": {"name": "embedded:base"}}}),
        (
            "rl",
            {
                "stage": "rl",
                "config": {
                    "model": {"name": str(tmp_path / "cold" / "model")},
                    "data": {"steps": 7},
                    "rollout": {"style": "terse"},
                },
            },
        ),
    ):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.02 * torch.randn_like(parameter))
        export_model(model, tokenizer, tmp_path / name / "model")
        (tmp_path / name / "config.json").write_text(json.dumps(config))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "card.json").write_text(json.dumps({"examples": 12, "splits": {"train": 10, "test": 2}}))
    return tmp_path / "rl"


def called(*words: object) -> str:
    result = CliRunner().invoke(app, ["model", *map(str, words)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.rotates
def test_pack_show_unpack(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "out" / "own.difference"
    told = called("pack", run, "--out", file, "--step", 0.25, "--name", "round 1", "--note", "A stand-in.")
    assert "of the energy kept" in told and "sha256" in told
    card = (tmp_path / "out" / "CARD.md").read_text()
    assert "# SmolLM2-135M-Instruct + round 1" in card and "A stand-in." in card and "## Limits" in card
    assert card.index("## sft") < card.index("## rl")  # both stages, in their order
    assert "train 10, test 2" in card and "steps 7" in card
    assert str(tmp_path) not in card and str(tmp_path) not in file.read_bytes().decode(
        "latin-1"
    )  # no places on the maker's disk
    assert "is the one it was made for" in called("show", file)
    assert json.loads(called("show", file, "--json"))["card"]["name"] == "round 1"
    assert trained_style(f"embedded:{file}?slots=2") == "terse" and trained_style("embedded:base") is None
    called("unpack", file, "--out", tmp_path / "whole")
    whole, packed = (state_of(load(name, device="cpu").model) for name in (str(tmp_path / "whole"), f"embedded:{file}"))
    assert all(torch.equal(whole[name], packed[name]) for name in packed)
    with pytest.raises(UsageError, match="is there already"):
        called("unpack", file, "--out", tmp_path / "whole")


def test_a_run_that_began_with_a_difference_has_its_stages_too(run: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "one" / "own.difference", tmp_path / "two" / "own.difference"
    called("pack", run, "--out", first, "--step", 0.25)
    config = json.loads((run / "config.json").read_text())
    config["config"]["model"]["name"] = f"embedded:{first}"
    (run / "config.json").write_text(json.dumps(config))
    called("pack", run, "--out", second, "--step", 0.25)
    stages = json.loads(called("show", second, "--json"))["card"]["stages"]
    assert [stage["stage"] for stage in stages] == ["rl", "rl", "sft"]
    assert str(tmp_path) not in json.dumps(stages)


def test_pack_to_a_size_and_check(run: Path, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": f"answer {number}"}]}
        for number in range(4)
    ]
    data = tmp_path / "check.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    file = tmp_path / "own.difference"
    told = called("pack", run / "model", "--out", file, "--max-mb", 0.09, "--check", data, "--device", "cpu")
    assert file.stat().st_size <= 90_000
    assert "mean log-prob of" in told and "of the gain kept" in told
    card = (tmp_path / "CARD.md").read_text()
    assert "tokens of check.jsonl" in card and "## rl" in card  # the run is found from its model's folder


def test_what_cannot_be_packed_is_said(run: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="leave one out"):
        called("pack", run, "--out", tmp_path / "x.difference", "--step", 1, "--max-mb", 1)
    with pytest.raises(UsageError, match=r"FILE\.difference"):
        called("pack", run, "--out", tmp_path / "x.bin")
    with pytest.raises(UsageError, match="holds no model"):
        called("pack", tmp_path, "--out", tmp_path / "x.difference")
    (run / "model" / "model.safetensors").write_bytes(b"no")
    with pytest.raises(BackboneError, match="cannot be read"):
        called("pack", run, "--out", tmp_path / "x.difference")
    assert not (tmp_path / "x.difference").exists()


def test_a_model_in_fewer_bits_keeps_what_did_not_change(run: Path, tmp_path: Path) -> None:
    model, tokenizer = read_embedded()
    with torch.no_grad():
        model.model.layers[1].mlp.up_proj.weight.add_(0.05)
    export_model(model, tokenizer, tmp_path / "half", torch.bfloat16)
    told = called("pack", tmp_path / "half", "--out", tmp_path / "x.difference")
    assert "not stored in fp32" in told
    assert [entry["name"] for entry in json.loads(called("show", tmp_path / "x.difference", "--json"))["entries"]] == [
        "model.layers.1.mlp.up_proj.weight"
    ]


def test_a_head_that_stands_beside_its_embedding_is_packed_once(run: Path, tmp_path: Path) -> None:
    """As other programs write a tied model; one whose head has become another cannot be packed."""
    from safetensors.torch import load_file, save_file

    path = run / "model" / "model.safetensors"
    state = load_file(path)
    state["lm_head.weight"] = state["model.embed_tokens.weight"].clone()
    save_file(state, path)
    called("pack", run, "--out", tmp_path / "x.difference")
    assert "lm_head" not in called("show", tmp_path / "x.difference", "--json")
    state["lm_head.weight"] += 0.1
    save_file(state, path)
    with pytest.raises(BackboneError, match="no longer its embedding"):
        called("pack", run, "--out", tmp_path / "x.difference")


def test_show_tells_what_comes_along(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bottega.backbone.shipped.shipped_delta", lambda: None)
    assert "no trained model comes along" in called("show")
    called("pack", run, "--out", tmp_path / "x.difference", "--name", "round 9")
    monkeypatch.setattr("bottega.backbone.shipped.shipped_delta", lambda: tmp_path / "x.difference")
    assert "+ round 9" in called("show")
