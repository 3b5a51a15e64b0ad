"""Tokens: nothing secret on the disk, one name one token, limits read and checked, changes seen while the server runs."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from bottega.core.errors import UsageError
from bottega.service import tokens
from bottega.service.limits import RateLimiter, TokenLimits
from bottega.service.tokens import TokenFile, add_token, read_tokens


def test_a_token_is_its_owners_and_nobody_elses(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    alice, bob = add_token(file, "alice", TokenLimits(seconds=60)), add_token(file, "bob", TokenLimits())
    known = TokenFile(file)
    found = known.owner(alice)
    assert found is not None and found.name == "alice" and found.limits.seconds == 60
    assert known.owner(bob).name == "bob"  # type: ignore[union-attr]
    for wrong in (
        "",
        "alice",
        alice[:-1],
        alice + "x",
        "bob" + alice[5:],
        "nobody.x",
        alice.upper(),
        "alice.\u00e9",
        "a" * 10_000,
    ):
        assert known.owner(wrong) is None, wrong


def test_the_file_holds_no_token_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    token = add_token(file, "alice", TokenLimits(own_tasks=True))
    text = file.read_text()
    assert token.partition(".")[2] not in text and "own_tasks = true" in text
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert read_tokens(file)["alice"].hash != read_tokens(file)["alice"].salt


def test_a_name_has_one_token(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    add_token(file, "alice", TokenLimits())
    with pytest.raises(UsageError, match="already"):
        add_token(file, "alice", TokenLimits())
    for name in ("", "a b", "../x", "a.b", "[x]", "x" * 41, '"'):
        with pytest.raises(UsageError, match="no name"):
            add_token(file, name, TokenLimits())


def test_what_is_wrong_in_the_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    with pytest.raises(UsageError, match="add-token"):
        TokenFile(file)
    add_token(file, "alice", TokenLimits())
    good = file.read_text()
    for text, word in (
        (good + "speed = 1\n", "speed"),
        (good + "seconds = -1\n", "seconds"),
        ("[alice]\n", "salt"),
        ("x", "TOML"),
    ):
        file.write_text(text)
        with pytest.raises(UsageError, match=word):
            TokenFile(file)


def test_a_deleted_name_is_shut_out_and_while_the_file_is_broken_everybody_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tokens, "RELOAD_SECONDS", -1.0)
    file = tmp_path / "tokens.toml"
    alice, bob = add_token(file, "alice", TokenLimits()), add_token(file, "bob", TokenLimits())
    known = TokenFile(file)
    good = file.read_text()
    assert known.limits_of("alice") and not known.revoked("alice") and known.revoked("nobody")
    file.write_text("broken [")
    for _ in range(3):
        assert known.owner(alice) is known.limits_of("alice") is None and not known.revoked("alice")
    assert "TOML" in known.trouble and caplog.text.count("nobody is let in") == 1
    file.write_text(good)
    assert known.owner(alice) is not None and not known.trouble
    file.rename(tmp_path / "away")
    assert known.owner(alice) is None and not known.revoked("alice") and caplog.text.count("nobody is let in") == 2
    file.write_text(good[good.index("[bob]") :])
    assert known.owner(alice) is None and known.owner(bob) is not None and known.revoked("alice") and not known.trouble


def test_the_rate_is_of_the_last_minute() -> None:
    now = [0.0]
    rates = RateLimiter(lambda: now[0])
    assert [rates.wait("a", 2) for _ in range(2)] == [0.0, 0.0]
    assert rates.wait("a", 2) == 60.0 and rates.wait("b", 2) == 0.0
    now[0] = 59.0
    assert rates.wait("a", 2) == 1.0
    now[0] = 60.0
    assert rates.wait("a", 2) == 0.0
