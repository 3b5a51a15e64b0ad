"""`bottega skills`: what it prints, what it exits with, and that bad input never shows a traceback.

Most of it runs in this process, because starting one takes a second; the last ones are processes.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import typer
from module_task import module_task

from bottega.app import skills_command, terminal
from bottega.core.errors import BottegaError
from bottega.core.skill import AppliesTo, Skill, SkillState
from bottega.core.trial import GainInterval, Trial
from bottega.skills.library import Library
from bottega.skills.starter import starter_cards
from bottega.skills.uses import Scheme, Use
from bottega.tasks.builtin import builtin_files

NAME = "softmax_one_exp_per_element"


@dataclass
class Told:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


COMMAND = typer.main.get_command(skills_command.app)


def bottega(*arguments: object) -> Told:
    """`bottega skills` with these arguments. Anything but an exit or an error of ours is a traceback, and fails the test."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            COMMAND(list(map(str, arguments)), prog_name="bottega skills")
        except SystemExit as stopped:
            code = int(stopped.code or 0)
        except BottegaError as error:
            err.write(f"bottega: {error}\n")
            code = 2
    return Told(code, out.getvalue(), err.getvalue())


def fails(*arguments: object, saying: str) -> None:
    told = bottega(*arguments)
    assert told.code == 2, told
    assert saying in " ".join(told.err.split()), told.err
    assert "Traceback" not in told.err and told.out == ""


