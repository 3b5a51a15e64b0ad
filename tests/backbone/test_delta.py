"""A trained model as a difference: the same weights everywhere, nothing lost that did not change, and a typed refusal of every wrong file."""

from __future__ import annotations

import copy
import hashlib
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from small_models import small_model  # noqa: E402

from bottega.backbone.delta import (  # noqa: E402
    MAGIC,
    Written,
    apply_difference,
    read_header,
    state_of,
    step_for,
    write_difference,
)
from bottega.core.errors import BackboneError  # noqa: E402


def base_model() -> Any:
    return small_model(tie_word_embeddings=True)


def trained_from(state: dict[str, Any], frozen: tuple[str, ...] = (), size: float = 1e-3) -> dict[str, Any]:
    torch.manual_seed(1)
    return {
        name: value.clone() if any(part in name for part in frozen) else value + size * torch.randn_like(value)
        for name, value in state.items()
    }


def written(tmp_path: Path, state: dict[str, Any], trained: dict[str, Any], **options: Any) -> Written:
    return write_difference(state, trained, tmp_path / "x.difference", base="tiny", base_sha256="0" * 64, **options)


@pytest.mark.parametrize("step", [0.1, 1.0])
def test_a_round_trip_keeps_the_change(tmp_path: Path, step: float) -> None:
    model = base_model()
    state = {name: value.clone() for name, value in state_of(model).items()}
    trained = trained_from(state)
    made = written(tmp_path, state, trained, step=step)
    apply_difference(model, made.path)
    result = state_of(model)
    for entry in made.header.entries:
        delta = trained[entry.name] - state[entry.name]
        lost = result[entry.name] - trained[entry.name]
        if entry.kind == "whole":
            assert torch.equal(result[entry.name], trained[entry.name])
        else:
            share = 1 - float(lost.square().sum() / delta.square().sum())
            assert share == pytest.approx(entry.kept, abs=1e-3)  # the fidelity that is told is the fidelity that there is
            assert share > 1 - step**2 / 8
            rms = delta.square().mean(1).sqrt()
            assert bool((lost.abs().amax(1) <= 1.05 * step * rms + 1e-7).all())


def test_what_did_not_change_costs_nothing_and_stays_to_the_bit(tmp_path: Path) -> None:
    model = base_model()
    state = {name: value.clone() for name, value in state_of(model).items()}
    frozen = ("embed_tokens", "layers.0.", "norm")
    made = written(tmp_path, state, trained_from(state, frozen))
    names = {entry.name for entry in made.header.entries}
    assert names and not any(part in name for name in names for part in frozen)
    apply_difference(model, made.path)
    for name, value in state_of(model).items():
        assert (name in names) != torch.equal(value, state[name])


def test_rows_that_did_not_change_stay_to_the_bit(tmp_path: Path) -> None:
    """An embedding of which some tokens were learned."""
    model = base_model()
    state = {name: value.clone() for name, value in state_of(model).items()}
    trained = {name: value.clone() for name, value in state.items()}
    trained["model.embed_tokens.weight"][3:5] += 0.01 * torch.randn(2, trained["model.embed_tokens.weight"].shape[1])
    apply_difference(model, written(tmp_path, state, trained).path)
    result = state_of(model)["model.embed_tokens.weight"]
    same = (result == state["model.embed_tokens.weight"]).all(1)
    assert same.nonzero().flatten().tolist() == [row for row in range(len(result)) if row not in (3, 4)]


def test_a_tied_head_follows_the_embedding(tmp_path: Path) -> None:
    model = base_model()
    assert model.config.tie_word_embeddings
    state = {name: value.clone() for name, value in state_of(model).items()}
    assert "lm_head.weight" not in state
    made = written(tmp_path, state, trained_from(state))
    apply_difference(model, made.path)
    assert model.lm_head.weight.data_ptr() == model.model.embed_tokens.weight.data_ptr()
    assert not torch.equal(model.lm_head.weight, state["model.embed_tokens.weight"])


def test_the_same_weights_give_the_same_file(tmp_path: Path) -> None:
    state = state_of(base_model())
    first = written(tmp_path, state, trained_from(state))
    content = first.path.read_bytes()
    assert written(tmp_path, state, trained_from(state)).path.read_bytes() == content
    assert read_header(first.path)[1] == first.sha256
    assert hashlib.sha256(content[len(MAGIC) + 32 :]).hexdigest() == first.sha256


