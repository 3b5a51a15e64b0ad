"""The embedded model with a delta, by its names and through the cache; the base is a tiny file in the real one's make."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers", reason="a model in this process needs transformers")

from tiny_gguf import write_tiny  # noqa: E402

from bottega.backbone import loading, merged  # noqa: E402
from bottega.backbone.choose import open_backbone  # noqa: E402
from bottega.backbone.delta import state_of, write_delta  # noqa: E402
from bottega.backbone.embedded import read_embedded, require_embedded_file  # noqa: E402
from bottega.core.errors import BackboneError, UsageError  # noqa: E402


@pytest.fixture
def delta(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A delta to a tiny base that lies where the embedded model is looked for, and a cache of its own."""
    write_tiny(tmp_path / "site")
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setenv("BOTTEGA_CACHE", str(tmp_path / "cache"))
    base = require_embedded_file()
    assert base.name == "tiny.gguf"
    state = state_of(read_embedded(base)[0])
    torch.manual_seed(0)
    trained = {name: value + 0.01 * torch.randn_like(value) for name, value in state.items()}
    path = tmp_path / "own.difference"
    write_delta(state, trained, path, base="Tiny", base_sha256=merged.file_sha256(base), step=0.1, card={"name": "round 3"})
    return path


def weights(name: str) -> dict[str, Any]:
    return state_of(loading.load(name, device="cpu").model)


def cached() -> list[Path]:
    folder = merged.cache_folder()
    assert folder is not None
    return sorted(folder.iterdir()) if folder.exists() else []


def same(left: dict[str, Any], right: dict[str, Any]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def test_without_a_difference_embedded_is_the_base(delta: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "shipped_delta", lambda: None)
    assert loading.load("embedded", device="cpu").name == loading.load("embedded:base", device="cpu").name
    assert same(weights("embedded"), weights("embedded:base"))
    assert not cached()


def test_with_a_difference_embedded_is_the_trained_model(delta: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "shipped_delta", lambda: delta)
    assert loading.load("embedded", device="cpu").name == "Tiny + round 3"
    base, trained = weights("embedded:base"), weights("embedded")
    assert not any(torch.equal(base[name], trained[name]) for name in base)
    assert same(trained, weights(f"embedded:{delta}"))


def test_it_answers_by_its_spec(delta: Path) -> None:
    client = open_backbone(f"embedded:{delta}?context=64&slots=1", device="cpu")
    assert (client.name, client.context) == ("Tiny + round 3", 64)
    assert open_backbone("embedded:base?context=32", device="cpu").context == 32


@pytest.mark.parametrize("spec", ["embedded:", "embedded:x", "embedded:bass", "embedded:x.differenc"])
def test_other_words_after_the_colon_are_refused(spec: str) -> None:
    with pytest.raises(UsageError, match="embedded:base"):
        open_backbone(spec)


def test_a_difference_that_is_not_there_is_an_error(delta: Path) -> None:
    with pytest.raises(BackboneError, match="cannot be read"):
        loading.load("embedded:nowhere.difference", device="cpu")


def test_a_difference_for_another_base_is_an_error(delta: Path) -> None:
    base = require_embedded_file()
    base.write_bytes(base.read_bytes() + b"\0")
    with pytest.raises(BackboneError, match="another file of Tiny"):
        loading.load(f"embedded:{delta}", device="cpu")


def test_the_second_start_reads_what_the_first_kept(delta: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = weights(f"embedded:{delta}")
    assert len(cached()) == 1

    def refuse(*_: object) -> None:
        raise AssertionError("the delta was added again")

    monkeypatch.setattr(merged, "apply_delta", refuse)
    assert same(weights(f"embedded:{delta}"), first)


@pytest.mark.parametrize("harm", ["bit", "cut", "empty"])
def test_a_damaged_cache_is_made_again(delta: Path, harm: str) -> None:
    first = weights(f"embedded:{delta}")
    (path,) = cached()
    content = bytearray(path.read_bytes())
    content[-7] ^= 4
    path.write_bytes({"bit": content, "cut": content[:-7], "empty": b""}[harm])
    assert same(weights(f"embedded:{delta}"), first)
    assert len(cached()) == 1
    assert same(weights(f"embedded:{delta}"), first)


def test_a_cache_that_cannot_be_written_is_no_reason_to_stop(delta: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOTTEGA_CACHE", str(delta))  # a file where the folder should be
    assert weights(f"embedded:{delta}")


@pytest.mark.parametrize("where", ["writing", "naming"])
def test_a_kill_while_the_cache_is_written_leaves_nothing_to_be_found(
    delta: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, _ = read_embedded()
    child = os.fork()
    if child == 0:
        from safetensors import torch as saving

        def half(state: dict[str, Any], path: Path) -> None:
            path.write_bytes(b"\x08\0\0\0\0\0\0\0{")
            os.kill(os.getpid(), signal.SIGKILL)

        if where == "writing":
            saving.save_file = half
        else:
            os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
        merged._store("0" * 32, model)
        os._exit(1)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    (draft,) = cached()
    assert merged._stored("0" * 32) is None
    first = weights(f"embedded:{delta}")
    assert same(weights(f"embedded:{delta}"), first)
    os.utime(draft, (0, 0))
    merged._store("1" * 32, model)  # the next one that writes sweeps up
    assert draft not in cached()


def test_few_models_are_kept(delta: Path) -> None:
    model, _ = read_embedded()
    for number in range(4):
        merged._store(f"{number}" * 32, model)
        for age, path in enumerate(reversed(cached())):
            os.utime(path, (1000 - age, 1000 - age))
    assert [path.name[0] for path in cached()] == ["2", "3"]