@pytest.fixture(scope="session")
def starter() -> dict[str, Skill]:
    return {card.name: card for card in starter_cards()}


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """In memory where that can be: every change of a library waits for its disk."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture
def library(tmp_path: Path, starter: dict[str, Skill]) -> Iterator[Library]:
    """A few cards, one of them admitted, with evidence and use."""
    names = (NAME, "transpose_in_tiles", "matmul_packed_panels", "gelu_erf_simd")
    with Library(tmp_path / "library") as made:
        made.add_many(starter[name] for name in names)
        made.move(NAME, SkillState.ADMITTED, "a gain [of] 1.4x")
        gain = GainInterval(1.4, 1.2, 1.6)
        facts = (NAME, 1, "gate", "t" * 16, "softmax", False, "eager", "a cpu", "1", (1.4,), (1.0,), gain, "admitted", "why")
        made.evidence.add("key", Trial(*facts))
        schemes = (Scheme((NAME,), (0.3,)), Scheme((), (0.1,)))
        made.uses.record(Use("run/1", "t" * 16, "softmax", "cpu", 2, (NAME,), schemes))
        yield made


@pytest.fixture
def place(library: Library) -> tuple[str, Path]:
    return "--library", library.folder


def test_list_shows_names_whole_and_can_be_narrowed(place: tuple[str, Path], library: Library) -> None:
    library.move("gelu_erf_simd", SkillState.RETIRED, "old")
    told = bottega("list", *place)
    assert told.code == 0 and NAME in told.out and "gelu_erf_simd" not in told.out
    assert "version 5: 3 cards" in told.out
    line = next(line for line in told.out.splitlines() if NAME in line)
    assert library.get(NAME).intent in line, "one line for each card where a program reads"
    assert [card["name"] for card in bottega("list", *place, "--json", "--state", "retired").json] == ["gelu_erf_simd"]
    assert bottega("list", *place, "--json", "--language", "triton").json == []
    assert len(bottega("list", *place, "--json", "--at", 1).json) == 4
    assert bottega("list", *place, "--json", "--at", 0).json == []
    fails("list", *place, "--state", "good", saying="unknown state 'good'")
    fails("list", *place, "--language", "basic", saying="unknown language 'basic'")
    for at in (-1, 99):
        fails("list", *place, "--at", at, saying="no version")


def test_show_has_the_card_its_evidence_its_use_and_its_history(place: tuple[str, Path], library: Library) -> None:
    told = bottega("show", NAME, *place)
    for text in ("admitted", "a gain [of] 1.4x", "admitted on softmax, a cpu: 1.40x", "+22.1%", "library version 1"):
        assert text in told.out, text
    facts = bottega("show", NAME, *place, "--json").json
    assert facts["name"] == NAME and facts["evidence"][0]["task_name"] == "softmax"
    assert facts["use"][0]["compared"] == 1 and len(facts["history"]) == 2
    assert bottega("show", NAME, *place, "--json", "--at", 1).json["state"] == "proposed"
    fails("show", "softmax_one", *place, saying="no card is named 'softmax_one'")
    fails("show", "\udcff\udcfe", *place, saying="half of a surrogate pair")
    fails("show", NAME, *place, "--at", 0, saying="no card is named")


def test_search_finds_admitted_cards_unless_asked(place: tuple[str, Path]) -> None:
    assert [hit["name"] for hit in bottega("search", "softmax", *place, "--json").json] == [NAME]
    assert NAME in bottega("search", "softmax", *place).out
    told = bottega("search", "transpose", *place)
    assert "no admitted card matches; cards in other states match: --state all" in told.out and told.code == 0
    assert bottega("search", "transpose", *place, "--state", "all", "--json").json[0]["name"] == "transpose_in_tiles"
    assert bottega("search", "zzyzx", *place).out == "no admitted card matches\n"
    assert bottega("search", "--task", "builtin:softmax", *place, "--json").code in (0, 2)
    many = bottega("search", "the", "rows", *place, "--state", "all", "--json", "-k", 10**12)
    assert 1 <= len(many.json) <= 4
    for words in ("'; DROP TABLE cards; --", "(((", ".*", "\udcff"):
        assert bottega("search", words, *place, "--json").code == 0
    fails("search", *place, saying="say what to look for")
    fails("search", "x", *place, "-k", 0, saying="--count is at least 1")
    fails("search", "x", *place, "--scope", "mine", saying="unknown scope")
    fails("search", "x", *place, "--device", "tpu", saying="unknown device")
    fails("search", "x", *place, "--state", "good", saying="unknown state")
    fails("search", "--task", "no_such_file.py", *place, saying="no_such_file.py")


def card_file(folder: Path, card: Skill, **changes: Any) -> Path:
    path = folder / f"{changes.get('name', card.name)}.json"
    path.write_text(json.dumps({**card.to_json(), **changes}))
    return path


@pytest.mark.rotates
def test_search_for_a_task_leaves_out_cards_whose_typed_conditions_do_not_hold(
    place: tuple[str, Path], library: Library, starter: dict[str, Skill]
) -> None:
    card = starter[NAME]
    for name, kind in (("for_rows", "row"), ("for_convolutions", "convolution")):
        library.add(replace(card, name=name, applies_to=AppliesTo(kinds=(kind,)), state=SkillState.ADMITTED))
    task = "builtin:" + next(file.stem for file in builtin_files() if "softmax" in file.stem)
    found = {hit["name"] for hit in bottega("search", "--task", task, *place, "--json").json}
    assert "for_rows" in found and "for_convolutions" not in found
    assert "for_convolutions" in {hit["name"] for hit in bottega("search", "softmax", *place, "--json").json}


def test_add_takes_cards_as_proposed_and_names_their_twins(tmp_path: Path, starter: dict[str, Skill]) -> None:
    place, card = ("--library", tmp_path / "new"), starter[NAME]
    told = bottega("add", card_file(tmp_path, card, state="admitted", version=9, reason="I say so"), *place)
    assert told.out == f"added {NAME}, proposed, library version 1\n"
    with Library(tmp_path / "new") as library:
        assert (library.get(NAME).state, library.get(NAME).version, library.get(NAME).reason) == (SkillState.PROPOSED, 1, "")
    twin = bottega("add", card_file(tmp_path, card, name="a_twin"), *place)
    assert f"like {NAME}: `bottega skills merge {NAME} a_twin` makes them one" in twin.out
    path = card_file(tmp_path, card, effect="Another effect.")
    fails("add", path, *place, saying="is there already (proposed); nothing was changed")
    assert bottega("add", path, *place, "--revise").out.startswith(f"revised {NAME}, proposed, library version 3\n")
    assert bottega("add", path, *place, "--revise").out.startswith(f"already there: {NAME}, proposed, library version 3\n")
    (facts,) = map(json.loads, bottega("add", card_file(tmp_path, card, name="third"), *place, "--json").out.splitlines())
    assert facts["name"] == "third" and {twin["name"] for twin in facts["alike"]} == {"a_twin", NAME}


def test_add_takes_a_toml_file_that_is_named_like_its_card(tmp_path: Path) -> None:
    source = Path(sys.modules["bottega.skills.starter"].__file__ or "").parent / "cpp" / f"{NAME}.toml"
    (tmp_path / source.name).write_text(source.read_text())
    assert bottega("add", tmp_path / source.name, "--library", tmp_path / "new").code == 0
    (tmp_path / "other.toml").write_text(source.read_text())
    fails("add", tmp_path / "other.toml", "--library", tmp_path / "new", saying="name the file")


@pytest.mark.parametrize(
    ("name", "text", "saying"),
    [
        ("a.json", b"", "not a card"),
        ("a.json", b"{", "not a card"),
        ("a.json", b"\xff\xfe\x00", "not a card"),
        ("a.json", b"[" * 200_000, "not a card"),
        ("a.json", b"[]", "a card is an object"),
        ("a.json", b'{"schema": 99}', "upgrade Bottega"),
        ("a.json", b"{}", "Field required"),
        ("a.toml", b"name = ", "not a TOML card"),
        ("a.toml", b"\xff", "not a TOML card"),
        ("a.toml", b"x = " + b"[" * 100_000, "not a"),
        ("a.toml", b"name = 2026-01-01", "name"),
        ("a.txt", b"hello", "not a card"),
    ],
)
def test_a_file_that_is_no_card_is_said_to_be_none(tmp_path: Path, name: str, text: bytes, saying: str) -> None:
    (tmp_path / name).write_bytes(text)
    fails("add", tmp_path / name, "--library", tmp_path / "new", saying=saying)


def test_add_says_when_there_is_nothing_to_read(tmp_path: Path) -> None:
    fails("add", tmp_path / "nothing.toml", "--library", tmp_path / "new", saying="no such file")
    fails("add", tmp_path, "--library", tmp_path / "new", saying="no such file")


def test_export_and_import_go_round(place: tuple[str, Path], library: Library, tmp_path: Path) -> None:
    told = bottega("export", tmp_path / "out.jsonl", *place)
    assert told.out == f"wrote 4 cards to {tmp_path / 'out.jsonl'}\n"
    assert bottega("export", *place).out == (tmp_path / "out.jsonl").read_text()
    assert bottega("export", *place, "--name", NAME, "--at", 1).json["state"] == "proposed"
    assert bottega("export", *place, "--state", "admitted").json["name"] == NAME
    other = ("--library", tmp_path / "other")
    first = bottega("import", tmp_path / "out.jsonl", *other, "--trust", "--json")
    assert (first.code, len(first.json["added"]), first.json["trials"]) == (0, 4, 1)
    assert bottega("export", *other).out == bottega("export", *place).out
    again = bottega("import", tmp_path / "out.jsonl", *other)
    assert "0 added, 0 of them under another name, 4 there already, 0 skipped, 0 refused, 0 trials" in again.out
    fails("export", tmp_path, *place, saying="is a folder")
    fails("export", *place, "--state", "good", saying="unknown state")
    fails("export", *place, "--name", "nobody", saying="no card is named")
    fails("export", *place, "--agent-skills", saying="needs a folder")
    assert bottega("export", tmp_path / "skills", *place, "--agent-skills").out.startswith("wrote 4 skills")
    assert (tmp_path / "skills" / NAME.replace("_", "-") / "SKILL.md").is_file()
    fails("export", tmp_path / "out.jsonl", *place, "--agent-skills", saying="cannot be written")


def test_import_reports_what_it_did_not_take(place: tuple[str, Path], starter: dict[str, Skill], tmp_path: Path) -> None:
    changed = {**starter[NAME].to_json(), "effect": "Another effect."}
    text = f'{json.dumps(changed)}\n{{"half\n{json.dumps({**changed, "name": "nEW"})}\n'
    (tmp_path / "in.jsonl").write_text(text)
    told = bottega("import", tmp_path / "in.jsonl", *place)
    assert told.code == 1
    assert "1 added, 1 of them under another name" in told.out and f"{NAME} is now {NAME}_2" in told.out
    assert "line 2: not a JSON object" in told.err and "line 3: name:" in told.err and "Traceback" not in told.err
    fails("import", tmp_path / "in.jsonl", *place, "--on-conflict", "guess", saying="use rename, skip or error")
    fails("import", tmp_path / "nothing", *place, saying="cannot be read")
    fails("import", tmp_path, *place, saying="cannot be read")
    (tmp_path / "one.jsonl").write_text(json.dumps({**changed, "effect": "A third effect."}))
    fails("import", tmp_path / "one.jsonl", *place, "--on-conflict", "error", saying="nothing was changed")
    starters = bottega("import", "starter", "--library", tmp_path / "new", "--json")
    assert len(starters.json["added"]) == len(starter)


def test_merge_lists_twins_and_makes_them_one(place: tuple[str, Path], library: Library, starter: dict[str, Skill]) -> None:
    assert "no two cards are 60% alike" in bottega("merge", *place).out
    for name in ("twin_one", "twin_two"):
        library.add(Skill(**{**starter[NAME].__dict__, "name": name}))
    listed = bottega("merge", *place, "--json").json
    assert {(twins["keep"], twins["drop"]) for twins in listed} >= {(NAME, "twin_one"), (NAME, "twin_two")}
    assert library.get("twin_one").state is SkillState.PROPOSED
    told = bottega("merge", *place, "--all")
    assert told.out.count("merged into") == 2, "a pair whose card is settled already is not merged"
    assert library.get("twin_two").state is SkillState.RETIRED
    assert "restored twin_one, proposed" in bottega("restore", "twin_one", *place).out
    assert bottega("merge", NAME, "twin_one", *place).out == f"twin_one merged into {NAME}\n"
    fails("merge", "twin_one", NAME, *place, saying="is retired")
    fails("merge", NAME, *place, saying="at least one other")
    fails("merge", NAME, "nobody", *place, saying="no card is named")
    for share in (0, 1.5, "nan"):
        fails("merge", *place, "--alike", share, saying="--alike is a share")


def test_retire_and_restore(place: tuple[str, Path], library: Library) -> None:
    fails("retire", NAME, *place, saying="say why a card retires")
    fails("retire", *place, saying="give a card's name")
    fails("retire", NAME, "--tired", *place, saying="or --tired")
    assert bottega("retire", NAME, *place, "--reason", "no \x1b[31mgain").out == f"retired {NAME}: no [31mgain\n"
    fails("retire", "nobody", *place, "--reason", "x", saying="no card is named")
    told = bottega("restore", NAME, *place, "--json")
    assert told.json["state"] == "proposed"
    fails("restore", NAME, *place, saying="is not retired")
    assert bottega("retire", "--tired", *place).out == "no card is tired\n"
    library.move(NAME, SkillState.ADMITTED, "again")
    for number in range(12):
        schemes = (Scheme((NAME,), (0.0,)), Scheme((), (0.1,)))
        library.uses.record(Use(f"late/{number}", "t" * 16, "softmax", "cpu", library.version, (NAME,), schemes))
    assert f"would retire {NAME}: no uplift" in bottega("retire", "--tired", "--dry-run", *place).out
    assert library.get(NAME).state is SkillState.ADMITTED
    assert bottega("retire", "--tired", *place, "--json").json[0]["name"] == NAME


def test_stats(place: tuple[str, Path]) -> None:
    told = bottega("stats", *place)
    assert "3 proposed, 1 admitted, 0 retired" in told.out and NAME in told.out and "+22.1%" in told.out
    facts = bottega("stats", *place, "--json").json
    assert facts["cards"] == {"proposed": 3, "admitted": 1, "retired": 0}
    assert facts["use"][0]["uplift_factor"] == pytest.approx(1.2214, abs=1e-4)
    assert bottega("stats", NAME, *place, "--json").json["use"][0]["family"] == "softmax"
    assert bottega("stats", "transpose_in_tiles", *place, "--json").json["use"] == []
    fails("stats", "nobody", *place, saying="no card is named")


def test_brackets_in_a_card_are_text(place: tuple[str, Path], library: Library, starter: dict[str, Skill]) -> None:
    intent = "Store y[i], then [bold]x[/bold] and [/] and x[/red] unclosed [link=file]."
    library.add(Skill(**{**starter[NAME].__dict__, "name": "brackets", "intent": intent, "state": SkillState.ADMITTED}))
    library.move("brackets", SkillState.ADMITTED, "it [/was] measured [i]")
    assert intent in bottega("list", *place).out
    assert intent in bottega("search", "brackets", *place).out
    shown = bottega("show", "brackets", *place)
    assert shown.code == 0 and "it [/was] measured [i]" in shown.out


def test_a_damaged_library_is_reported_with_what_to_do(place: tuple[str, Path], library: Library) -> None:
    library.close()
    path = library.folder / "library.db"
    data = bytearray(path.read_bytes())
    data[:4096] = bytes(4096)
    path.write_bytes(data)
    for command in (
        ("list",),
        ("show", NAME),
        ("search", "softmax"),
        ("stats",),
        ("merge",),
        ("export",),
        ("retire", "--tired"),
    ):
        fails(*command, *place, saying=".recover")


@pytest.mark.parametrize(
    "command",
    [
        ("list",),
        ("show", "x"),
        ("search", "x"),
        ("export",),
        ("merge",),
        ("retire", "--tired"),
        ("restore", "x"),
        ("stats",),
    ],
    ids=lambda command: command[0],
)
def test_a_library_that_is_not_there_is_told_and_not_made(tmp_path: Path, command: tuple[str, ...]) -> None:
    fails(*command, "--library", tmp_path / "nowhere", saying="no ")
    assert not (tmp_path / "nowhere").exists()
    (tmp_path / "file").write_text("text")
    fails(*command, "--library", tmp_path / "file", saying="file")
    assert (tmp_path / "file").read_text() == "text"


def test_the_default_library_is_made_on_first_use_with_the_starter_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, starter: dict[str, Skill]
) -> None:
    monkeypatch.setenv("BOTTEGA_LIBRARY", str(tmp_path / "mine"))
    monkeypatch.setattr("bottega.skills.shipped.shipped_files", list)  # whatever else this copy brings
    assert len(bottega("list", "--json").json) == len(starter)
    assert bottega("retire", NAME, "--reason", "old").code == 0
    assert len(bottega("list", "--json").json) == len(starter) - 1, "it is not filled again"
    monkeypatch.delenv("BOTTEGA_LIBRARY")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    bottega("stats")
    assert (tmp_path / "data" / "bottega" / "skills" / "library.db").is_file()


def test_verify_refuses_what_cannot_be_proved_before_it_starts_a_judge(place: tuple[str, Path]) -> None:
    one, two = (path.stem for path in builtin_files()[:2])
    task = ("--task", f"builtin:{one}", "--sibling", f"builtin:{two}")
    writer = ("--writer", "cat")
    fails("verify", "nobody", *task, *writer, *place, saying="no card is named")
    fails("verify", NAME, *task, *writer, *place, "beside=nobody", saying="no card is named")
    fails("verify", NAME, "--task", f"builtin:{one}", "--sibling", f"builtin:{one}", *writer, *place, saying="sibling")
    fails("verify", NAME, *task, *writer, *place, "threshold=0.5", saying="threshold")
    fails("verify", NAME, *task, *writer, *place, "rounds=0", saying="round")
    fails("verify", NAME, *task, *writer, *place, "workers=0", saying="workers = 0")


def test_json_is_printed_where_only_ascii_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    for encoding, written in (("ascii", b'["\\u00e9"]\n'), ("utf-8", '["é"]\n'.encode()), ("latin-1", b'["\\u00e9"]\n')):
        raw = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding))
        terminal.print_json(["é"])
        sys.stdout.flush()
        assert raw.getvalue() == written


@pytest.mark.rotates
def test_as_a_process_it_exits_with_its_code_and_bears_a_closed_pipe(place: tuple[str, Path], library: Library) -> None:
    library.add_many(starter_cards(), on_conflict="skip")
    command = [sys.executable, "-m", "bottega.app.cli", "skills"]
    gone = subprocess.run([*command, "show", "nobody", *map(str, place)], capture_output=True, check=False)
    assert gone.returncode == 2 and gone.stderr.startswith(b"bottega: ") and b"Traceback" not in gone.stderr
    with subprocess.Popen([*command, "export", *map(str, place)], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()


@pytest.mark.rotates
def test_a_narrow_terminal_folds_names_and_cuts_none(place: tuple[str, Path]) -> None:
    master, terminal = pty.openpty()
    command = [sys.executable, "-m", "bottega.app.cli", "skills", "list", *map(str, place)]
    around = {**os.environ, "COLUMNS": "50", "TERM": "xterm", "NO_COLOR": "1"}
    with subprocess.Popen(command, stdout=terminal, stderr=terminal, env=around) as process:
        os.close(terminal)
        shown = b""
        with contextlib.suppress(OSError):
            while part := os.read(master, 4096):
                shown += part
        assert process.wait(60) == 0
    os.close(master)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown.decode()).splitlines()
    assert all(len(line) <= 50 and "…" not in line for line in lines)
    column = "".join(line.split("│")[1].strip() for line in lines if line.count("│") > 3)
    assert NAME in column and "transpose_in_tiles" in column


WRITER = """
import json, os, sys
asked = json.load(sys.stdin)
assert set(asked) == {"task", "name", "skills", "seed", "language", "device"} and asked["language"] == "cpp"
with open(sys.argv[1], "a") as log:
    log.write(json.dumps([asked["name"], len(asked["skills"]), asked["seed"]]) + "\\n")
