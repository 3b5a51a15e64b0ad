"""A whole model: its parts are searched once for each class and shape, and what does not help end to end is not handed over.

Verdicts and end-to-end times are made up, since a clock would decide otherwise; everything else is real.
"""

from __future__ import annotations

import copy
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from app.test_optimize_python import TrustingJudge, scripted, trusting  # noqa: F401 (a fixture)
from torch import nn

import bottega
from bottega.app.open_model import CLASSES, open_model
from bottega.app.optimize_capture import optimize_capture
from bottega.app.optimize_model import OptimizedModel, _until_interrupted, optimize_model
from bottega.app.optimize_parts import LATEST_S, SharedMinutes, search_costliest
from bottega.app.optimize_python import is_whole
from bottega.app.settings.optimize import OptimizeSettings
from bottega.core.arguments import Arguments
from bottega.core.errors import TaskError, UsageError
from bottega.core.verdict import Speedup
from bottega.episodes.delivery import answer_distance, end_to_end
from bottega.episodes.delivery.drop_in.attributes import standing_for
from bottega.episodes.delivery.whole_model import FormResult
from bottega.judge.loading import import_source
from bottega.tasks.capture import task_of_call
from bottega.tasks.capture_calls import CapturedCall
from bottega.tasks.module import Wanted

MODULE = "from torch import nn\n\nModel = nn.ReLU\n\ndef get_inputs(): return []\n\ndef get_init_inputs(): return []\n"


class Helps(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            x = torch.tanh(x * 1.1 + 0.1)
        return x * self.weight


class DoesNot(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            x = torch.sigmoid(x * 1.2 - 0.1)
        return x


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Sequential(nn.Linear(16, 16), Helps(16)) for _ in range(2)])
        self.last = DoesNot()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + layer(x)
        return self.last(x)


def made_up(
    models: Any, call: Any, times: dict[str, list[float]] | None = None, turn: Any = None
) -> dict[str, dict[str, Speedup]]:
    """A model is as fast as it has faster parts of the kind that helps; the other kind only adds to it."""
    speed = {}
    for name, model in models.items():
        answers = call(model)
        assert isinstance(answers, torch.Tensor)
        kinds = [type(part.original).__name__ for part in model.modules() if hasattr(part, "fallbacks")]
        speed[name] = 1 + kinds.count("Helps") - 0.5 * kinds.count("DoesNot")
        if times is not None:
            times[name] = [1 / speed[name]]
    ratios = {(a, b): speed[a] / speed[b] for a in models for b in models}
    return {a: {b: Speedup(ratios[a, b], ratios[a, b] * 0.99, ratios[a, b] * 1.01) for b in models if b != a} for a in models}


