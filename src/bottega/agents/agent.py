"""The agent (CUDA Agent): a writer that works in a directory with tools. The writer's prompt with the tools behind it in, calls of tools out.

A model that is asked in the terse style was trained on the writer's prompt and nothing else, so it gets that prompt as it is: it is told of no
tools, and its kernels are judged as answers. Whoever trains one with tools asks it in another style.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from bottega.agents import writer
from bottega.agents.answers.answer import AnswerError, answer_text, without_thoughts
from bottega.agents.answers.fences import CodeBlock, blocks
from bottega.agents.prompt_budget import PromptBudget, cut_to_length
from bottega.agents.prompts import Prompts
from bottega.backbone.chat import Message
from bottega.backbone.tool_calls import TOOL_KEY, ToolCall, ToolSpec, plain_result

KERNEL = "kernel.py"
_PATH = "of a file, relative to the directory"
TOOLS = (
    ToolSpec("read", "Shows a file, or what is in a folder.", {"path": "of a file or folder; . is the directory"}),
    ToolSpec("write", "Writes a file anew.", {"path": _PATH, "text": "the whole file"}),
    ToolSpec(
        "edit", "Replaces a part of a file.", {"path": _PATH, "old": "text that is there once", "new": "what replaces it"}
    ),
    ToolSpec("build", "Imports kernel.py, constructs ModelNew and calls it once, in a sandbox.", {}),
    ToolSpec("run", "Runs a Python file of the directory in a sandbox: check.py, or a test of yours.", {"path": _PATH}),
    ToolSpec("judge", "Has kernel.py judged: is it right, honest and faster. Counts as a kernel of the budget.", {}),
    ToolSpec("profile", "Shows where the time of kernel.py goes; has it judged first if that was not done.", {}),
    ToolSpec(
        "search_skills", "Looks for cards on how to make kernels fast, and puts them under skills/.", {"query": "a few words"}
    ),
    ToolSpec("finish", "Ends the work: nothing is left to try.", {}),
)
BY_NAME = {tool.name: tool for tool in TOOLS}
REMINDER = "The answer calls no tool and holds no kernel. Call a tool, or finish."
ONE_CALL = "One tool an answer: the other calls were not carried out."
LEFT_OUT = "(left out to save room)"
LEAST_RESULT = 200
"""Characters that are left of the last result in any case."""
SHORTENED = 0.6
"""What share of its room a conversation that has outgrown it is cut to."""


@dataclass(frozen=True)
class AgentAnswer:
    calls: tuple[ToolCall, ...] = ()
    fault: str = ""
    """Why nothing, or not all of it, can be done, in words for the next prompt."""


def messages(
    given: writer.WriterInput, files: Sequence[str], skills: Sequence[str], prompts: Prompts, plain: bool, budget: PromptBudget
) -> list[Message]:
    """The first prompt. `skills`: a line for each card that lies in the directory; the cards themselves are in no prompt of a model that can read
    files. `plain`: the tools are told in the prompt."""
    if prompts.style == "terse":
        return writer.messages(given, prompts, budget)
    system, user = prompts.messages("agent", {"files": "\n".join(files), "skills": "\n".join(skills), "tools": ""})
    told = [system.content]
    if plain:
        told.append(
            prompts.piece("agent", "plain", {"files": "", "skills": "", "tools": "\n".join(tool.line for tool in TOOLS)})
        )
    added = budget.size([Message("system", "\n\n".join(told)), user])
    room = PromptBudget(max(1, budget.tokens - added), budget.count_tokens)
    first, second = writer.messages(replace(given, skills=()), prompts, room)
    return [
        Message("system", "\n\n".join([first.content, *told])),
        Message("user", f"{second.content}\n\n{user.content}"),
    ]


def parse(text: str, calls: Sequence[ToolCall]) -> AgentAnswer:
    """The calls of an answer: the server's, one in plain form, or those that judge the kernel which the answer is."""
    if calls:
        faults = [fault for call in calls if (fault := check_call(call))]
        return AgentAnswer(tuple(calls), " ".join(faults))
    try:
        found = blocks(answer_text(text))
    except AnswerError as error:
        return AgentAnswer(fault=str(error))
    plain = [call for place in range(len(found)) if (call := _plain_call(found, place)) is not None]
    if plain:
        return AgentAnswer((plain[0],), " ".join(filter(None, [check_call(plain[0]), ONE_CALL if len(plain) > 1 else ""])))
    try:
        source = writer.parse(text).source
    except AnswerError:
        return AgentAnswer(fault=REMINDER)
    return AgentAnswer((ToolCall("", "write", json.dumps({"path": KERNEL, "text": source})), ToolCall("", "judge", "{}")))


