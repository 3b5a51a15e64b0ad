"""Supervised fine-tuning from files to a model that the backbone opens, stopped, killed and resumed on the way."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tiny import one_thread, saved_tiny, weights  # noqa: E402, F401
from typer.testing import CliRunner  # noqa: E402

from bottega.backbone.chat import Message, Sampling, TokenRequest  # noqa: E402
from bottega.backbone.loading import load, noted_style  # noqa: E402
from bottega.backbone.local import LocalBackbone  # noqa: E402
from bottega.core.errors import UsageError  # noqa: E402
from bottega.core.event import Measured  # noqa: E402
from bottega.episodes.journal import read_events  # noqa: E402
from bottega.train.config import read_config  # noqa: E402
from bottega.train.conversations import read_samples  # noqa: E402
from bottega.train.metrics import TrainingStarted  # noqa: E402
from bottega.train.run_directory import data_of, resumed_config  # noqa: E402
from bottega.train.sft import sft  # noqa: E402

SMALL = ["data.longest=32", "data.pack_tokens=64", "data.batch_tokens=128", "data.epochs=4", "checkpoint.every=3", "log.eval_every=5",
         "optimiser.lr=3e-3", "optimiser.warmup=2", "model.device=cpu", "log.tensorboard=false"]  # fmt: skip


def rows(count: int = 60) -> list[dict[str, Any]]:
    """A question names a word; the answer says it twice."""
    return [
        {
            "messages": [
                {"role": "user", "content": f"w{number % 40} w41"},
                {"role": "assistant", "content": f"w{number % 40} w{number % 40}"},
            ],
            "role": ("writer", "select")[number % 2],
            "split": "test" if number % 10 == 0 else "train",
        }
        for number in range(count)
    ]


@pytest.fixture
def school(tmp_path: Path) -> tuple[Path, list[str]]:
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows()))
    model = saved_tiny(tmp_path / "tiny")
    return data, [*SMALL, f"model.name={model}"]


def figures(folder: Path) -> dict[str, dict[str, float]]:
    """What was measured, without what depends on the clock."""
    told = [event for event in read_events(folder) if isinstance(event, Measured)]
    assert len({event.key for event in told}) == len(told), "a step was told twice"
    clocked = ("tokens_per_second", "waited")
    return {event.key: {name: value for name, value in event.values.items() if name not in clocked} for event in told}


@pytest.mark.rotates
def test_a_model_learns_its_rows_and_the_backbone_opens_it(school: tuple[Path, list[str]], tmp_path: Path) -> None:
    data, settings = school
    heard: list[Any] = []
    finished = sft(
        read_config("sft", None, None, [*settings, "data.epochs=14", "optimiser.lr=1e-2", "checkpoint.every=50"]),
        data,
        tmp_path / "run",
        on_event=heard.append,
    )
    begun = next(event for event in heard if isinstance(event, TrainingStarted))
    assert "6 held out" in begun.what
    told = figures(tmp_path / "run")
    assert told["train/1"]["nll"] > 3
    assert told[f"train/{finished.steps}"]["nll"] < 0.2
    assert {"nll", "nll/write"} <= finished.held_out.keys()
    assert finished.model is not None
    backbone = LocalBackbone.open(str(finished.model), device="cpu")
    prompt = tuple(backbone.tokenizer.conversation([Message("user", "w7 w41")]))
    assert list(prompt) == load(str(tmp_path / "tiny"), device="cpu").tokenizer.conversation([Message("user", "w7 w41")])

    async def answer() -> str:
        (drawn,) = await backbone.complete([TokenRequest(prompt, Sampling(max_tokens=5, temperature=0.0))])
        await backbone.close()
        return backbone.tokenizer.decode(drawn.output_ids)

    assert asyncio.run(answer()).split()[:1] == ["w7"]


def test_what_is_frozen_stays_to_the_last_bit(school: tuple[Path, list[str]], tmp_path: Path) -> None:
    from safetensors.torch import load_file

    data, settings = school
    data.with_name("card.json").write_text('{"style": "terse"}')
    sft(read_config("sft", overrides=[*settings, "data.epochs=1", 'model.freeze=["embed_tokens"]']), data, tmp_path / "run")
    assert noted_style(f"local:{tmp_path / 'run' / 'model'}") == "terse", "the style of its rows' prompts stays with the model"
    before, after = (
        load_file(tmp_path / "tiny" / "model.safetensors"),
        load_file(tmp_path / "run" / "model" / "model.safetensors"),
    )
    same = {name for name, value in after.items() if torch.equal(value, before[name])}
    assert same == {"model.embed_tokens.weight"}


@pytest.mark.parametrize(
    ("pieces", "told"), [('["nose"]', "no parameter that is trained has 'nose'"), ('["model"]', "nothing to train")]
)
def test_freezing_nothing_or_everything_is_told(school: tuple[Path, list[str]], pieces: str, told: str, tmp_path: Path) -> None:
    data, settings = school
    with pytest.raises(UsageError, match=told):
        sft(read_config("sft", overrides=[*settings, f"model.freeze={pieces}"]), data, tmp_path / "run")
    assert not (tmp_path / "run").exists(), "what cannot be had leaves no run behind"


@pytest.mark.rotates
def test_a_stopped_run_goes_on_to_the_same_end(school: tuple[Path, list[str]], tmp_path: Path) -> None:
    data, settings = school
    config = read_config("sft", None, None, [*settings, "model.lora.rank=4", "model.lora.dropout=0.2"])
    whole = sft(config, data, tmp_path / "whole")
    asked = iter([False, False, False, True])
    part = sft(config, data, tmp_path / "part", stop=lambda: next(asked))
    assert part.stopped
    assert part.step == 4
    again, source = resumed_config("sft", tmp_path / "part", ["checkpoint.every=2"]), Path(data_of(tmp_path / "part"))
    rest = sft(again, source, tmp_path / "part", resume=True)
    assert rest.held_out == whole.held_out
    assert figures(tmp_path / "part") == figures(tmp_path / "whole")
    one, other = weights(tmp_path / "part"), weights(tmp_path / "whole")
    assert all(torch.equal(value, other[name]) for name, value in one.items()), "dropout was not resumed"
    assert (tmp_path / "whole" / "adapter" / "adapter_config.json").exists()
    adapted = load(str(tmp_path / "tiny"), device="cpu", adapter=tmp_path / "whole" / "adapter").model
    merged = load(str(tmp_path / "whole" / "model"), device="cpu").model
    ids = torch.arange(5, 12)[None]
    assert torch.allclose(adapted(ids).logits, merged(ids).logits, atol=1e-5)


@pytest.mark.slow
def test_a_killed_process_goes_on_to_the_same_end(school: tuple[Path, list[str]], tmp_path: Path) -> None:
    data, settings = school
    settings = [*settings, "data.epochs=12"]
    command = [sys.executable, "-m", "bottega.app.cli", "sft", "--quiet"]
    killed = tmp_path / "killed"
    process = subprocess.Popen(
        [*command, "--data", str(data), "--out", str(killed), *settings], env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    deadline = time.monotonic() + 120
    while not (killed / "events.jsonl").exists() or (killed / "events.jsonl").read_text().count('"train/') < 8:
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = (killed / "events.jsonl").read_text().count('"train/')
    config, source = resumed_config("sft", killed), Path(data_of(killed))
    finished = sft(config, source, killed, resume=True)
    assert done < finished.steps, "it was killed after its end"
    sft(config, data, tmp_path / "whole")
    assert figures(killed) == figures(tmp_path / "whole")
    one, other = weights(killed), weights(tmp_path / "whole")
    assert all(torch.equal(value, other[name]) for name, value in one.items())


def test_a_run_is_not_begun_over_another_nor_resumed_as_another(school: tuple[Path, list[str]], tmp_path: Path) -> None:
    data, settings = school
    config = read_config("sft", None, None, [*settings, "data.steps=1"])
    sft(config, data, tmp_path / "run")
    with pytest.raises(UsageError, match="holds a run already"):
        sft(config, data, tmp_path / "run")
    with pytest.raises(UsageError, match=r"optimiser\.lr cannot be changed"):
        resumed_config("sft", tmp_path / "run", ["optimiser.lr=1e-2"])
    with pytest.raises(UsageError, match="no run to resume"):
        resumed_config("sft", tmp_path / "nowhere")
    data.write_text(data.read_text().replace("w7", "w8"))
    from bottega.core.errors import TrainingError

    with pytest.raises(TrainingError, match="other rows"):
        sft(config, data, tmp_path / "run", resume=True)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", r"rows\.jsonl:1: is no JSON"),
        ('{"text": "x"}', r"rows\.jsonl:1: messages: Field required"),
        ('{"messages": [{"role": "user", "content": "w1"}, {"role": "user", "content": "w1"}]}', "by user"),
        ('{"messages": [{"role": "user", "content": "w1"}, {"role": "robot", "content": "w1"}]}', "role"),
        (
            '{"messages": [{"role": "user", "content": "w1"}, {"role": "assistant", "content": "w1"}], "role": "king"}',
            "unknown role 'king'",
        ),
        ('{"messages": [{"role": "user", "content": "w1"}, {"role": "assistant", "content": " "}]}', "1 without an answer"),
        ("", "no rows"),
    ],
)
def test_a_bad_row_is_told_with_its_place(school: tuple[Path, list[str]], line: str, told: str, tmp_path: Path) -> None:
    school[0].write_text(line + "\n")
    tokenizer = load(str(tmp_path / "tiny"), device="cpu").tokenizer
    with pytest.raises(UsageError, match=told):
        read_samples(school[0], tokenizer, 64, 0.0, 0)


def test_lessons_are_what_the_model_will_be_asked_to_draw(school: tuple[Path, list[str]], tmp_path: Path) -> None:
    tokenizer = load(str(tmp_path / "tiny"), device="cpu").tokenizer
    samples = read_samples(school[0], tokenizer, 64, 0.5, 0, roles=["select"])
    first = samples.train[0]
    assert first.ids[: first.begin].tolist() == tokenizer.conversation([Message("user", "w1 w41")])
    assert first.ids[first.begin :].tolist() == [*tokenizer.encode("w1 w1"), tokenizer.ends[0]]
    assert samples.other_roles == 30
    assert not samples.held_out, "rows that name their split keep it"
    with pytest.raises(UsageError, match="30 too long"):
        read_samples(school[0], tokenizer, len(first) - 1, 0.0, 0, roles=["select"])


def test_the_command_line_tells_and_exits(school: tuple[Path, list[str]], tmp_path: Path) -> None:
    from bottega.app.training_command import sft_app as app

    data, settings = school
    out = tmp_path / "run"
    done = CliRunner().invoke(app, ["--data", str(data), "--out", str(out), "data.steps=2", *settings])
    assert done.exit_code == 0, done.output
    assert "2 steps" in done.output
    assert (out / "model" / "config.json").exists()
    assert isinstance(CliRunner().invoke(app, ["--out", str(out)]).exception, UsageError)
    wrong = CliRunner().invoke(app, ["--data", str(data), "--out", str(tmp_path / "other"), "optimizer.lr=1"])
    assert "did you mean optimiser?" in str(wrong.exception)
    assert "cannot be changed" in str(CliRunner().invoke(app, ["--out", str(out), "--resume", "--preset", "davinci"]).exception)
