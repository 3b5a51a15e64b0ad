"""verl: an agent loop whose turns are judged. Named in the rollout's agent loop configuration as `bottega_kernels`.

Tested against verl 0.9.1, its own tokens and masks with a scripted model in place of its server: a rollout engine needs a GPU.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput, register
from verl.utils.profiler import simple_timer

from bottega.core.errors import JudgeError
from bottega.service.environments.factory import SessionFactory, chat, factory_for


@register("bottega_kernels")
class KernelAgentLoop(AgentLoopBase):
    """`settings` are the environment's. A row has `source`, a task's text, or `task`, a reference; in `extra_info` or beside it."""

    def __init__(self, *args: Any, settings: Mapping[str, Any] | SessionFactory | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self.factory = factory_for(settings)
        self.response_length = self.rollout_config.response_length

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> AgentLoopOutput:
        """Rows that nobody could judge come back with an empty mask: they train nothing."""
        told = {**dict(row.get("extra_info") or {}), **row}
        session = await self.loop.run_in_executor(None, lambda: self.factory.writer(self.factory.task_of(told)))
        messages, request = chat(session.messages), uuid.uuid4().hex
        ids = await self.ct_build_initial_tokens(messages)
        mask: list[int] = []
        logprobs: list[float] | None = []
        metrics: dict[str, Any] = {}
        while True:
            with simple_timer("generate_sequences", metrics):
                answer = await self.server_manager.generate(request_id=request, prompt_ids=ids, sampling_params=sampling_params)
            logprobs = logprobs if answer.log_probs else None
            merged, mask, logprobs = await self.ct_merge_assistant_token(
                ids, answer.token_ids, mask, logprobs, answer.log_probs if logprobs is not None else None
            )
            ids = merged.token_ids
            text = await self.loop.run_in_executor(None, self._text, answer.token_ids)
            try:
                with simple_timer("tool_calls", metrics):
                    step = await session.submit_async(text)
            except JudgeError:
                break
            if step.done or len(mask) >= self.response_length:
                break
            said = [*messages, {"role": "assistant", "content": text}]
            messages = [*said, {"role": "user", "content": step.feedback}]
            longer = await self.ct_merge_context_msg(said, messages, ids, mask, logprobs)
            if len(longer[1]) >= self.response_length:
                break
            ids, mask, logprobs = longer[0].token_ids, longer[1], longer[2]
        known = session.score is not None
        begun, most = len(ids) - len(mask), self.response_length
        return AgentLoopOutput(
            prompt_ids=ids[:begun],
            response_ids=ids[begun:][:most],
            response_mask=(mask if known else [0] * len(mask))[:most],
            response_logprobs=logprobs[:most] if logprobs else None,
            reward_score=session.score if known else 0.0,
            num_turns=2 * len(session.nodes),
            metrics=AgentLoopMetrics(**metrics),
            extra_fields={"turn_scores": session.rewards, "tool_rewards": [], "kernels": session.facts()},
        )

    def _text(self, ids: list[int]) -> str:
        return str(self.tokenizer.decode(ids, skip_special_tokens=True))
