"""Best of k without bias, against numbers worked out by hand and against every subset there is."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from bottega.bench.scaling import best_of_weights, chances, expected_best, pass_at_k, usual_k


def test_pass_at_k_by_hand() -> None:
    # 4 samples, 1 right: of the 6 pairs 3 hold it. 4 samples, 2 right: of the 6 pairs only one holds neither.
    assert pass_at_k(4, 1, 1) == pytest.approx(1 / 4)
    assert pass_at_k(4, 1, 2) == pytest.approx(1 / 2)
    assert pass_at_k(4, 2, 2) == pytest.approx(5 / 6)
    assert pass_at_k(4, 0, 4) == 0
    assert pass_at_k(4, 3, 2) == 1
    assert list(chances(np.array([0, 1, 2]), 4, 2)) == pytest.approx([0, 1 / 2, 5 / 6])


def test_it_is_not_the_biased_guess() -> None:
    share = 2 / 4
    assert pass_at_k(4, 2, 2) != pytest.approx(1 - (1 - share) ** 2)


@pytest.mark.parametrize(("samples", "right", "k"), [(4, 5, 1), (4, -1, 1), (4, 1, 5), (4, 1, 0), (0, 0, 1)])
def test_nonsense_is_refused(samples: int, right: int, k: int) -> None:
    with pytest.raises(ValueError, match="samples"):
        pass_at_k(samples, right, k)


def test_the_best_of_two_of_three_by_hand() -> None:
    # Of 1, 2 and 5 the pairs are (1, 2), (1, 5), (2, 5); their best are 2, 5, 5.
    assert list(best_of_weights(3, 2)) == pytest.approx([0, 1 / 3, 2 / 3])
    values = np.array([[5.0, 1.0, 2.0]])
    assert expected_best(values, values, 2)[0] == pytest.approx(4)


@pytest.mark.parametrize("k", [1, 2, 3, 5, 6])
def test_the_expected_best_is_the_mean_over_all_subsets(k: int) -> None:
    random = np.random.default_rng(k)
    ranks, worths = random.random(6), random.random(6)
    each = [worths[max(chosen, key=lambda place: ranks[place])] for chosen in combinations(range(6), k)]
    assert expected_best(ranks[None], worths[None], k)[0] == pytest.approx(np.mean(each))


def test_usual_k() -> None:
    assert usual_k(1) == (1,)
    assert usual_k(6) == (1, 2, 4, 6)
    assert usual_k(8) == (1, 2, 4, 8)