def arguments_of(call: ToolCall) -> dict[str, str]:
    """Raises `ValueError` in words for the next prompt."""
    tool = BY_NAME.get(call.name)
    if tool is None:
        raise ValueError(f"There is no tool {call.name[:60]!r}; there are {', '.join(BY_NAME)}.")
    try:
        given = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError) as error:
        raise ValueError(f"The arguments of {call.name} are no JSON: {error}.") from None
    given = given if isinstance(given, dict) else {}
    missing = [name for name in tool.parameters if not isinstance(given.get(name), str)]
    if missing:
        raise ValueError(f"{call.name} needs {', '.join(missing)}, as texts.")
    return {name: given[name] for name in tool.parameters}


def check_call(call: ToolCall) -> str:
    """What is wrong with a call; empty where nothing is."""
    try:
        arguments_of(call)
    except ValueError as error:
        return str(error)
    return ""


def reply(text: str, calls: Sequence[ToolCall], results: Sequence[str], fault: str) -> list[Message]:
    """An answer and what its calls returned, as the conversation goes on. Calls of a server are answered one by one; thoughts are left out."""
    text = without_thoughts(text)
    answered = [call for call in calls if call.id]
    if answered:
        said = Message("assistant", text, tuple(answered))
        return [said, *(Message("tool", result, call_id=call.id) for call, result in zip(answered, results))]
    told = [plain_result(call.name, result) for call, result in zip(calls, results)]
    if fault and (not calls or fault.endswith(ONE_CALL)):
        told.append(fault)
    return [Message("assistant", text), Message("user", "\n\n".join(told))]


def shortened(talk: Sequence[Message], budget: PromptBudget) -> list[Message]:
    """A conversation that has outgrown its room, with the oldest results left out, then the oldest answers; the first prompt and the last answer with
    its results stay, and a result that is too long by itself is cut. Cut well below the room, so that the next steps share their beginning again."""
    found = list(talk)
    if budget.size(found) <= budget.tokens:
        return found
    wanted = int(budget.tokens * SHORTENED)
    last = max((place for place, message in enumerate(found) if message.role == "assistant"), default=2)
    for role in ("results", "assistant"):
        for place in range(2, last):
            said = found[place]
            if (said.role == "assistant") is not (role == "assistant") or len(said.text) <= len(LEFT_OUT):
                continue
            if budget.size(found) > wanted:
                calls = tuple(replace(call, arguments="{}") for call in said.calls)
                found[place] = replace(said, content=LEFT_OUT, calls=calls)
    for place in range(last + 1, len(found)):
        while budget.size(found) > budget.tokens and len(found[place].content) > LEAST_RESULT:
            found[place] = replace(found[place], content=cut_to_length(found[place].content, len(found[place].content) // 2))
    return found


def _plain_call(found: Sequence[CodeBlock], place: int) -> ToolCall | None:
    """The call in a block, with the texts of the blocks behind it for what it does not say itself."""
    try:
        said: Any = json.loads(found[place].body)
    except (ValueError, RecursionError):
        return None
    name = said.pop(TOOL_KEY, None) if isinstance(said, dict) else None
    if not isinstance(name, str):
        return None
    texts = iter(block.body for block in found[place + 1 :])
    for parameter in BY_NAME[name].parameters if name in BY_NAME else ():
        if parameter not in said and (text := next(texts, None)) is not None:
            said[parameter] = text
    return ToolCall("", name, json.dumps(said))
