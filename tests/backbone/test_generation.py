from __future__ import annotations

import math

import pytest

from bottega.backbone.chat import Sampling, TokenRequest
from bottega.backbone.generation import ActiveGeneration, generation_of
from bottega.core.errors import BackboneError, UsageError


def new(limit: int = 100) -> ActiveGeneration:
    return ActiveGeneration((1,), limit, 1.0, 0)


def test_an_end_token_ends_and_is_kept() -> None:
    answer = new()
    assert answer.extend([0, 1], [-1.0, -2.0], {7}) is None
    assert answer.extend([2, 7, 0, 0], [-1.0] * 4, {7}) == "stop"
    assert answer.completion("stop").output_ids == (0, 1, 2, 7)
    assert len(answer.logprobs) == 4


def test_the_limit_ends() -> None:
    answer = new(limit=3)
    assert answer.extend([0] * 8, [0.0] * 8, {7}) == "length"
    assert answer.ids == [0, 0, 0]


def test_an_end_token_at_the_limit_is_a_stop() -> None:
    assert new(limit=2).extend([0, 7], [0.0, 0.0], {7}) == "stop"


def test_a_stop_string_ends_with_the_token_that_completes_it() -> None:
    """Over two windows, and two tokens; what comes after it is not kept."""
    letters = "abcdefg"
    answer = ActiveGeneration((1,), 100, 1.0, 0, ("zz", "cde"), lambda ids: "".join(letters[each] for each in ids))
    assert answer.extend([0, 2, 3], [-1.0] * 3, {7}) is None
    assert answer.extend([4, 5, 6], [-1.0] * 3, {7}) == "stop"
    assert answer.completion("stop").output_ids == (0, 2, 3, 4)


def test_no_numbers_are_an_error() -> None:
    with pytest.raises(BackboneError, match="NaN"):
        new().extend([1], [math.nan], {7})


def asked(prompt: tuple[int, ...] = (1, 2), **sampling: object) -> TokenRequest:
    return TokenRequest(prompt, Sampling(**sampling))  # type: ignore[arg-type]


def test_a_request_is_cut_to_the_context() -> None:
    assert generation_of(asked(max_tokens=1000), 64, 10_000, 10).limit == 62


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (asked(()), "empty"),
        (asked((1,) * 64), "64 tokens and the context only 64"),
        (asked((1, 10)), "another model's tokenizer"),
        (asked((1,) * 40, max_tokens=20), "cache holds 50"),
    ],
)
def test_what_cannot_be_answered_is_said(request_: TokenRequest, words: str) -> None:
    with pytest.raises(BackboneError, match=words):
        generation_of(request_, 64, 50, 10)


@pytest.mark.parametrize("wrong", [{"max_tokens": 0}, {"temperature": -1.0}, {"temperature": math.nan}])
def test_options_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        generation_of(asked(**wrong), 64, 1000, 10)


def test_seeds_are_taken_or_made() -> None:
    assert generation_of(asked(seed=5), 64, 10_000, 10).seed == 5
    assert generation_of(asked(seed=-1), 64, 10_000, 10).seed >= 0
    assert generation_of(asked(), 64, 10_000, 10).seed != generation_of(asked(), 64, 10_000, 10).seed
