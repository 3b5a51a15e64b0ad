"""The order of sources, and what is told of a key or a value that cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

import pytest
from pydantic import Field

from bottega.core.errors import UsageError
from bottega.core.settings import CommandSettings, Section, SettingsLayer, overrides_of, read_file, read_settings, split_tables


class Inner(Section):
    depth: Annotated[int, Field(ge=1)] = 1
    """How deep."""


class Outer(Section):
    name: str | None = None
    """A name."""
    sizes: tuple[int, ...] = ()
    """Sizes."""
    workers: int | str = "auto"
    """Side by side."""
    inner: Inner = Inner()
    """What is inside."""


def test_each_source_overrides_the_one_before_it(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text('name = "file"\nsizes = [1]\n[inner]\ndepth = 2\n[other]\nunread = 1\n')
    shared, tables = split_tables(read_file(file), ("other", "third"))
    assert tables == {"other": {"unread": 1}}
    found = read_settings(
        Outer,
        [
            SettingsLayer("preset", {"name": "preset", "sizes": [9]}),
            SettingsLayer("file", shared),
            SettingsLayer("flags", {"name": "flag"}),
        ],
    )
    assert (found.name, found.sizes, found.inner.depth) == ("flag", (1,), 2)


def test_words_are_toml_and_a_text_stays_a_text() -> None:
    words = ["name=64", "sizes=[1, 2]", "inner.depth=3", "workers=4"]
    found = read_settings(Outer, [SettingsLayer("arguments", overrides_of(Outer, words))])
    assert found == Outer(name="64", sizes=(1, 2), inner=Inner(depth=3), workers=4)
    assert overrides_of(Outer, ["name=none", "name=torch.randn(8, 512)"]) == {"name": "torch.randn(8, 512)"}
    with pytest.raises(UsageError, match=r"write section\.key=value"):
        overrides_of(Outer, ["=1"])


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"nmae": 1}, "mine: there is no setting nmae; did you mean name?"),
        ({"depth": 1}, "mine: there is no setting depth; did you mean inner.depth?"),
        ({"inner": {"colour": 1}}, "mine: there is no setting inner.colour; inner has depth"),
        ({"inner": 3}, "mine: inner = 3: is a table; set inner.depth"),
        ({"inner": {"depth": 0}}, "mine: inner.depth = 0: Input should be greater than or equal to 1"),
        ({"sizes": ["x"]}, "mine: sizes = 'x': Input should be a valid integer"),
    ],
)
def test_a_mistake_is_told_with_source_key_value_and_what_is_allowed(values: dict[str, object], told: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_settings(Outer, [SettingsLayer("mine", values), SettingsLayer("last", {"name": "x"})])
    assert told in str(caught.value) and "\n" not in str(caught.value)


def test_the_source_of_a_wrong_value_is_the_one_that_said_it_last() -> None:
    with pytest.raises(UsageError, match=r"^second: inner\.depth = -1"):
        read_settings(
            Outer,
            [
                SettingsLayer("first", {"inner": {"depth": 0}}),
                SettingsLayer("second", {"inner": {"depth": -1}}),
                SettingsLayer("third", {}),
            ],
        )


def test_a_setting_that_must_be_given_is_told_as_it_is_written() -> None:
    class Needing(CommandSettings):
        command: ClassVar[str] = "need"
        flags: ClassVar[tuple[str, ...]] = ("task_file",)

        task_file: str
        """The task: a file."""
        depth: int
        """How deep."""

    with pytest.raises(UsageError) as told:
        read_settings(Needing, [])
    assert str(told.value) == "--task-file must be given: The task: a file.; the setting depth must be given: How deep."
