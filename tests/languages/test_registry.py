"""Languages by name, by device and by `module:Name`; one that was never heard of here is named in the error with what there is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from bottega.core.errors import UsageError
from bottega.judge.coverage import claimed_kernels
from bottega.languages import (
    LANGUAGES,
    Language,
    candidate_from,
    choose_language,
    default_language,
    detect_language,
    every_language,
    index_bit,
    kernel_languages,
    language_named,
    registry,
    snippet_language,
    use_language,
)


class Tile(Language):
    name = "tile"
    title = "Tile"
    precedence = 50
    devices = ("cuda",)
    decorators = ("tile.kernel",)

    def recognises(self, source: str) -> bool:
        return "import tile" in source

    def kernel_names(self, source: str) -> Iterator[str]:
        return (line.split()[1].partition("(")[0] for line in source.splitlines() if line.startswith("def "))


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    made = ModuleType("made_up_languages")
    made.Tile, made.nothing = Tile, 3  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, made.__name__, made)
    yield made.__name__
    registry._NAMED.clear()
    registry._loaded.cache_clear()


def test_every_name_of_the_table_is_the_name_of_its_language() -> None:
    assert [language_named(name).name for name in LANGUAGES.names] == list(LANGUAGES.names)
    assert len({language.precedence for language in every_language()}) == len(every_language())


def test_languages_with_kernels_say_how_they_are_written() -> None:
    for language in kernel_languages():
        assert language.rules and "class ModelNew" in language.example and language.needs
        assert detect_language(language.example) == language.name
        assert claimed_kernels(language.example, language.name) == ("relu_gain",)


def test_defaults_by_device() -> None:
    assert (default_language("cpu").name, default_language("cuda:3").name) == ("cpp", "triton")
    assert choose_language(None, "cuda") == "triton"


def test_bits_of_the_search_index_stay_as_they_are_on_disk() -> None:
    assert [index_bit(name) for name in ("cpp", "triton", "cuda", "gluon")] == [8, 16, 32, 64]
    assert index_bit("not installed here") == index_bit("not installed here") >= 1024


def test_one_named_by_its_module_is_recognised_from_then_on(module: str) -> None:
    text = "import tile\ndef doubled(x): pass"
    assert detect_language(text) == "torch"
    assert use_language(f"{module}:Tile").title == "Tile"
    assert candidate_from(text).language == choose_language(f"{module}:Tile", "cuda") == f"{module}:Tile"
    assert claimed_kernels(text, f"{module}:Tile") == ("doubled",)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("mojo", "unknown language 'mojo'; use cpp, triton, cuda, gluon, torch, or module:Name"),
        ("made_up_languages:Else", "has no Else"),
        ("made_up_languages:nothing", "is no Language"),
        ("no_such_module_at_all:Name", "cannot be imported: ModuleNotFoundError"),
    ],
)
def test_what_is_no_language_is_refused(module: str, name: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        use_language(name)


def test_a_record_has_no_module_imported(module: str) -> None:
    with pytest.raises(UsageError, match=f"name it with language={module}:Tile"):
        language_named(f"{module}:Tile")
    with pytest.raises(UsageError, match="unknown language"):
        language_named("mojo")


@pytest.mark.parametrize(
    ("text", "name"),
    [("use tl.dot", "triton"), ("Triton beside __global__", "triton"), ("__global__ void f()", "cuda"), ("fuse it", "triton")],
)
def test_the_language_of_a_foreign_card(text: str, name: str) -> None:
    assert snippet_language(text, "cuda").name == name
