"""vLLM in this process, on a GPU: the token protocol of the local backbone.

Our own engine keeps the generations (cancelling, closing) and vLLM's engine, behind the runner here, samples them.
Everything of vLLM is built and called on one thread. Beside a trainer it begins without weights, takes the trainer's after every update, in the
same process and without a copy between, and sleeps while the model learns or kernels are timed. It forgets its weights then, and has the trainer's
again when it wakes: they are nearer than the host's memory. Left out: several GPUs, and the GGUF file of the embedded model.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from bottega.backbone.engine_backbone import EngineBackbone
from bottega.backbone.generation import ActiveGeneration
from bottega.backbone.loading import place_of, tokenizer_of
from bottega.backbone.runner import BatchRunner, FinishedWindow, Sampled
from bottega.backbone.tokenizer import HuggingFaceTokenizer
from bottega.core.errors import BackboneError, UsageError

ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # else its engine is another process, which does not keep to our device lock
    "VLLM_NO_USAGE_STATS": "1",
}
NamedWeights = Callable[[], Iterable[tuple[str, torch.Tensor]]]
"""Weights as they are now, by their names in the model's files."""
KEEPS, FORGETS = 1, 2
"""Levels of vLLM's sleep: its weights wait in the host's memory, or are gone."""
SLOTS = 256
MEMORY = 0.4
"""Share of the GPU that vLLM may fill. Its own default is nearly all, which leaves a trainer and the judge nothing."""


class VllmBackbone(EngineBackbone):
    device = "cuda:0"

    def __init__(
        self, name: str, tokenizer: HuggingFaceTokenizer, vocabulary: int, open_llm: Callable[[], Any], slots: int = SLOTS,
        weights: NamedWeights | None = None, sleeps: bool = False,
    ) -> None:  # fmt: skip
        """`open` is what callers want; this takes vLLM's `LLM` unopened, since it must be opened on the engine's thread."""
        self._vllm = runner = VllmRunner(open_llm, slots, tokenizer.context, tokenizer.ends, sleeps, weights)
        super().__init__(name, tokenizer, vocabulary, runner)
        self.policy_version = 0 if weights is None else -1
        try:
            self._engine.between(lambda: None)
        except BackboneError:
            raise BackboneError(f"vLLM cannot serve {name}: {runner.failure}") from None

    @classmethod
    def open(
        cls, name: str, *, dtype: str = "auto", context: int | None = None, revision: str | None = None, slots: int | None = None,
        memory: float | None = None, graphs: bool = True, attention: str | None = None, template: Mapping[str, Any] | None = None,
        weights: NamedWeights | None = None, sleeps: bool = False,
    ) -> VllmBackbone:  # fmt: skip
        """A folder or a hub name. `memory`: share of the GPU. `graphs`: compile and record, a minute at the start. `attention`: one
        of vLLM's back ends, if its own choice does not do. `template`: as for `loading.load`. `weights`: a trainer's, taken at every
        `weights_changed`; the folder's are not read then. `sleeps`: whether `rest` gives the GPU's memory back."""
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
            generation = GenerationConfig.from_pretrained(place, revision=revision)
        except OSError:  # not every model comes with one
            generation = None
        tokenizer = tokenizer_of(name, inner, config, generation, context, template)
        options: dict[str, Any] = {
            "dtype": dtype,
            "revision": revision,
            "max_model_len": tokenizer.context,
            "max_num_seqs": slots,
        }
        options |= {"gpu_memory_utilization": memory, "enforce_eager": not graphs, "seed": 0}
        options |= {"attention_backend": attention} if attention else {}
        options |= {"load_format": "dummy"} if weights is not None else {}
        options |= {"enable_sleep_mode": True} if sleeps else {}

        def open_llm() -> Any:
            from vllm import LLM

            # processed: at the temperature of sampling, as a teacher-forced pass gives them there
            return LLM(place, logprobs_mode="processed_logprobs", generation_config="vllm", **options)

        short = Path(place).name if Path(place).exists() else name
        return cls(short, tokenizer, int(config.vocab_size), open_llm, slots, weights, sleeps)

    @property
    def engine(self) -> str:
        return self._vllm.kind

    def weights_changed(self, version: int, change: Callable[[], None] = lambda: None) -> int:
        """Take the trainer's weights as they are after `change`; waits until it has."""

        def take() -> int:
            change()
            if torch.cuda.is_available():  # the trainer's stream is not vLLM's
                torch.cuda.synchronize()
            self._vllm.take_weights()
            self._engine.version = version
            return version

        self.policy_version = self._engine.between(take)
        return self.policy_version

    def rest(self) -> None:
        """Give the GPU's memory back until an answer is asked for or weights come. Nothing may be drawn meanwhile."""
        self._engine.between(self._vllm.hand_back)