@pytest.mark.rotates
@torch.no_grad()
def test_parts_that_help_are_put_in_everywhere_and_the_others_are_not(
    trusting: None,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(end_to_end, "compared", made_up)
    monkeypatch.setattr("bottega.app.optimize_parts.LEAST_SHARE", 0.0)
    monkeypatch.setattr("bottega.app.optimize_parts.LARGEST_PARTS", 1)
    model, x = Net().eval(), torch.randn(4, 16)
    for number, layer in enumerate(model.layers):
        layer[1].layer_idx = number  # which nothing reads
    model.config = SimpleNamespace(use_cache=False)  # type: ignore[assignment]
    expected = model(x)
    options: dict[str, Any] = {"quiet": True, "backbone": scripted(tmp_path), "drafts": 1, "kernels": 1, "whole": True}
    fast = bottega.optimize(model, x, out=tmp_path / "run", **options)
    assert isinstance(fast, OptimizedModel) and fast.found
    assert {part.part.label: (part.kept, part.part.places) for part in fast.whole.forms[0].parts} == {
        "Helps": (True, ("layers.0.1", "layers.1.1")),
        "DoesNot": (False, ("last",)),
    }
    torch.testing.assert_close(fast(x), expected)
    assert fast.module.layers[0][1].calls >= 1 and type(fast.module.last) is DoesNot and type(model.layers[0][1]) is Helps
    assert fast.module.layers[0][1].weight is model.layers[0][1].weight
    assert "| as it is | 3.000× (2.970 to 3.030) |" in fast.report and "does not help end to end" in fast.report
    assert "Called with `float32[4, 16]`. It was called without a cache: call it with `use_cache=False`" in fast.report
    assert "`use_cache=False`" in (fast.folder / "optimized_model.py").read_text()
    assert fast.whole.forms[0].own_error is not None and fast.whole.forms[0].error < 1e-5
    assert [
        part["kept"] for part in json.loads((tmp_path / "run" / "whole_model.json").read_text())["forms"][0]["parts"]
    ].count(True) == 1

    def again(*_: Any, **__: Any) -> Any:
        raise AssertionError("it is known already")

    with monkeypatch.context() as patched:
        patched.setattr("bottega.app.optimize_parts.search", again)
        patched.setattr(end_to_end, "compared", again)
        resumed = bottega.optimize(model, x, out=tmp_path / "run", resume=True, **options)
    assert isinstance(resumed, OptimizedModel) and resumed.whole == fast.whole
    delivered = loaded_from(fast.save(tmp_path / "kept") / "optimized_model.py")
    torch.testing.assert_close(delivered.load(model)(x), expected)
    assert model.layers[1][1].calls == 1


@pytest.mark.rotates
@torch.no_grad()
def test_a_capture_is_worked_on_from_the_costliest_on(trusting: None, tmp_path: Path) -> None:  # noqa: F811
    model = nn.Sequential(Helps(512), nn.Linear(512, 8)).eval()
    with bottega.capture(tmp_path / "capture"):
        model(torch.randn(64, 512))
    settings = OptimizeSettings(quiet=True, backbone=scripted(tmp_path), drafts=1, kernels=1, modules=1, skills=False)
    folder, searched = optimize_capture(tmp_path / "capture", settings)
    (found,) = searched
    assert found.call.name == "Sequential" and found.result is not None and found.result.outcome == "faster"
    assert folder == tmp_path / "capture" and (found.folder / "optimized.py").is_file()
    loader = loaded_from(folder / "optimized_modules.py")
    whole, x = nn.Sequential(model, nn.Tanh()), torch.randn(64, 512)
    expected = whole(x)
    torch.testing.assert_close(loader.load(whole)(x), expected)
    assert whole[0].calls == 1 and whole[0].original is model
    with pytest.raises(ValueError, match=r"no module of this model is one that a kernel was made for; 0: .*was a Linear"):
        loader.load(nn.Sequential(nn.Sequential(Helps(512), nn.Tanh())))


@pytest.mark.rotates
@torch.no_grad()
def test_a_model_that_generates_text_has_kernels_for_the_prompt_and_for_each_new_token(
    trusting: None,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In fp32 its tokens are the original's, whatever cache it has: layers are not replaced as they are given one, their norms are."""
    from transformers import LlamaConfig, LlamaForCausalLM

    def all_help(models: Any, call: Any, times: Any = None, turn: Any = None) -> Any:
        speed = {name: 1 + sum(len(standing_for(part)) - 1 for part in model.modules()) for name, model in models.items()}
        if times is not None:
            times.update({name: [1 / value] for name, value in speed.items()})
        return {a: {b: Speedup(speed[a] / speed[b], speed[a] / speed[b] - 0.01, 99) for b in models} for a in models}

    monkeypatch.setattr(end_to_end, "compared", all_help)
    monkeypatch.setattr("bottega.app.optimize_parts.LEAST_SHARE", 0.0)
    searched = search_costliest.__globals__["search"]
    monkeypatch.setattr("bottega.app.optimize_parts.search", lambda subject, *rest: only_norms(searched, subject, *rest))
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2, "num_hidden_layers": 2, "vocab_size": 99}
    torch.manual_seed(0)
    model: Any = LlamaForCausalLM(LlamaConfig(**sizes, eos_token_id=None, pad_token_id=0)).eval()
    for weight in model.parameters():
        weight.mul_(3.0 if weight.dim() > 1 else 1.0)  # or it would say one word again and again
    call = {"input_ids": torch.randint(1, 99, (1, 7)), "max_new_tokens": 30, "do_sample": False}
    expected = model.generate(**call)
    options: dict[str, Any] = {"quiet": True, "drafts": 1, "kernels": 1, "modules": 2, "minutes": None}
    fast: Any = bottega.optimize(model, call, method="generate", out=tmp_path / "run", **options)
    assert fast.found and {part.shapes for part in fast.whole.best.kept} == {"float32[1, 1, 32]", "float32[1, 7, 32]"}
    assert torch.equal(fast.module.generate(**call), expected) and len(expected[0, 7:].unique()) > 9
    norm = fast.module.model.layers[0].input_layernorm
    assert norm.calls >= 29 and norm.original.calls >= 1 and not norm.original.fallbacks, "the new tokens' kernel looks first"
    answered = {(row.label, row.shapes): (row.calls, row.answered) for row in fast.whole.shares}
    assert answered["LlamaRMSNorm", "float32[1, 1, 32]"] == (29 * 5, "a kernel")
    assert answered["LlamaRMSNorm", "float32[1, 7, 32]"] == (5, "a kernel")
    layer = next(row for row in fast.whole.shares if row.label == "LlamaDecoderLayer")
    assert (layer.calls, layer.other_shapes) == (30 * 2, 1)
    assert "argument of type DynamicCache; 1 kind of calls inside of it by kernels" in layer.answered
    assert layer.answered in fast.report and "Its method `generate` was called with" in fast.report
    static = {**call, "cache_implementation": "static"}
    again = loaded_from(fast.folder / "optimized_model.py").load(copy.deepcopy(model))
    assert torch.equal(again.generate(**static), model.generate(**static))


def only_norms(searched: Any, subject: Any, *rest: Any) -> Any:
    if subject.title != "LlamaRMSNorm":
        raise TaskError("left out, to be quick")
    return searched(subject, *rest)


def loaded_from(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def test_minutes_are_spent_on_as_many_parts_as_they_are_enough_for() -> None:
    now = [0.0]
    few = SharedMinutes(1.6, lambda: now[0])
    assert few.share(5, first=True) == 96  # all five would get too little
    now[0] += 30
    few.spent(30, 96)
    assert few.share(4, first=False) == 33  # two of them, by what one needed
    now[0] += 33
    few.spent(33, 33)
    assert few.share(3, first=False) == 33 and few.wanted(3) == 3
    now[0] += 33
    assert few.share(2, first=False) is None and SharedMinutes(None).share(3, first=False) == float("inf")
    assert SharedMinutes(30).share(5, first=True) == pytest.approx(360, abs=1)
    four = SharedMinutes(4, lambda: now[0])
    assert four.share(5, first=True) == 120
    now[0] += 125
    four.spent(125, 120)
    assert four.share(4, first=False) == 115  # a smaller one may need less


def test_what_there_was_no_time_for_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*_: Any) -> Any:
        time.sleep(0.1)
        raise TaskError("too slow")

    monkeypatch.setattr("bottega.app.optimize_parts.search", slow)
    calls = [CapturedCall(f"k{n}", f"Part{n}", "", 1, task="k.py", count=1, seconds=0.5) for n in range(4)]
    (tmp_path / "k.py").write_text(MODULE)
    settings = OptimizeSettings(minutes=0.001, modules=2)
    found = list(search_costliest(calls, tmp_path, settings, lambda text: None))
    assert [each.error.partition(" (")[0] for each in found] == ["too slow", "not searched", "not searched", "not searched"]
    assert "minutes=4 would take it in" in found[1].text and "modules=5 would" in found[3].text

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("bottega.app.optimize_parts.search", interrupted)
    found = list(search_costliest(calls, tmp_path, OptimizeSettings(), lambda text: None))
    assert "interrupted" in found[0].text and all("not searched" in each.text for each in found[1:])
    assert all("--resume goes on with it" in each.text and "minutes=" not in each.text for each in found[1:])


def test_a_part_that_cannot_be_judged_or_has_no_draft_is_not_one_of_those_to_work_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[tuple[str, float, Any]] = []

    def no_draft(subject: Any, folder: Path, settings: OptimizeSettings, final_seconds: float | None = None) -> Any:
        searched.append((subject.title, settings.minutes or 0.0, final_seconds))
        if subject.title == "Part0":
            raise TaskError("returns what cannot be compared")
        attempts = 0 if subject.title == "Part2" else 3
        return SimpleNamespace(
            result=SimpleNamespace(attempts=attempts, claim={}, outcome="none", missed="", ended="refused"), interrupted=False
        )

    monkeypatch.setattr("bottega.app.optimize_parts.search", no_draft)
    calls = [CapturedCall(f"k{n}", f"Part{n}", "", 1, task="k.py", count=1, seconds=0.5) for n in range(5)]
    (tmp_path / "k.py").write_text(MODULE)
    found = list(search_costliest(calls, tmp_path, OptimizeSettings(minutes=6, modules=2), lambda text: None))
    assert [title for title, *_ in searched] == ["Part0", "Part1", "Part2", "Part3"]
    assert "not searched" in found[-1].text and len(found) == 5
    minutes, final = searched[0][1:]
    assert minutes * 60 + final - LATEST_S == pytest.approx(180, abs=1), "what a search may take has its last verdicts in it"


def test_of_layers_one_is_searched_and_not_what_holds_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*_: Any) -> Any:
        raise TaskError("too slow")

    monkeypatch.setattr("bottega.app.optimize_parts.search", slow)
    (tmp_path / "k.py").write_text(MODULE)
    shown: dict[str, Any] = {"shapes": "", "task": "k.py"}
    calls = [
        CapturedCall("stack", "Stack", parts=9, count=1, seconds=1.0, **shown),
        CapturedCall("layer", "Layer", parts=4, count=2, seconds=0.9, inside=["stack"], **shown),
        CapturedCall("norm", "Norm", parts=1, count=4, seconds=0.8, inside=["layer"], **shown),
    ]
    found = list(search_costliest(calls, tmp_path, OptimizeSettings(), lambda text: None))
    assert [each.call.name for each in found] == ["Layer", "Norm"]
    three = nn.Sequential(*[Layer() for _ in range(3)])
    assert is_whole(three) and not is_whole(three[:2]) and not is_whole(nn.Sequential(*[nn.Tanh()] * 9))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.act = nn.Tanh()


