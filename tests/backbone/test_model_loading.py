from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from small_models import END, small_model, torch, unequal, with_lora, word_tokenizer
from teacher_forced import as_sampled

from bottega.backbone import loading
from bottega.backbone.loading import Lora, load
from bottega.backbone.local import LocalBackbone
from bottega.core.errors import BackboneError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "small"
    small_model(eos_token_id=END).save_pretrained(path)
    word_tokenizer().inner.save_pretrained(path)
    return path


def test_a_folder_is_opened(folder: Path) -> None:
    backbone = LocalBackbone.open(str(folder), device="cpu", slots=3)
    assert backbone.name == "small"
    assert backbone.engine == "plain torch"
    requests = unequal(4)
    found = asyncio.run(backbone.complete(requests))
    truth = as_sampled(backbone.model, requests, found)
    assert max(abs(a - b) for row, each in zip(truth, found) for a, b in zip(row, each.logprobs)) < 1e-4
    asyncio.run(backbone.close())


def test_dtype_and_context_are_what_was_asked(folder: Path) -> None:
    loaded = load(str(folder), device="cpu", dtype="bfloat16", context=100)
    assert loaded.model.dtype == torch.bfloat16
    assert loaded.tokenizer.context == 100
    assert loaded.tokenizer.ends == (END,)
    with pytest.raises(BackboneError, match="at most 256"):
        load(str(folder), device="cpu", context=10_000)


def test_an_adapter_is_made_saved_and_opened(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("peft")
    fresh = load(str(folder), device="cpu", lora=Lora(rank=2, targets=("q_proj", "down_proj")))
    trainable = [name for name, parameter in fresh.model.named_parameters() if parameter.requires_grad]
    assert trainable and all("lora" in name for name in trainable)
    with_lora(small_model(eos_token_id=END)).save_pretrained(tmp_path / "adapter")
    again = load(str(folder), device="cpu", adapter=tmp_path / "adapter")
    assert any(parameter.requires_grad for parameter in again.model.parameters())
    assert not LocalBackbone(again).engine.startswith("transformers")
    with pytest.raises(BackboneError, match="adapter_config"):
        load(str(folder), device="cpu", adapter=tmp_path)


@pytest.mark.parametrize(
    ("name", "words"),
    [("./no/such/folder", "there is no model at"), ("/no/such", "there is no model at"), ("a/b/c", "there is no model at")],
)
def test_a_path_that_is_not_there(name: str, words: str) -> None:
    with pytest.raises(BackboneError, match=words):
        load(name, device="cpu")


def test_a_folder_that_holds_no_model(tmp_path: Path) -> None:
    with pytest.raises(BackboneError, match=r"no config\.json"):
        load(str(tmp_path), device="cpu")
    (tmp_path / "config.json").write_text('{"model_type": "no_such_model"}')
    with pytest.raises(BackboneError, match="cannot be loaded"):
        load(str(tmp_path), device="cpu")


def test_a_hub_name_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)  # the variable is read at import
    with pytest.raises(BackboneError, match="cannot be loaded"):
        load("nobody/no-such-model", device="cpu")


def test_what_is_unknown_is_named(folder: Path) -> None:
    with pytest.raises(BackboneError, match="unknown device 'tpu'"):
        load(str(folder), device="tpu")
    with pytest.raises(BackboneError, match="unknown dtype 'int3'"):
        load(str(folder), device="cpu", dtype="int3")
    if not torch.cuda.is_available():
        with pytest.raises(BackboneError, match="no CUDA device"):
            load(str(folder), device="cuda")


def test_too_large_is_said_before_it_is_loaded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "free_memory", lambda device: 1000)
    with pytest.raises(BackboneError, match="GiB free"):
        load(str(folder), device="cpu")


def test_missing_packages_are_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def without(missing: str) -> Any:
        def imported(name: str, *args: Any, **others: Any) -> Any:
            if name.partition(".")[0] == missing:
                raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)
            return real(name, *args, **others)

        return imported

    real = loading.importlib.import_module
    for missing, options in (("transformers", {}), ("peft", {"lora": Lora()})):
        monkeypatch.setattr(loading.importlib, "import_module", without(missing))
        with pytest.raises(BackboneError, match=rf"needs {missing}: pip install 'bottega\[local\]'"):
            load(str(folder), device="cpu", **options)


@pytest.mark.rotates
def test_loading_is_lazy() -> None:
    import subprocess
    import sys

    code = (
        "import sys, bottega.backbone.loading, bottega.backbone.local, bottega.backbone.embedded;"
        "sys.exit(any(name in sys.modules for name in ('transformers', 'peft', 'triton', 'pydantic')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_another_dtype_leaves_the_rotary_frequencies_alone() -> None:
    model = small_model(tie_word_embeddings=True)
    frequencies = model.model.rotary_emb.inv_freq.clone()
    loading.cast(model, torch.bfloat16)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    assert torch.equal(model.model.rotary_emb.inv_freq, frequencies)
    assert model.lm_head.weight is model.model.embed_tokens.weight
