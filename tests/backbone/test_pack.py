from __future__ import annotations

import random

import pytest

from bottega.backbone.pack import SIZES, TILE, PrefillSpan, pack, packs, parts

ASLEEP = 99


def pieces(count: int, longest: int, seed: int = 0) -> list[PrefillSpan]:
    source = random.Random(seed)
    found = []
    for row in range(count):
        prompt = tuple(source.randrange(1, 1000) for _ in range(source.randint(1, longest)))
        found.append(PrefillSpan(row, prompt, source.randint(0, len(prompt) - 1) if row % 3 == 0 else 0, len(prompt)))
    return found


@pytest.mark.parametrize(("count", "longest"), [(1, 1), (1, 64), (5, 300), (40, 3), (90, 700)])
def test_every_token_is_read_once_and_every_prompt_ends_once(count: int, longest: int) -> None:
    asked = pieces(count, longest)
    seen: dict[tuple[int, int], int] = {}
    tiled: set[tuple[int, int]] = set()
    ended: list[int] = []
    for each in packs(asked, ASLEEP):
        tokens, tiles, ends = parts(each.flat, each.size)
        for token, position, row in tokens.T.tolist():
            if row != ASLEEP:
                assert (row, position) not in seen
                seen[row, position] = token
        for first, row, place, width in tiles.T.tolist():
            assert 0 <= width <= TILE
            for step in range(width):
                assert tokens[:, first + step].tolist()[1:] == [place + step, row]
                assert (row, place + step) not in tiled
                tiled.add((row, place + step))
        for last, row in ends.T.tolist():
            if row != ASLEEP:
                assert tokens[1:, last].tolist() == [len(asked[row].prompt) - 1, row]
                ended.append(row)
    wanted = {(piece.row, at): piece.prompt[at] for piece in asked for at in range(piece.begin, piece.end)}
    assert seen == wanted
    assert tiled == set(wanted)
    assert ended == list(range(count))


def test_a_prompt_longer_than_any_pack_is_spread() -> None:
    prompt = tuple(i % 50 for i in range(2 * SIZES[-1] + 100))
    found = list(packs([PrefillSpan(0, (1, 2, 3), 0, 3), PrefillSpan(1, prompt, 0, len(prompt))], ASLEEP))
    assert [each.size for each in found] == [SIZES[-1], SIZES[-1], 128]
    lasts = [parts(each.flat, each.size)[2][1].tolist() for each in found]
    assert [1 in last for last in lasts] == [False, False, True]


def test_the_smallest_size_is_taken() -> None:
    for count, size in ((1, 64), (64, 64), (65, 128), (1025, 1536)):
        assert pack([PrefillSpan(0, (1,) * count, 0, count)], ASLEEP).size == size
