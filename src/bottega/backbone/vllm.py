"""vLLM in this process, on a GPU: the token protocol of the local backbone, with weights that a trainer beside it pushes in place.

Our own engine keeps the drafts (versions, stop strings, cancelling, closing) and vLLM's engine, behind the runner here, draws them.
Everything of vLLM is built and called on one thread. Left out: several GPUs, and the GGUF file of the embedded model.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bottega.backbone.engine import DeviceLock, Engine
from bottega.backbone.generation import Draft, draft
from bottega.backbone.loading import end_ids, place_of
from bottega.backbone.runner import Drawn, Ready
from bottega.backbone.teacher import Row
from bottega.backbone.tokenizer import HuggingFaceTokenizer
from bottega.backbone.tokens import TokenCompletion, Tokenizer, TokenRequest
from bottega.backbone.weights import plain_weights
from bottega.core.errors import BackboneError, UsageError

ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # else its engine is another process, and weights cannot be pushed in place
    "VLLM_NO_USAGE_STATS": "1",
}
SLOTS = 256
MEMORY = 0.4
"""Share of the GPU that vLLM may fill. Its own default is nearly all, which leaves a trainer and the judge nothing."""


class VllmBackbone:
    """A `Trainable`. Weights come from `push`; an answer that is under way then goes on with the new ones and carries the older version."""

    def __init__(
        self, name: str, tokenizer: HuggingFaceTokenizer, vocabulary: int, open_llm: Callable[[], Any], slots: int = SLOTS
    ) -> None:
        """`open` is what callers want; this takes vLLM's `LLM` unopened, since it must be opened on the engine's thread."""
        self.name = name
        self.tokenizer: Tokenizer = tokenizer
        self.device = "cuda:0"
        self.policy_version = 0
        self.slots = slots
        self._vocabulary = vocabulary
        self._runner = VllmRunner(open_llm, slots, tokenizer.context, tokenizer.ends)
        self._engine = Engine(self._runner, tokenizer.ends, tokenizer.decode)
        try:
            self._engine.between(lambda: None)
        except BackboneError:
            raise BackboneError(f"vLLM cannot serve {name}: {self._runner.failure}") from None

    @classmethod
    def open(
        cls, name: str, *, dtype: str = "auto", context: int | None = None, revision: str | None = None, slots: int | None = None,
        memory: float | None = None, graphs: bool = True, attention: str | None = None,
    ) -> VllmBackbone:  # fmt: skip
        """A folder or a hub name. `memory`: share of the GPU. `graphs`: compile and record, a minute at the start. `attention`: one
        of vLLM's back ends, if its own choice does not do."""
        _require()
        slots, memory = SLOTS if slots is None else slots, MEMORY if memory is None else memory
        if slots < 1 or not 0 < memory < 1:
            raise UsageError(f"vLLM needs at least one slot and a share of the GPU between 0 and 1, not {slots} and {memory}")
        from transformers import AutoConfig, AutoTokenizer, GenerationConfig

        place = place_of(name)
        try:
            config = AutoConfig.from_pretrained(place, revision=revision)
            inner = AutoTokenizer.from_pretrained(place, revision=revision, padding_side="left")
        except Exception as error:
            first = (str(error).strip().splitlines() or [""])[0]
            raise BackboneError(f"{name} cannot be loaded: {type(error).__name__}: {first}") from None
        try:
            ends = end_ids(GenerationConfig.from_pretrained(place, revision=revision).eos_token_id)
        except OSError:  # not every model comes with one
            ends = ()
        most = int(getattr(config, "max_position_embeddings", 0) or inner.model_max_length)
        length = _length(name, context, most)
        tokenizer = HuggingFaceTokenizer(inner, length - 1, ends + end_ids(getattr(config, "eos_token_id", None)))
        if not tokenizer.ends:
            raise BackboneError(f"{name} names no token that ends an answer (eos): its answers would never stop")
        options: dict[str, Any] = {"dtype": dtype, "revision": revision, "max_model_len": length, "max_num_seqs": slots}
        options |= {"gpu_memory_utilization": memory, "enforce_eager": not graphs, "seed": 0}
        options |= {"attention_backend": attention} if attention else {}

        def open_llm() -> Any:
            from vllm import LLM

            # raw: at temperature 1 and before top-p, which is what a teacher-forced pass gives
            return LLM(place, logprobs_mode="raw_logprobs", generation_config="vllm", **options)

        return cls(Path(place).name if Path(place).exists() else name, tokenizer, int(config.vocab_size), open_llm, slots)

    async def complete(self, requests: Sequence[TokenRequest]) -> list[TokenCompletion]:
        drafts = [draft(request, self.tokenizer.context, self.tokenizer.context, self._vocabulary) for request in requests]
        self._engine.submit(drafts)
        try:
            return list(await asyncio.gather(*(asyncio.wrap_future(each.future) for each in drafts)))
        except BaseException:  # cancelled, or one of them failed: nobody waits for the others any more
            self._engine.cancel(drafts)
            raise

    def share(self, lock: Callable[[], DeviceLock]) -> DeviceLock:
        """Use the device only as a lock allows it from now on; the one that was made first stays."""
        return self._engine.lock or self._engine.share(lock())

    def logprobs(self, rows: Sequence[Row]) -> list[list[float]]:
        """By vLLM's own pass over the whole row. Answers that are being drawn wait for it."""
        for prompt, output in rows:
            if not prompt and output:
                raise BackboneError(
                    "a row without a prompt has no log-prob for its first token: give at least one prompt token"
                )
            if len(prompt) + len(output) > self.tokenizer.context:
                raise BackboneError(
                    f"a row of {len(prompt) + len(output)} tokens is longer than the context of {self.tokenizer.context}"
                )
        return self._engine.between(lambda: self._runner.score(rows))

    def push(self, model: Any) -> int:
        """Take the weights of a trainer's model in this process, with its LoRA merged in; the new policy version."""
        return self._pushed(plain_weights(model))

    def update(self, state: Mapping[str, Tensor]) -> int:
        """The same from weights by the names that they have in transformers' model; the rest stays as it is."""
        return self._pushed(state.items())

    @property
    def load_now(self) -> tuple[int, int]:
        """How many requests are being answered, and how many wait."""
        return self._engine.load

    async def close(self) -> None:
        await asyncio.to_thread(self._engine.close)

    def _pushed(self, weights: Iterable[tuple[str, Tensor]]) -> int:
        torch.cuda.current_stream().synchronize()  # what the trainer has put on its own stream must be done first

        def swap() -> int:
            self._runner.load(weights)
            self._runner.refresh()
            self._engine.version += 1
            return self._engine.version

        try:
            self.policy_version = self._engine.between(swap)
        except BackboneError:
            raise
        except Exception as error:  # vLLM names the weight that it does not know or whose shape differs
            first = (str(error).strip().splitlines() or [""])[0]
            raise BackboneError(f"vLLM did not take the new weights of {self.name}: {type(error).__name__}: {first}") from error
        return self.policy_version