def test_ctrl_c_keeps_the_forms_that_were_measured() -> None:
    def results() -> Any:
        yield FormResult("eager")
        yield FormResult("compile")
        raise KeyboardInterrupt

    found = list(_until_interrupted(results(), ["compile", "autotune"]))
    assert [(each.form, each.missing) for each in found] == [
        ("eager", ""), ("compile", ""), ("autotune", "not measured: interrupted")
    ]  # fmt: skip


@torch.no_grad()
def test_a_whole_model_is_resumed_with_the_tasks_that_it_began_with(tmp_path: Path) -> None:
    options: dict[str, Any] = {"quiet": True, "whole": True, "modules": 1, "minutes": 0, "out": tmp_path / "run"}
    with pytest.raises(UsageError, match="no run to resume"):
        bottega.optimize(Net(), torch.randn(4, 16), resume=True, **options)
    bottega.optimize(Net(), torch.randn(4, 16), **options)
    before = {path.name: path.read_text() for path in (tmp_path / "run" / "tasks").iterdir()}
    with pytest.raises(UsageError, match="holds a run already"):
        bottega.optimize(Net(), torch.randn(4, 16), **options)
    resumed = bottega.optimize(
        Net(), torch.randn(4, 16), resume=True, baseline="compile", **options
    )  # with other random weights
    assert {path.name: path.read_text() for path in (tmp_path / "run" / "tasks").iterdir()} == before
    assert not resumed.found and "mode default: not measured: there is no faster part to put in" in resumed.report


