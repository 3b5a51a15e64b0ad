"""slime: `--custom-generate-function-path bottega.service.environments.slime_functions.generate`, and `.custom_rm` as `--custom-rm-path`.

Written to slime's documented signatures (`generate(args, sample, sampling_params)`, `custom_rm(args, sample)`, its `Sample` and SGLang's
`/generate`), and tested against stand-ins with them: slime needs Megatron and SGLang, and is not on PyPI. Settings are the key `bottega` of the
file that `--custom-config-path` names; a row's `metadata` has `source`, a task's text, or `task`, a reference.
"""

from __future__ import annotations

import asyncio
from typing import Any

from bottega.core.errors import JudgeError
from bottega.service.environments.factory import chat, factory_for

MARK = "bottega-answer-mark"


async def generate(args: Any, sample: Any, sampling_params: dict[str, Any]) -> Any:
    """One session. The judge's words are part of the response, with a loss mask of 0."""
    from slime.rollout.sglang_rollout import GenerateState
    from slime.utils.http_utils import post

    factory = factory_for(getattr(args, "bottega", None))
    session = await asyncio.to_thread(lambda: factory.writer(factory.task_of(sample.metadata)))
    tokenizer = GenerateState(args).tokenizer
    prompt = tokenizer.apply_chat_template(chat(session.messages), tokenize=False, add_generation_prompt=True)
    prompt_ids = tokenizer(prompt, add_special_tokens=False)["input_ids"]
    url = f"http://{args.sglang_router_ip}:{args.sglang_router_port}/generate"
    response, texts, mask, logprobs = list[int](), list[str](), list[int](), list[float]()
    status = sample.Status.COMPLETED
    while True:
        sent = {"input_ids": [*prompt_ids, *response], "sampling_params": sampling_params, "return_logprob": True}
        output = await post(url, sent)
        reason = output["meta_info"]["finish_reason"]["type"]
        if reason == "abort":
            status = sample.Status.ABORTED
            break
        drawn = output["meta_info"]["output_token_logprobs"]
        response += [row[1] for row in drawn]
        logprobs += [float(row[0]) for row in drawn]
        mask += [1] * len(drawn)
        texts.append(output["text"])
        if reason == "length":
            status = sample.Status.TRUNCATED
        try:
            step = await session.submit_async(output["text"])
        except JudgeError:
            break
        if step.done or reason == "length":
            break
        said = continuation(tokenizer, step.feedback, ended=bool(drawn) and drawn[-1][1] == tokenizer.eos_token_id)
        ids = tokenizer(said, add_special_tokens=False)["input_ids"]
        response, mask, logprobs = [*response, *ids], [*mask, *[0] * len(ids)], [*logprobs, *[0.0] * len(ids)]
        texts.append(said)
    sample.tokens, sample.response, sample.response_length = [*prompt_ids, *response], "".join(texts), len(response)
    sample.loss_mask, sample.rollout_log_probs, sample.status = mask, logprobs, status
    sample.remove_sample = session.score is None  # nobody could judge it: it is no training data
    sample.metadata = {**sample.metadata, "score": session.score, "kernels": session.facts()}
    return sample


async def custom_rm(args: Any, sample: Any) -> float:
    """What the session earned while it was generated."""
    return float(sample.metadata.get("score") or 0.0)


def continuation(tokenizer: Any, feedback: str, ended: bool) -> str:
    """What the chat template puts between an answer and the next one. `ended`: the answer has its end token already."""
    told = [{"role": "user", "content": "."}, {"role": "assistant", "content": MARK}, {"role": "user", "content": feedback}]
    text = str(tokenizer.apply_chat_template(told, tokenize=False, add_generation_prompt=True))
    rest = text[text.index(MARK) + len(MARK) :]
    return rest.removeprefix(tokenizer.eos_token) if ended else rest
