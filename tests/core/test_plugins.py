"""Plug-ins: found in the table, among installed entry points, or as `module:Name`, also in the current folder."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from bottega.core import plugins
from bottega.core.errors import UsageError
from bottega.core.plugins import Plugins

TABLE = Plugins("colours", "colour", {"path": "os.path:join"})


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = {
        "good": EntryPoint("good", "json:dumps", "bottega.colours"),
        "bad": EntryPoint("bad", "no_such_module_at_all:x", "bottega.colours"),
    }
    monkeypatch.setattr(plugins, "_installed", lambda kind: entries if kind == "colours" else {})


def test_by_table_by_entry_point_and_by_module(installed: None) -> None:
    import json
    import os.path

    assert TABLE.names == ("path", "bad", "good")
    assert TABLE.load("path") is os.path.join
    assert TABLE.load("good") is json.dumps
    assert TABLE.load("json.decoder:JSONDecoder.decode") is json.decoder.JSONDecoder.decode
    assert (TABLE.module("path"), TABLE.module("good"), TABLE.module("a.b:C")) == ("os.path", "json", "a.b")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("red", "unknown colour 'red'; use path, bad, good, or module:Name"),
        ("bad", "the colour bad .* is installed, but fails: ModuleNotFoundError"),
        ("json:nothing", "the module json has no nothing"),
        ("not a module:x", "unknown colour"),
        ("", "unknown colour"),
    ],
)
def test_what_cannot_be_had_is_wrong_usage(installed: None, name: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        TABLE.load(name)


def test_a_module_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_own_colours.py").write_text("def red(): return 'red'")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert TABLE.load("my_own_colours:red")() == "red"
    monkeypatch.delitem(sys.modules, "my_own_colours")


def test_a_name_in_front_of_something(installed: None) -> None:
    assert TABLE.split("path:a:b") == ("path", "a:b")
    assert TABLE.split("json:dumps:a:b") == ("json:dumps", "a:b")
    assert TABLE.split("json:dumps") == ("json:dumps", "")
    assert TABLE.split("somewhere/file.py") == ("", "somewhere/file.py")
    assert TABLE.split("no_such_module_at_all:x") == ("", "no_such_module_at_all:x")


def test_checking_imports_nothing() -> None:
    assert TABLE.check("no_such_module_at_all:x") == "no_such_module_at_all:x"
    with pytest.raises(ValueError, match="unknown"):
        TABLE.validate("red")