def test_times_are_taken_turn_about_and_give_an_interval() -> None:
    one, two = nn.Identity(), nn.Identity()
    times: dict[str, list[float]] = {}
    found = end_to_end.compared({"one": one, "two": two}, lambda model: model(torch.ones(1)), times)
    assert len(times["one"]) == len(times["two"]) >= end_to_end.ROUNDS
    assert found["one"]["two"].low <= found["one"]["two"].point <= found["one"]["two"].high


def test_a_result_that_holds_more_than_tensors_is_compared_by_its_floats() -> None:
    class Cache:
        keys = torch.ones(2)

    held = {"logits": torch.ones(2), "cache": Cache(), "more": [(torch.zeros(1), 3), torch.arange(2)]}
    assert [tensor.numel() for tensor in answer_distance.tensors_of(held)] == [2, 1]


def test_a_model_of_a_folder_is_built_with_random_weights(tmp_path: Path) -> None:
    from transformers import LlamaConfig

    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2, "num_hidden_layers": 1, "vocab_size": 50}
    LlamaConfig(**sizes, architectures=["LlamaForCausalLM"]).save_pretrained(tmp_path)
    model, inputs = open_model(f"hf:{tmp_path}", Wanted(), "cpu")
    assert type(model).__name__ == "LlamaForCausalLM" and not model.training
    assert inputs.keywords["input_ids"].shape == (1, 128)
    named = "{'input_ids': torch.zeros(2, 3, dtype=torch.long)}"
    assert open_model(f"hf:{tmp_path}", Wanted(inputs=named), "cpu")[1].positional[0].shape == (2, 3)
    model, inputs = open_model(f"hf:{tmp_path}", Wanted(inputs="input_ids=torch.zeros(2, 3, dtype=torch.long)"), "cpu")
    answer = model(*inputs.positional, **inputs.keywords)
    assert answer.logits.shape == (2, 3, 50) and answer.past_key_values is None
    model, inputs = open_model(f"hf:{tmp_path}", Wanted(), "cpu", "generate")
    assert model.generate(**inputs.keywords, use_cache=True).shape == (1, 128 + 32) and model.config.use_cache
    with pytest.raises(UsageError, match="method=write: LlamaForCausalLM has none of that name"):
        open_model(f"hf:{tmp_path}", Wanted(inputs=named), "cpu", "write")
    embedded = "inputs_embeds=torch.randn(1, 3, 16)"
    model, inputs = open_model(f"hf:{tmp_path}", Wanted(inputs=embedded, dtype="bfloat16"), "cpu")
    assert inputs.keywords["inputs_embeds"].dtype == next(model.parameters()).dtype == torch.bfloat16
    with pytest.raises(UsageError, match=r"no such folder; name one with a config\.json"):
        open_model(f"hf:{tmp_path / 'missing'}", Wanted(), "cpu")
    model.save_pretrained(tmp_path / "narrow")
    model, _ = open_model(f"hf:{tmp_path / 'narrow'}", Wanted(), "cpu")
    assert next(model.parameters()).dtype == torch.bfloat16  # as transformers itself loads them
    model, _ = open_model(f"hf:{tmp_path / 'narrow'}", Wanted(dtype="float32"), "cpu")
    assert next(model.parameters()).dtype == torch.float32


