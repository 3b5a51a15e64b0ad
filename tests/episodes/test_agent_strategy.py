"""An agent with tools, over HTTP and by a script, in real sandboxes. Without its tools, its protected files or its log a test here fails.

The judge is a fake that reads speeds off the text (see `agent_search.py`): only what the agent does is tested.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from episodes.agent_search import TASK, kernel, own_lease, searched
from episodes.tool_server import serving
from waiting import until

from bottega.agents.agent import LEFT_OUT
from bottega.backbone.chat import ChatCompletion, Message, Sampling
from bottega.backbone.choose import open_backbone
from bottega.backbone.client import ChatClient
from bottega.backbone.reply import ContextError
from bottega.backbone.scripted import ScriptedChat
from bottega.backbone.tool_calls import ToolCall, ToolSpec
from bottega.bench.kernel_sources import sample_of
from bottega.core.draft import Draft, Drafts
from bottega.core.errors import LibraryError
from bottega.core.event import AgentStepped, Judged, ToolRan, Wrote
from bottega.core.skill import Skill
from bottega.episodes.attempts import attempts_of, totals_of
from bottega.episodes.budget import BudgetCaps
from bottega.episodes.delivery.page import ReportTable
from bottega.episodes.delivery.search_report import search_blocks
from bottega.episodes.journal import EpisodeJournal, read_events
from bottega.episodes.settings import EpisodeSettings
from bottega.episodes.strategies import STRATEGIES
from bottega.episodes.strategies.agent import MOST_CALLS, TOO_MANY
from bottega.episodes.writing import EpisodeSearch, write_drafts
from bottega.skills.agent_skills import folder_name, skill_markdown
from bottega.skills.library import Library
from bottega.skills.starter import starter_cards

pytestmark = pytest.mark.usefixtures("own_lease")
__all__ = ["own_lease"]
TAMPER = "open('task.py', 'w').write('class Model: ...')\nopen('check.py', 'w').write('')\nprint('tampered')\n"


def plain(tool: str, text: str = "", **given: str) -> str:
    call = f"```json\n{json.dumps({'tool': tool, **given})}\n```"
    return f"{call}\n```python\n{text}```" if text else call


def scripted(folder: Path, answers: list[str], **settings: object) -> EpisodeSearch:
    return searched(folder, ChatClient(ScriptedChat(answers)), **settings)  # type: ignore[arg-type]


@pytest.mark.rotates
def test_an_agent_works_with_tools_over_http(tmp_path: Path) -> None:
    work = [
        ("read", {"path": "."}),
        ("write", {"path": "kernel.py", "text": kernel(1.2, added=2)}),
        ("build", {}),
        ("run", {"path": "check.py"}),
        ("write", {"path": "tamper.py", "text": TAMPER}),
        ("run", {"path": "tamper.py"}),
        ("write", {"path": "task.py", "text": "class Model: ..."}),
        ("run", {"path": "check.py"}),
        ("edit", {"path": "kernel.py", "old": "+ 2", "new": "+ 1"}),
        ("run", {"path": "check.py"}),
        ("judge", {}),
        ("profile", {}),
        ("finish", {}),
    ]
    with serving(work) as server:
        place = searched(tmp_path, open_backbone(f"server:tiny@{server.url}"))
        told = server.told
    assert "task.py (protected)" in told[0] and "kernel.py" not in told[0]
    assert "built and called" in told[2]
    assert "not close" in told[3]
    assert "tampered" in told[5] and "task.py: is protected and cannot be changed" in told[5]
    assert "error: task.py: is protected" in told[6]
    assert "not close" in told[7], "the test that was given and the task are what they were"
    assert "close to the task's own result" in told[9]
    assert told[10].startswith("faster 1.20x")
    assert "It waits for memory." in told[11] and "threads: 1" in told[11]
    (node,) = place.nodes
    assert node.id == "s0r0t0" and "+ 1" in node.turn.source
    (trace,) = place.traces
    assert [turn.tools for turn in trace.turns] == [(name,) for name, _ in work]
    assert [number for number, turn in enumerate(trace.turns) if turn.verdict is not None] == [10]


def test_only_the_judge_costs_a_kernel_and_every_answer_its_tokens(tmp_path: Path) -> None:
    answers = [plain("write", kernel(2.0), path="kernel.py"), plain("judge"), plain("judge"), plain("profile"), plain("finish")]
    place = scripted(tmp_path, answers)
    asked = place.context.client.backbone.asked  # type: ignore[attr-defined]
    assert "The same text was judged before: faster 2.00x" in asked[3].messages[-1].content
    events = list(read_events(tmp_path))
    assert [event.node for event in events if isinstance(event, Judged)] == ["s0r0t0"]
    assert place.context.budget.kernels == 1
    totals = totals_of(events)
    assert totals.calls == len(answers) and totals.tokens == place.context.budget.tokens > 0
    (attempt,) = attempts_of(events, TASK.id)
    assert sum(turn.prompt_tokens + turn.output_tokens for turn in attempt.turns) == totals.tokens, (
        "the kernel's own cost is all of it"
    )
    ((kept, _),) = sample_of(events, TASK.id, TASK.id, 0, "cpp")
    assert kept.prompt_tokens + kept.output_tokens == totals.tokens and kept.seconds >= attempt.beside_s
    (table,) = search_blocks(events, TASK.id, place.settings)
    assert isinstance(table, ReportTable) and ("judge", "2") in table.rows and "5 answers, 1 line" in table.caption


def test_budgets_and_turns_end_it(tmp_path: Path) -> None:
    answers = [
        text for number in range(5) for text in (plain("write", kernel(1 + number / 10), path="kernel.py"), plain("judge"))
    ]
    assert len(scripted(tmp_path / "turns", answers, turns=2).nodes) == 2
    capped = scripted(tmp_path / "kernels", answers, caps=BudgetCaps(kernels=3))
    assert len(capped.nodes) == 3 and "3 kernels" in (capped.ended or "")
    few = scripted(tmp_path / "steps", answers, steps=3)
    assert len(few.traces[0].turns) == 3
    spent = scripted(tmp_path / "tokens", answers, caps=BudgetCaps(tokens=2000))
    assert "2000 tokens" in (spent.ended or "") and len(spent.traces[0].turns) < len(answers)


class Calling(ScriptedChat):
    """Makes all of its calls in its first answer, and none after it."""

    calls_tools = True

    def __init__(self, calls: Sequence[tuple[str, dict[str, str]]]) -> None:
        super().__init__(["", "Good.", "Done.", "Yes."])
        self.calls = [ToolCall(f"call_{place}", name, json.dumps(given)) for place, (name, given) in enumerate(calls)]

    async def chat(self, messages: Sequence[Message], sampling: Sampling, tools: Sequence[ToolSpec] = ()) -> ChatCompletion:
        said = await super().chat(messages, sampling, tools)
        return replace(said, calls=tuple(self.calls) if len(self.asked) == 1 else ())


def test_no_answer_has_more_kernels_judged_than_turns_allow(tmp_path: Path) -> None:
    calls = [
        one
        for number in range(5)
        for one in (("write", {"path": "kernel.py", "text": kernel(1 + number / 10)}), ("judge", dict[str, str]()))
    ]
    assert len(searched(tmp_path / "turns", ChatClient(Calling(calls)), turns=2).nodes) == 2
    assert len(searched(tmp_path / "budget", ChatClient(Calling(calls)), caps=BudgetCaps(kernels=1)).nodes) == 1
    finished = [("finish", {}), *calls]
    assert not searched(tmp_path / "finished", ChatClient(Calling(finished))).nodes


def test_an_answer_has_so_many_calls_and_no_more(tmp_path: Path) -> None:
    chat = Calling([("write", {"path": f"{number}.txt", "text": "x"}) for number in range(MOST_CALLS + 3)])
    searched(tmp_path, ChatClient(chat))
    told = [message.content for message in chat.asked[1].messages if message.role == "tool"]
    assert len(told) == MOST_CALLS + 3
    assert [text == TOO_MANY for text in told] == [False] * MOST_CALLS + [True] * 3


def test_a_kernel_without_a_call_is_judged_and_silence_ends_the_line(tmp_path: Path) -> None:
    place = scripted(tmp_path, [f"```python\n{kernel(1.5)}```", "Good.", "Done.", "Yes.", "never asked"])
    assert [node.turn.source.split("\n")[0] for node in place.nodes] == ["# speed 1.5"]
    assert [bool(turn.fault) for turn in place.traces[0].turns] == [False, True, True, True]


def test_a_conversation_without_room_ends_and_keeps_what_was_judged(tmp_path: Path) -> None:
    place = scripted(tmp_path, [f"```python\n{kernel(1.3)}```", ContextError("no room")])  # type: ignore[list-item]
    assert [node.id for node in place.nodes] == ["s0r0t0"] and len(place.traces[0].turns) == 1
    with pytest.raises(ContextError):
        scripted(tmp_path / "first", [ContextError("no room")])  # type: ignore[list-item]


def test_a_conversation_that_outgrows_its_room_loses_its_oldest_results(tmp_path: Path) -> None:
    long = "x" * 3000
    steps = [plain("write", path=f"note{number}.py", text=f"# {number} {long}") for number in range(4)]
    reads = [plain("read", path=f"note{number}.py") for number in range(4)]
    chat = ScriptedChat([*steps, *reads, plain("finish")], context=4096)
    place = searched(tmp_path, ChatClient(chat), max_tokens=256)
    last = [message.content for message in chat.asked[-1].messages]
    assert LEFT_OUT in last and last[-1].startswith("Result of read:\n# 3 xxx"), "the newest result stays"
    assert len(place.traces[0].turns) == 9


def test_the_draft_is_where_an_agent_begins(tmp_path: Path) -> None:
    class Compiler:
        async def drafts(self, task: object, language: str, count: int) -> Drafts:
            return Drafts("rules", (Draft(kernel(1.1), "first"),))

    chat = ScriptedChat([plain("read", path="kernel.py"), plain("finish")])
    place = searched(tmp_path / "none", ChatClient(ScriptedChat([plain("finish")])))
    with EpisodeJournal(tmp_path / "drafted") as journal:
        place.context.journal, place.context.client = journal, ChatClient(chat)
        place.context.draft_source, place.nodes, place.ended = Compiler(), [], None  # type: ignore[assignment]
        place.settings = EpisodeSettings(strategy="agent", samples=1, drafts=1)

        async def run() -> None:
            await write_drafts(place)
            await STRATEGIES.load("agent")(place)

        asyncio.run(run())
    assert "# speed 1.1" in chat.asked[-1].messages[-1].content


@pytest.fixture
def library(tmp_path: Path) -> Library:
    found = Library(tmp_path / "library")
    found.add_many(starter_cards(), on_conflict="skip", note="starter set")
    return found


def test_skills_are_files_as_they_are(tmp_path: Path, library: Library) -> None:
    card: Skill = next(card for card in library.cards() if "cpp" in card.languages)
    page = f"skills/{folder_name(card)}/SKILL.md"
    answers = [
        plain("read", path=page),
        plain("search_skills", query="sum over rows"),
        plain("read", path="skills"),
        plain("finish"),
    ]
    chat = ScriptedChat(answers)
    with library:
        searched(tmp_path / "run", ChatClient(chat), library=library, skills=(card,), unproved=True)
        assert page in chat.asked[0].messages[1].content
        assert skill_markdown(card).splitlines()[0] == "---"
        assert skill_markdown(card) in chat.asked[1].messages[-1].content
    found = chat.asked[3].messages[-1].content
    assert found.count("SKILL.md (protected)") > 1


def test_skill_files_of_others_are_given_as_they_are(tmp_path: Path) -> None:
    page = '---\nname: tiling\ndescription: "Tile the loops."\n---\n\n# Tiling\nIn any form.\n'
    (tmp_path / "theirs/tiling").mkdir(parents=True)
    (tmp_path / "theirs/tiling/SKILL.md").write_text(page)
    chat = ScriptedChat([plain("read", path="skills/tiling/SKILL.md"), plain("finish")])
    searched(tmp_path / "run", ChatClient(chat), skill_files=str(tmp_path / "theirs"))
    assert "skills/tiling/SKILL.md: Tile the loops." in chat.asked[0].messages[1].content
    assert page in chat.asked[1].messages[-1].content
    (tmp_path / "secret").write_text("a key")
    (tmp_path / "theirs/leading-out").mkdir()
    (tmp_path / "theirs/leading-out/SKILL.md").symlink_to(tmp_path / "secret")
    with pytest.raises(LibraryError, match="no file within"):
        searched(tmp_path / "leads", ChatClient(ScriptedChat([])), skill_files=str(tmp_path / "theirs"))
    with pytest.raises(LibraryError, match=r"no SKILL\.md"):
        searched(tmp_path / "none", ChatClient(ScriptedChat([])), skill_files=str(tmp_path / "run"))


@pytest.mark.slow
def test_a_killed_agent_goes_on_and_repeats_nothing(tmp_path: Path) -> None:
    work = [
        ("write", {"path": "kernel.py", "text": kernel(1.1)}),
        ("judge", {}),
        ("write", {"path": "note.py", "text": "open('left.txt', 'w').write('what was left')\nprint('ran')"}),
        ("run", {"path": "note.py"}),
        ("read", {"path": "left.txt"}),
        ("write", {"path": "kernel.py", "text": kernel(1.4)}),
        ("judge", {}),
        ("finish", {}),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)}
    with serving(work, stop_at=4) as server:
        backbone = f"server:tiny@{server.url}"
        process = subprocess.Popen(
            [sys.executable, "-m", "episodes.agent_search", str(tmp_path / "run"), backbone],
            env=environment,
            start_new_session=True,
        )
        try:
            until(lambda: len(server.requests) == 5, seconds=120)
        finally:
            process.kill()
            process.wait()
        server.stop_at = None
        server.over.set()
        place = searched(tmp_path / "run", open_backbone(backbone))
        assert len(server.requests) == 5 + 4, "an answer that is in the log was asked for again"
        assert server.told[4] == "what was left", "a file that a program left before the kill is gone"
    events = list(read_events(tmp_path / "run"))
    assert [event.turn.tools for event in events if isinstance(event, AgentStepped)] == [(name,) for name, _ in work]
    assert [event.tool for event in events if isinstance(event, ToolRan)] == ["run"]
    assert [event.node for event in events if isinstance(event, Wrote)] == ["s0r0t0", "s0r0t1"]
    assert [event.node for event in events if isinstance(event, Judged)] == ["s0r0t0", "s0r0t1"]
    assert [node.id for node in place.nodes] == ["s0r0t0", "s0r0t1"]
    assert place.context.budget.tokens == totals_of(events).tokens == 8 * 110
    assert len(place.traces[0].turns) == 8
    assert TASK.id == place.task.id