class VllmRunner:
    """A `Runner` over vLLM's engine, which has a scheduler, a paged cache and a prefix cache of its own."""

    kind = "vLLM"
    lag = 0

    def __init__(self, open_llm: Callable[[], Any], slots: int, capacity: int, ends: Sequence[int]) -> None:
        self.slots, self.capacity = slots, capacity
        self.failure = "it was closed while it started"
        """Why it could not be opened."""
        self._open, self._ends = open_llm, list(ends)
        self._names: dict[str, Draft] = {}
        self._count = 0
        self._kept: list[Drawn] = []
        """What was drawn while something else was waited for."""

    @property
    def cache_bytes(self) -> int:
        return 0  # inside vLLM's share of the GPU

    @property
    def buffer_bytes(self) -> int:
        return 0

    @contextmanager
    def session(self) -> Iterator[object]:
        os.environ.update(ENVIRONMENT)
        try:
            self._llm = self._open()
        except BaseException as error:
            self.failure = f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"
            raise BackboneError(self.failure) from error
        try:
            yield self._llm
        finally:
            self._shut_down()

    def reserve(self, lengths: Sequence[int]) -> None:
        """vLLM's share of the GPU is its own from the start; it is set by `memory`."""

    def hand_back(self) -> None:
        """The same."""

    def take(self, draft: Draft) -> bool:
        if len(self._names) >= self.slots:
            return False
        self._names[self._name()] = draft
        return True

    def prefill(self, drafts: Sequence[Draft]) -> None:
        new = set(map(id, drafts))
        for name, each in self._names.items():
            if id(each) in new:
                self._llm.llm_engine.add_request(name, {"prompt_token_ids": list(each.prompt)}, self._parameters(each))

    def launch(self) -> Ready:
        drawn, self._kept = [*self._kept, *self._step({})], []
        return Ready(drawn, draws=0)

    def drop(self, draft: Draft) -> None:
        name = next((name for name, each in self._names.items() if each is draft), None)
        if name is not None:
            del self._names[name]
            self._llm.llm_engine.abort_request([name])  # nothing happens where it is over already

    def refresh(self) -> None:
        """Nothing cached may serve the new weights: running drafts are read again, with what they have drawn."""
        self._llm.llm_engine.reset_prefix_cache(reset_running_requests=bool(self._names))

    def load(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        def take_in(model: Any) -> None:
            model.load_weights(weights)

        self._llm.llm_engine.apply_model(take_in)

    def warm_up(self) -> None:
        """vLLM compiles and records when it is opened."""

    def reset(self) -> None:
        self._llm.llm_engine.abort_request(list(self._names))
        self._names, self._kept = {}, []

    def score(self, rows: Sequence[Row]) -> list[list[float]]:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        options = {"max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 0, "flat_logprobs": True, "detokenize": False}
        wanted: dict[str, Any] = {}
        names = [self._name() if output else "" for _, output in rows]
        for name, (prompt, output) in zip(names, rows):
            if name:
                wanted[name] = None
                parameters = SamplingParams(**options, output_kind=RequestOutputKind.FINAL_ONLY)
                self._llm.llm_engine.add_request(name, {"prompt_token_ids": [*prompt, *output]}, parameters)
        while any(found is None for found in wanted.values()):
            self._kept += self._step(wanted)
        return [
            _first_of_each(wanted[name], len(prompt), [*prompt, *output]) if name else []
            for name, (prompt, output) in zip(names, rows)
        ]

    def _step(self, wanted: dict[str, Any]) -> list[Drawn]:
        drawn = []
        for output in self._llm.llm_engine.step():
            if output.request_id in wanted:
                wanted[output.request_id] = output.prompt_logprobs if output.finished else None
            elif output.request_id in self._names:
                (found,) = output.outputs
                if found.finish_reason not in (None, "stop", "length"):
                    raise BackboneError(f"vLLM gave an answer up (finish_reason {found.finish_reason!r}): look at its log")
                ids = [int(token) for token in found.token_ids]
                positions = found.logprobs[len(found.logprobs) - len(ids) :] if ids else []
                drawn.append(Drawn(self._names[output.request_id], ids, _first_of_each(positions, 0, ids)))
        return drawn

    def _parameters(self, draft: Draft) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        # Stop strings are ours to find: vLLM would keep the text that the ids of a cut answer no longer spell.
        kind = RequestOutputKind.DELTA if draft.stop else RequestOutputKind.FINAL_ONLY
        return SamplingParams(
            max_tokens=draft.limit, temperature=draft.temperature, top_p=draft.top_p, seed=draft.seed, logprobs=0, flat_logprobs=True,
            detokenize=False, ignore_eos=True, stop_token_ids=self._ends, output_kind=kind,
        )  # fmt: skip

    def _name(self) -> str:
        self._count += 1
        return str(self._count)

    def _shut_down(self) -> None:
        from vllm.distributed import cleanup_dist_env_and_memory

        self._llm.llm_engine.engine_core.shutdown()
        del self._llm
        cleanup_dist_env_and_memory()


def _first_of_each(flat: Any, begin: int, ids: Sequence[int]) -> list[float]:
    """vLLM's flat log-probs from one position on: at each, the token itself comes first, whatever follows."""
    found = []
    for place in range(begin, len(ids)):
        at = flat.start_indices[place]
        if flat.token_ids[at] != ids[place]:
            raise BackboneError(f"vLLM tells the log-prob of token {flat.token_ids[at]} where {ids[place]} was drawn")
        found.append(float(flat.logprobs[at]))
    return found


def _length(name: str, context: int | None, most: int) -> int:
    """Tokens that vLLM must hold: one more than the context, since it scores a row only where it can draw another."""
    if context is not None and not 1 < context <= most:
        raise BackboneError(f"a context of {context} tokens cannot be had: {name} was made for at most {most}")
    return min((context or most) + 1, most)


def _require() -> None:
    if not torch.cuda.is_available():
        raise UsageError(
            "vLLM in this process needs an NVIDIA GPU, and torch sees none: use local:NAME, or server:MODEL@BASE_URL"
        )
    if importlib.util.find_spec("vllm") is None:
        raise UsageError("vLLM in this process needs vLLM: pip install 'bottega[vllm]', or use local:NAME")