def test_a_model_of_a_folder_is_called_with_what_it_has_places_for(tmp_path: Path) -> None:
    from transformers import BertConfig, T5Config, ViTConfig, WhisperConfig

    short = {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2, "num_hidden_layers": 1, "vocab_size": 50}
    small = {key: value for key, value in short.items() if key != "vocab_size"}
    both = {"d_model": 16, "d_ff": 32, "num_heads": 2, "num_layers": 1, "d_kv": 8, "vocab_size": 50}
    BertConfig(**short, max_position_embeddings=40, architectures=["BertModel"]).save_pretrained(tmp_path / "bert")
    T5Config(**both, architectures=["T5ForConditionalGeneration"]).save_pretrained(tmp_path / "t5")
    ViTConfig(**small, image_size=[32, 48], architectures=["ViTModel"]).save_pretrained(tmp_path / "vit")
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16}
    places = {"num_mel_bins": 8, "max_source_positions": 20, "max_target_positions": 16, "vocab_size": 60, "pad_token_id": 0}
    layers = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1}
    WhisperConfig(**heads, **places, **layers, architectures=["WhisperForConditionalGeneration"]).save_pretrained(
        tmp_path / "whisper"
    )
    for name, first in {"bert": (1, 40), "t5": (1, 128), "vit": (1, 3, 32, 48), "whisper": (1, 8, 40)}.items():
        model, inputs = open_model(f"hf:{tmp_path / name}", Wanted(), "cpu")
        assert next(iter(inputs.keywords.values())).shape == first
        answer = model(**inputs.keywords)
        assert answer[0].isfinite().all() and getattr(answer, "past_key_values", None) is None


