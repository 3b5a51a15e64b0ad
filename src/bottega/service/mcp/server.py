"""The MCP server: eight tools with bounded arguments. What a tool can foresee to go wrong comes back as an error in words, never as a traceback.

Over stdio the SDK keeps everything but the protocol off standard output. Over HTTP nothing of the server's files can be named: a task is a
text or a built-in one, and a token needs `own_tasks` to send a text, as with `bottega serve`.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import contextmanager
from functools import wraps
from typing import Annotated, Any, Literal, ParamSpec, TypeVar

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from bottega import __version__
from bottega.core.candidate import SOURCE_LIMIT
from bottega.core.errors import BottegaError, UsageError
from bottega.core.verdict import Verdict
from bottega.judge.baselines import parse_baselines
from bottega.judge.fingerprint import JUDGE_VERSION
from bottega.languages import candidate_from
from bottega.service.mcp.explain import explanation, profile, summary
from bottega.service.mcp.optimizing import optimize_module as optimized
from bottega.service.mcp.optimizing import refuse_backbone
from bottega.service.mcp.parts import REMEMBERED, McpParts
from bottega.service.mcp.skill_cards import SkillCards
from bottega.service.tokens import ANYONE, Token

P = ParamSpec("P")
R = TypeVar("R")
INSTRUCTIONS = """\
Judges GPU and CPU kernels for PyTorch modules: right, honest, and how fast, measured in a sandbox. A task is a Python text that defines Model,
get_inputs() and get_init_inputs(); a candidate defines ModelNew with the same constructor and call. Search the skills before you write, judge
every kernel, and believe no speedup that the judge has not measured. Only the outcome `faster` is a gain."""

TaskArgument = Annotated[
    str, Field(max_length=SOURCE_LIMIT, description="The task's Python text, builtin:NAME, or (stdio only) the path of a file.")
]
CandidateArgument = Annotated[
    str, Field(max_length=SOURCE_LIMIT, description="Python text that defines ModelNew, or (stdio only) the path of a file.")
]
Device = Annotated[str, Field(max_length=20, description="One of list_devices; empty for the first of them.")]
Baseline = Annotated[str, Field(max_length=40, description="eager, compile, autotune, best, or several by comma.")]
Precision = Literal["fp32", "tf32", "bf16", "fp16"]
Quick = Annotated[bool, Field(description="Fewer input variants and timed rounds.")]
Again = Annotated[bool, Field(description="Measure again, also where a server has a verdict on the same kernel and task.")]
Expression = Annotated[str, Field(max_length=10_000)]
JUDGE = "Is this kernel right, is it honest, and how fast is it? Gives the outcome, a measured speedup with its interval, and a diagnosis."
PROFILE = "Where does its time go? Times of kernel, baselines and roofline floor, the share of the work in its own kernels, memory, error."


def mcp_server(parts: McpParts) -> MCPServer:
    server = MCPServer("bottega", title="Bottega", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING")
    judges, cards = parts.judges, SkillCards(parts.library)

    def tool(function: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
        @wraps(function)
        async def called(*arguments: P.args, **options: P.kwargs) -> R:
            with _told():
                return await function(*arguments, **options)

        server.tool()(called)
        return called

    def judging(name: str, description: str, told: Callable[[Verdict], dict[str, Any]], **more: Any) -> None:
        """A tool that judges a candidate; two of them differ in what they tell of the verdict."""

        async def called(
            candidate: CandidateArgument,
            task: TaskArgument,
            ctx: Context[Any, Any],
            device: Device = "",
            baseline: Baseline = "eager",
            precision: Precision = "fp32",
            quick: Quick = False,
            again: Again = False,
        ) -> dict[str, Any]:
            with _told():
                token = _token(ctx)
                await judges.ready()
                wanted = parts.task(task, device, token)
                written = candidate_from(parts.text(candidate, "candidate"))
                await ctx.report_progress(0, 1, "judging")
                options = {"baselines": parse_baselines(baseline), "precision": precision, "quick": quick, **more}
                verdict = await judges.verdict(token, wanted, written, device, again, **options)
                await ctx.report_progress(1, 1, verdict.outcome.value)
                return {"verdict_id": parts.keep(verdict), **told(verdict)}

        server.tool(name, description=description)(called)

    judging("judge_kernel", JUDGE, summary)
    judging("profile_kernel", PROFILE, profile, profile=True)

    @tool
    async def explain_verdict(
        verdict_id: Annotated[str, Field(max_length=80, description="As judge_kernel gave it.")] = "",
        verdict: Annotated[
            str, Field(max_length=SOURCE_LIMIT, description="Or: a verdict's JSON, as `bottega judge --json` prints it.")
        ] = "",
    ) -> str:
        """What a verdict means, which rule was broken, and what to do next."""
        if verdict:
            return _explained(verdict)
        if verdict_id not in parts.verdicts:
            raise UsageError(f"no verdict {verdict_id!r} is known here (the last {REMEMBERED} are): judge the kernel again")
        return explanation(parts.verdicts[verdict_id])

    @tool
    async def check_task(task: TaskArgument, ctx: Context[Any, Any], device: Device = "") -> dict[str, Any]:
        """Can this task be judged fairly here? Names what is wrong with it, its reference time and its facts."""
        await judges.ready()
        return await judges.fitness(_token(ctx), parts.task(task, device, _token(ctx)), device)

    @tool
    async def search_skills(
        query: Annotated[str, Field(min_length=1, max_length=20_000, description="Words, or the task's Python text.")],
        language: Annotated[str, Field(max_length=40, description="triton, cuda, cpp, …; empty for all.")] = "",
        device: Annotated[Literal["", "cpu", "cuda"], Field(description="Empty for both.")] = "",
        count: Annotated[int, Field(ge=1, le=20)] = 5,
    ) -> list[dict[str, Any]]:
        """Techniques that were proved to help, best first: name, intent, state, and the uplift that was measured."""
        return await cards.search(query, language, device, count)

    @tool
    async def get_skill(name: Annotated[str, Field(max_length=80)]) -> str:
        """One skill card, whole: when it is sound, the technique, an example, what goes wrong, and every trial with its numbers."""
        return await cards.text(name)

    @tool
    async def optimize_module(
        module: Annotated[
            str, Field(max_length=SOURCE_LIMIT, description="Python text with an nn.Module, or (stdio only) a path.")
        ],
        ctx: Context[Any, Any],
        inputs: Annotated[
            Expression, Field(description="Example inputs: an expression with torch, or a function of the file.")
        ] = "",
        init: Annotated[Expression, Field(description="Constructor arguments, in the same way.")] = "",
        class_name: Annotated[str, Field(max_length=200, description="Which class; needed where there are several.")] = "",
        device: Device = "",
        minutes: Annotated[float, Field(gt=0, le=600)] = 10.0,
        kernels: Annotated[int, Field(ge=1, le=1000, description="Kernels to try at most.")] = 8,
        backbone: Annotated[str, Field(max_length=300, description="embedded, or server:MODEL@URL.")] = "embedded",
    ) -> dict[str, Any]:
        """Search a faster kernel for a module, for minutes: drafts by rule, then a model. Gives what was proved, its folder and its source."""
        token = _token(ctx)
        if not token.limits.own_tasks or judges.served is not None:
            raise UsageError(
                "a search runs where the module is: call it from a `bottega mcp` on that machine, over stdio or with own_tasks"
            )
        if not parts.files:
            refuse_backbone(backbone, parts.backbones)
        if 60 * minutes >= token.limits.seconds:
            raise UsageError(f"minutes: this token has {token.limits.seconds:g} s for one request; ask for less")
        flags = {"class": class_name, "inputs": inputs, "init": init}
        options = [f"--{name}={value}" for name, value in flags.items() if value]
        options += [
            f"--device={device or judges.devices[0]}",
            f"--backbone={backbone}",
            f"minutes={minutes:g}",
            f"kernels={kernels}",
        ]
        if not parts.files:
            options.append("summaries=0")  # what strangers' searches find is not proposed to the operator's library

        async def note(number: int, text: str) -> None:
            await ctx.report_progress(number, None, text)

        give_back = judges.calls.take_place(token)
        try:
            async with judges.calls.limit(token):
                with judges.calls.counting(token):
                    return await optimized(parts.command, parts.folder, parts.text(module, "module"), options, note)
        finally:
            give_back()

    @tool
    async def list_devices() -> dict[str, Any]:
        """Devices that kernels are judged on here, with what a kernel writer must know of them; the first is the default."""
        await judges.ready()
        return {"judge": JUDGE_VERSION, "bottega": __version__, "devices": judges.facts()}

    return server


@contextmanager
def _told() -> Any:
    """Errors that are meant for the user, as the protocol's errors of a tool."""
    try:
        yield
    except BottegaError as error:
        raise ToolError(str(error)) from None


def _token(ctx: Context[Any, Any]) -> Token:
    """Whose request it is: over HTTP as the gate found it, over stdio the user's own."""
    request = ctx.request_context.request
    scope = getattr(request, "scope", None) or {}
    token = scope.get("state", {}).get("token")
    return token if isinstance(token, Token) else ANYONE


def _explained(text: str) -> str:
    """Of a verdict from outside, which may hold anything in its fields."""
    try:
        return explanation(Verdict.from_json(json.loads(text)))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, ArithmeticError) as error:
        raise UsageError(f"that is no verdict as `bottega judge --json` prints it: {type(error).__name__}: {error}") from None
