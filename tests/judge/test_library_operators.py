"""Which operators of torch's a call uses: by name, without views and fresh memory."""

from __future__ import annotations

import torch
from torch import nn

from bottega.judge.coverage import PRODUCTS, leaves_products_only
from bottega.judge.library_operators import operator_rows

WEIGHT, INPUT = torch.randn(1024, 1024), torch.randn(64, 1024)


def names(call: object) -> set[str]:
    with torch.no_grad():
        return {name for name, _, _ in operator_rows(call)}  # type: ignore[arg-type]


def test_products_are_known_by_their_operators() -> None:
    image, filters = torch.randn(2, 3, 16, 16), torch.randn(4, 3, 3, 3)
    q = torch.randn(2, 4, 64, 32)
    used = names(
        lambda: (
            nn.functional.linear(INPUT, WEIGHT, WEIGHT[0]),
            INPUT @ WEIGHT,
            torch.bmm(INPUT.view(4, 16, 1024), WEIGHT.expand(4, 1024, 1024)),
            torch.einsum("ij,kj->ik", INPUT, WEIGHT),
            WEIGHT.mv(WEIGHT[0]),
            nn.functional.conv2d(image, filters),
            nn.functional.scaled_dot_product_attention(q, q, q),
        )
    )
    assert used and used <= PRODUCTS, used - PRODUCTS


def test_views_and_fresh_memory_are_no_work() -> None:
    assert not names(lambda: (INPUT.t().view(1024, 64)[3:5], torch.empty(5), torch.empty_like(INPUT), INPUT.new_empty(3)))


def test_a_product_over_leading_dimensions_leaves_nothing_beside_it() -> None:
    assert names(lambda: INPUT.view(4, 16, 1024) @ WEIGHT) == {"mm"}


def test_other_operators_are_seen() -> None:
    assert names(lambda: (torch.relu_(INPUT @ WEIGHT), INPUT.clone(), torch.cat([INPUT, INPUT]))) >= {"relu_", "clone", "cat"}


def test_a_relu_beside_a_product_counts_for_little_and_must_not_be_left_to_the_library() -> None:
    large = torch.randn(4096, 4096)
    rows = torch.randn(4, 4096)
    with torch.no_grad():
        reference = operator_rows(lambda: torch.relu(rows @ large))
        assert leaves_products_only(operator_rows(lambda: rows @ large), reference)
        assert not leaves_products_only(operator_rows(lambda: torch.relu_(rows @ large)), reference)