def test_parts_of_a_files_model_are_tasks_of_their_own(tmp_path: Path) -> None:
    lines = ["import torch", "from torch import nn", "class Part(nn.Module):", "    def forward(self, x): return x + 1", "class Net(nn.Module):",
             "    def __init__(self): super().__init__(); self.part = Part()", "    def forward(self, x): return self.part(x)"]  # fmt: skip
    (tmp_path / "net.py").write_text("\n".join(lines))
    model, inputs = open_model(str(tmp_path / "net.py"), Wanted("Net", "torch.zeros(3)"), "cpu")
    task = import_source(task_of_call(model.part, inputs.positional, {}).task.source, "task", str(tmp_path))
    assert torch.equal(task.Model()(torch.zeros(3)), torch.ones(3)) and model(*inputs.positional).sum() == 3


KILLED = """
import os, signal, sys
from bottega.app import open_model
from bottega.tasks.module import Wanted

open_model.HeldFolder.__init__.__globals__["_YOUNG_S"] = -1.0
model, _ = open_model.open_model(sys.argv[1], Wanted("Net", "torch.zeros(3)"), "cpu")
print(*sorted(os.listdir(os.environ["TMPDIR"])), flush=True)
if sys.argv[2] == "dies":
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_program_left_is_removed_by_the_next_and_no_runs_folder_is(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("from torch import nn\n\n\nclass Net(nn.Tanh): ...\n")
    folder = tmp_path / "tmp"
    (folder / "bottega-model-1").mkdir(parents=True)

    def left(how: str) -> set[str]:
        command = [sys.executable, "-c", KILLED, str(tmp_path / "net.py"), how]
        ended = subprocess.run(command, env={**os.environ, "TMPDIR": str(folder)}, capture_output=True, text=True, check=False)
        assert ended.returncode == (-signal.SIGKILL if how == "dies" else 0), ended.stderr
        return {name for name in ended.stdout.split() if name.startswith(CLASSES)}

    (killed,) = left("dies")
    assert (folder / killed).is_dir()
    (other,) = left("ends")
    assert other != killed and not list(folder.glob(f"{CLASSES}*")) and (folder / "bottega-model-1").is_dir()


def test_a_call_that_fails_is_told_in_words(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"Linear cannot be called with float32\[2, 5\]: RuntimeError: .*--inputs"):
        optimize_model(nn.Linear(4, 4), Arguments((torch.randn(2, 5),), {}), tmp_path / "out", OptimizeSettings(quiet=True))