def test_a_step_is_found_for_a_size(tmp_path: Path) -> None:
    torch.manual_seed(2)
    state = {"w": torch.randn(512, 600), "norm": torch.ones(16)}
    trained = trained_from(state)
    for most in (60_000, 110_000):
        size = written(tmp_path, state, trained, step=step_for(state, trained, most)).size
        assert 0.5 * most < size <= 1.05 * most
    with pytest.raises(BackboneError, match="does not fit"):
        step_for(state, trained, 1000)


@pytest.mark.parametrize("harm", ["cut", "bit", "header", "empty", "foreign", "newer", "missing"])
def test_a_damaged_file_is_refused_and_nothing_is_changed(tmp_path: Path, harm: str) -> None:
    model = base_model()
    state = {name: value.clone() for name, value in state_of(model).items()}
    path = written(tmp_path, state, trained_from(state)).path
    content = bytearray(path.read_bytes())
    if harm == "bit":
        content[-100] ^= 1
    elif harm == "header":
        content[len(MAGIC) + 50] ^= 1
    elif harm == "newer":
        content[len(MAGIC) - 1] = 9
    changed = {"cut": content[:-100], "empty": b"", "foreign": b"PK\x03\x04" + content}.get(harm, content)
    path.write_bytes(changed) if harm != "missing" else path.unlink()
    told = {"foreign": "no difference", "empty": "no difference", "newer": "update", "missing": "No such file"}.get(
        harm, "damaged"
    )
    with pytest.raises(BackboneError, match=told):
        apply_difference(model, path)
    assert all(torch.equal(value, state[name]) for name, value in state_of(model).items())


def test_a_file_whose_hash_is_right_and_whose_content_lies_is_refused(tmp_path: Path) -> None:
    model = base_model()
    state = {name: value.clone() for name, value in state_of(model).items()}
    path = written(tmp_path, state, trained_from(state)).path
    body = path.read_bytes()[len(MAGIC) + 32 :]
    for old, new in ((b'"top":0.', b'"top":1.'), (b'"kind":"levels"', b'"kind":"whole" '), (b'"format":1', b'"format":2')):
        changed = body.replace(old, new, 1)
        assert changed != body
        path.write_bytes(MAGIC + hashlib.sha256(changed).digest() + changed)
        with pytest.raises(BackboneError, match="damaged"):
            apply_difference(model, path)
    assert all(torch.equal(value, state[name]) for name, value in state_of(model).items())


def test_another_base_is_refused(tmp_path: Path) -> None:
    model = base_model()
    state = state_of(model)
    path = written(tmp_path, state, trained_from(state)).path
    with pytest.raises(BackboneError, match="another file of tiny"):
        apply_difference(model, path, "1" * 64)
    with pytest.raises(BackboneError, match="another model"):
        apply_difference(small_model(seed=9, tie_word_embeddings=True), path)
    with pytest.raises(BackboneError, match="does not fit"):
        apply_difference(base_model().bfloat16(), path)


def test_what_cannot_be_packed_is_said(tmp_path: Path) -> None:
    state = state_of(base_model())
    trained = trained_from(state)
    name = next(iter(trained))
    with pytest.raises(BackboneError, match="missing"):
        written(tmp_path, state, {key: value for key, value in trained.items() if key != name})
    with pytest.raises(BackboneError, match="other shape"):
        written(tmp_path, state, {**trained, name: trained[name][:-1]})
    broken = trained[name].clone()
    broken[0, 0] = float("nan")
    with pytest.raises(BackboneError, match="no numbers"):
        written(tmp_path, state, {**trained, name: broken})
    with pytest.raises(BackboneError, match="cannot be written"):
        write_difference(state, trained, tmp_path / "no" / "x.difference", base="tiny", base_sha256="")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_embedded_model_itself(embedded: Any, tmp_path: Path) -> None:
    """106 million weights that changed at random, in the bits that such a change has, and back."""
    state = {name: value.clone() for name, value in state_of(embedded.model).items()}
    trained = trained_from(state, ("embed_tokens",), 3e-4)
    made = written(tmp_path, state, trained)
    count = sum(value.numel() for name, value in state.items() if value.ndim == 2 and "embed_tokens" not in name)
    assert count > 100_000_000
    assert 2.05 < 8 * made.size / count < 2.2
    assert made.kept > 0.92
    model = copy.deepcopy(embedded.model)
    apply_difference(model, made.path)
    result = state_of(model)
    assert torch.equal(result["model.embed_tokens.weight"], state["model.embed_tokens.weight"])
    name = "model.layers.17.mlp.down_proj.weight"
    lost = float((result[name] - trained[name]).square().sum() / (trained[name] - state[name]).square().sum())
    assert lost < 0.08