if sys.argv[2:] == ["fail"]:
    sys.exit("no idea")
if sys.argv[2:] == ["noise"]:
    os.write(1, b"\\xff\\xfe no python")
else:
    print(asked["task"].replace("class Model(", "class ModelNew("))
"""
TASK = module_task("torch.tanh(x) * 2", "torch.randn(64, 64)")


@pytest.mark.slow
def test_verify_tries_a_card_with_a_real_writer_and_a_real_judge(
    place: tuple[str, Path], library: Library, tmp_path: Path
) -> None:
    (tmp_path / "writer.py").write_text(WRITER)
    (tmp_path / "one.py").write_text(TASK)
    (tmp_path / "two.py").write_text(TASK.replace("tanh", "sigmoid"))
    log = tmp_path / "log"

    def verify(*more: str, how: str = "") -> list[str]:
        writer = f"{sys.executable} {tmp_path / 'writer.py'} {log} {how}".strip()
        tasks = ["--task", str(tmp_path / "one.py"), "--sibling", str(tmp_path / "two.py")]
        command = [sys.executable, "-m", "bottega.app.cli", "skills", "verify", "gelu_erf_simd", *tasks, "--writer", writer]
        return [*command, "rounds=5", *map(str, place), *more]

    with subprocess.Popen(verify(), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as stopped:
        deadline = time.monotonic() + 120
        while not (log.exists() and log.read_text().count("\n") >= 6) and time.monotonic() < deadline:
            time.sleep(0.05)
        stopped.kill()
    kept = library.store.rows("SELECT job FROM attempts")
    assert kept, "it was killed before its first attempt was judged"
    log.unlink()
    told = subprocess.run(verify(), capture_output=True, text=True, check=False)
    assert told.returncode == 1, told.stderr
    assert f"going on: {len(kept)} attempts" in told.stdout
    assert "gelu_erf_simd: refused" in told.stdout
    asked = [tuple(json.loads(line)) for line in log.read_text().splitlines()]
    assert len(set(asked)) == len(asked), "an attempt was made twice"
    trials = library.evidence.trials("gelu_erf_simd")
    assert [trial.decision for trial in trials] == ["refused", "refused"] and trials[0].device
    log.unlink()
    again = subprocess.run(verify("--json"), capture_output=True, text=True, check=False)
    assert again.returncode == 1 and json.loads(again.stdout)["concluded_before"] is True and not log.exists()
    failed = subprocess.run(verify("seed=50", how="fail"), capture_output=True, text=True, check=False)
    assert failed.returncode == 2 and "failed with exit code 1: no idea" in failed.stderr and "Traceback" not in failed.stderr
    noise = subprocess.run(verify("seed=90", how="noise"), capture_output=True, text=True, check=False)
    assert noise.returncode == 1 and "Traceback" not in noise.stderr