class VllmRunner(BatchRunner):
    """Over vLLM's engine, which has a scheduler, a paged cache and a prefix cache of its own."""

    kind = "vLLM"

    def __init__(
        self, open_llm: Callable[[], Any], slots: int, capacity: int, ends: Sequence[int], sleeps: bool = False,
        weights: NamedWeights | None = None,
    ) -> None:  # fmt: skip
        self.slots, self.capacity, self._weights = slots, capacity, weights
        self._sleeps, self._asleep = sleeps, False
        self.failure = "it was closed while it started"
        """Why it could not be opened."""
        self._open, self._ends = open_llm, list(ends)
        self._names: dict[str, ActiveGeneration] = {}
        self._count = 0

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

    def take(self, generation: ActiveGeneration) -> bool:
        if len(self._names) >= self.slots:
            return False
        self._wake()
        self._count += 1
        self._names[str(self._count)] = generation
        return True

    def prefill(self, generations: Sequence[ActiveGeneration]) -> None:
        new = set(map(id, generations))
        for name, each in self._names.items():
            if id(each) in new:
                self._llm.llm_engine.add_request(name, {"prompt_token_ids": list(each.prompt)}, self._parameters(each))

    def launch(self) -> FinishedWindow:
        sampled = []
        for output in self._llm.llm_engine.step():
            if output.request_id in self._names:
                (found,) = output.outputs
                if found.finish_reason not in (None, "stop", "length"):
                    raise BackboneError(f"vLLM gave an answer up (finish_reason {found.finish_reason!r}): look at its log")
                ids = [int(token) for token in found.token_ids]
                positions = found.logprobs[len(found.logprobs) - len(ids) :] if ids else []
                logprobs, over = _sampled_logprobs(positions, ids), found.finish_reason is not None
                sampled.append(Sampled(self._names[output.request_id], ids, logprobs, over))
        return FinishedWindow(sampled, draws=0)

    def drop(self, generation: ActiveGeneration) -> None:
        name = next((name for name, each in self._names.items() if each is generation), None)
        if name is not None:
            del self._names[name]
            self._llm.llm_engine.abort_request([name])  # nothing happens where it is over already

    def take_weights(self) -> None:
        """The trainer's as they are now, by the names of the model's files; vLLM joins, casts and packs them itself."""
        if self._weights is None:
            return
        if self._asleep:
            self._wake()
            return
        self._llm.collective_rpc("reload_weights", kwargs={"weights_iterator": self._weights()})
        self._llm.reset_prefix_cache()

    def hand_back(self) -> None:
        if self._sleeps and not self._asleep:
            self._llm.sleep(level=FORGETS if self._weights is not None else KEEPS)
            self._asleep = True

    def _wake(self) -> None:
        if self._asleep:
            self._llm.wake_up()
            self._asleep = False
            self.take_weights()

    def reset(self) -> None:
        self._llm.llm_engine.abort_request(list(self._names))
        self._names = {}

    def _parameters(self, generation: ActiveGeneration) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        return SamplingParams(
            max_tokens=generation.limit, temperature=generation.temperature, seed=generation.seed,
            logprobs=0, flat_logprobs=True, stop=list(generation.stop), detokenize=bool(generation.stop),
            ignore_eos=True, stop_token_ids=self._ends, output_kind=RequestOutputKind.FINAL_ONLY,
        )  # fmt: skip

    def _shut_down(self) -> None:
        from vllm.distributed import cleanup_dist_env_and_memory

        self._llm.llm_engine.engine_core.shutdown()
        del self._llm
        cleanup_dist_env_and_memory()


def _sampled_logprobs(flat: Any, ids: Sequence[int]) -> list[float]:
    """From vLLM's flat log-probs: at each position the sampled token comes first, whatever follows."""
    found = []
    for place, token in enumerate(ids):
        at = flat.start_indices[place]
        if flat.token_ids[at] != token:
            raise BackboneError(f"vLLM gives the log-prob of token {flat.token_ids[at]} where {token} was sampled")
        found.append(float(flat.logprobs[at]))
    return found


def _require() -> None:
    if not torch.cuda.is_available():
        raise UsageError(
            "vLLM in this process needs an NVIDIA GPU, and torch sees none: use local:NAME, or server:MODEL@BASE_URL"
        )
    if importlib.util.find_spec("vllm") is None:
        raise UsageError("vLLM in this process needs vLLM: pip install 'bottega[vllm]', or use local:NAME")
