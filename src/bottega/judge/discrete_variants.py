"""The variants `discrete` and `uniform`: other integers, booleans and numbers of few values, for kernels that are right only on the usual ones.

Only values that were drawn are used, and only along the axis on which they were: an index that is out of range ends a process on a GPU. What is
sorted, symmetric, one-hot or the same in every draw is left alone: others rest on it; but not what anybody could guess without reading it: positions,
parts of one length, grids of equal steps, masks; nor segments, some of which become empty. What was distinct stays distinct.
"""

from __future__ import annotations

import torch

from bottega.judge.input_variants import FLIPPED_OF_8, PIECE, Strength, looks_normalised, looks_sorted

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)
COUNTING = (torch.int64, torch.int32)
FEW_VALUES = 64
FEWEST_BEGINNINGS = 4
"""Of an axis in whose progression anybody would see where parts begin."""
GUESSABLE = ("progression", "staircase", "mask", "order", "rising")
KEPT = ("consecutive", "order", "rising")
"""Tables of integers of which much may be made that takes long: angles of positions, an order's inverse, the lengths of parts."""
LOOKED_AT = 1 << 20
MOST_GUESSED = 1 << 24
"""Elements of a mask or a grid that are looked at whole."""
SHORT, PARTS = 16, 8
"""Shorter rows are taken along the first axis; and where there are fewer rows than parts, each row is taken as so many."""
AS_DRAWN, LOWEST, HIGHEST, RISING, FALLING, ONE, MORE_LOW, MORE_HIGH = range(8)
EVERYTHING = (LOWEST, HIGHEST, RISING, FALLING, ONE, MORE_LOW, MORE_HIGH, AS_DRAWN)
WEAKER = (HIGHEST, RISING, FALLING, MORE_HIGH, AS_DRAWN)
"""Without rows of the lowest value: a mask that hides all of a row may have no answer."""
REORDERED = (RISING, FALLING, AS_DRAWN)
ALIKE = (LOWEST, HIGHEST, ONE, ONE)
EXCHANGEABLE = 0.9
"""Of the largest value: columns with another maximum mean something else, and none of their values is put into this one."""
MASKED_OF_8 = 1
EQUAL_NEIGHBOURS = 0.5
"""Share of a sorted list of integers that repeats the one before, if it tells to which segment each row belongs, and not where segments begin."""


def discrete_structure(tensor: torch.Tensor) -> str:
    """`repeating`, `distinct`, `consecutive` (positions), `progression` (where parts of one length begin, a grid of equal steps), `staircase` (a mask
    whose rows change once, as a causal one's do), `mask` (another table of two values), `segments` (to which each row belongs, in order), `constant`
    (lengths that are always full, a mask of ones, zero points), or `fixed`. Whether it is the same in every draw is seen elsewhere."""
    if _could_be_guessed(tensor):
        if _is_staircase(tensor):
            return "staircase"
        if _is_even(tensor):
            return "progression"
    if not tensor.numel() or (tensor.dtype not in INTEGERS and not _of_few_values(tensor)):
        return "fixed"
    integral = not tensor.is_floating_point()
    first = tensor.reshape(-1)[0] if tensor.numel() <= LOOKED_AT else tensor.flatten()[0]
    if bool((tensor == first).all()):
        return "constant" if integral and tensor.dtype != torch.bool and int(first) >= 0 else "fixed"
    if tensor.shape[-1] >= SHORT and integral and tensor.dtype != torch.bool and bool((tensor.diff(dim=-1) == 1).all()):
        return "consecutive"
    if tensor.dtype in COUNTING and tensor.shape[-1] >= FEWEST_BEGINNINGS and _step(tensor) > 1:
        return "progression"
    if looks_normalised(tensor):
        return "fixed"
    if looks_sorted(tensor, least=3):
        return "segments" if _are_segments(tensor) else "fixed"
    if _is_square_and_structured(tensor):
        return "fixed"
    looked_at = tensor.reshape(-1)[:LOOKED_AT]
    return "repeating" if len(torch.unique(looked_at)) < looked_at.numel() else "distinct"


def kind_of_table(tensor: torch.Tensor) -> str:
    """The same of a tensor that is the same in every draw: `mask`, `order` (numbers that neither rise nor fall, as for a gather), `rising` (where
    parts of several lengths begin, or to which part each row belongs), or `fixed`, since others rest on what it says."""
    if not _could_be_guessed(tensor):
        return "fixed"
    if tensor.dtype not in COUNTING:
        return "mask" if _is_mask(tensor) else "fixed"
    steps = tensor.diff(dim=-1)
    if bool((steps >= 0).all()):
        return "fixed" if bool((steps == steps[..., :1]).all()) else "rising"
    if _is_mask(tensor):
        return "mask"
    few = len(tensor.unique()) <= 2  # one-hot
    return "order" if not few and (tensor.dim() == 1 or tensor.shape[-1] >= SHORT) else "fixed"


def varies_values(kind: str) -> bool:
    """Whether a kind means that values differ from draw to draw. Where they do not, the others are a table that others rest on."""
    return kind in ("repeating", "distinct", "segments")


def apply_discrete(tensor: torch.Tensor, kind: str, variant: str, strength: Strength, *, reorder_only: bool = False) -> None:
    """Change the values of `tensor` in place. In `discrete` each row is of another kind, in `uniform` all are alike: segments that get nothing,
    one that gets everything. `reorder_only`: where nobody knows what else the reference has an answer to."""
    if kind == "constant":
        if strength.extreme and not reorder_only:
            _vary_constant(tensor)
        return
    if kind in GUESSABLE:
        if strength.extreme and not reorder_only:
            vary = {
                "progression": _vary_progression,
                "staircase": _vary_staircase,
                "mask": _vary_mask,
                "order": _shuffle,
                "rising": _shuffle_steps,
            }[kind]
            vary(tensor)
        return
    if kind == "segments":
        if strength.extreme and not reorder_only:
            _empty_segments(tensor, few=variant == "uniform")
        return
    rows = _rows_of(tensor)
    if kind == "consecutive":
        rows.copy_(_move_on(rows))
    elif kind == "distinct" or reorder_only:
        rows.copy_(_vary_rows(rows, REORDERED))
    elif variant == "uniform":
        rows.copy_(_vary_alike(rows, ALIKE if strength.extreme else (HIGHEST,)))
    else:
        rows.copy_(_vary_rows(rows, EVERYTHING if strength.extreme else WEAKER))


def _vary_constant(tensor: torch.Tensor) -> None:
    """Of a mask of ones an eighth becomes zero, of zero points an eighth one; of lengths half are shorter."""
    value = int(tensor.flatten()[0])
    chance = torch.randint(0, 8, tensor.shape, device=tensor.device)
    if value <= 1:
        if tensor.numel() > 1:
            tensor.masked_fill_(chance < MASKED_OF_8, 1 - value)
        return
    lower = torch.randint(1, value, tensor.shape, device=tensor.device).to(tensor.dtype)
    tensor.copy_(torch.where(chance < 4, lower, tensor) if tensor.numel() > 1 else lower)


def _step(tensor: torch.Tensor) -> int:
    """By which all elements of each row follow one another; 0 where there is no such number."""
    steps = tensor.diff(dim=-1)
    first = int(steps.flatten()[0])
    return first if bool((steps == first).all()) else 0


def _could_be_guessed(tensor: torch.Tensor) -> bool:
    """Whether a mask or a grid of floats is looked for: not where the first row is none, as of most large tensors."""
    if not tensor.dim() or tensor.shape[-1] < FEWEST_BEGINNINGS or not 0 < tensor.numel() <= MOST_GUESSED:
        return False
    row = tensor.reshape(-1, tensor.shape[-1])[0]
    return tensor.dtype in INTEGERS or (
        tensor.is_floating_point() and tensor.dtype.itemsize > 1 and (len(row.unique()) <= 2 or _is_even(row))
    )


def _is_even(tensor: torch.Tensor) -> bool:
    """Whether all rows of a tensor of floats rise by the same step, as far as rounding lets them."""
    if tensor.dtype not in (torch.float32, torch.float64) or tensor.shape[-1] < SHORT:
        return False
    steps = tensor.diff(dim=-1)
    step = float(steps.flatten()[0])
    within = max(1e-3 * step, 4 * torch.finfo(tensor.dtype).eps * float(tensor.abs().max()))
    return step > 0 and within < 0.1 * step and bool(((steps - step).abs() <= within).all())


def _is_staircase(tensor: torch.Tensor) -> bool:
    """Whether there are two values, rows change once at most, all of them in the same direction, and some of them do."""
    other = tensor != tensor.flatten()[0]
    values = tensor[other]
    if not values.numel() or not bool((values == values[0]).all()) or looks_normalised(tensor):
        return False
    begins, ends = other[..., 1:] & ~other[..., :-1], ~other[..., 1:] & other[..., :-1]
    return bool(begins.any()) != bool(ends.any()) and int((begins | ends).sum(-1).max()) == 1


def _shuffle(tensor: torch.Tensor) -> None:
    """Each row is put in another order."""
    order = torch.rand(tensor.shape, device=tensor.device).argsort(-1)
    tensor.copy_(tensor.gather(-1, order))


def _shuffle_steps(tensor: torch.Tensor) -> None:
    """Each row rises as before, by its steps in another order: parts have the lengths that they had, and none is longer than the longest was."""
    steps = tensor.diff(dim=-1)
    _shuffle(steps)
    tensor[..., 1:] = tensor[..., :1] + steps.cumsum(-1)


def change_one_place(tensor: torch.Tensor, kind: str) -> None:
    """Of a table of one of the kinds that may be `KEPT`: two numbers of a row, or two of its steps, change places. Not where the two are equal."""
    row = tensor
    for size in tensor.shape[:-1]:
        row = row[int(torch.randint(0, size, ()))]
    changed = row.diff() if kind == "rising" else row
    first = int(torch.randint(0, changed.numel(), ()))
    others = (changed != changed[first]).nonzero().flatten()
    if not others.numel():
        return
    second = int(others[int(torch.randint(0, others.numel(), ()))])
    places = torch.tensor([first, second], device=tensor.device)
    changed[places] = changed[places.flip(0)]
    if kind == "rising":
        row[1:] = row[0] + changed.cumsum(0)


def _are_segments(tensor: torch.Tensor) -> bool:
    if tensor.dim() != 1 or tensor.dtype not in COUNTING or tensor.numel() > MOST_GUESSED or tensor[0] > tensor[-1]:
        return False
    return float((tensor.diff() == 0).float().mean()) > EQUAL_NEIGHBOURS


def _empty_segments(tensor: torch.Tensor, few: bool) -> None:
    """Half of the segments, or all but the first and the last, get nothing; what they had goes to the next one."""
    numbers = tensor.unique()
    kept = torch.rand(numbers.shape, device=tensor.device) < (0.0 if few else 0.5)
    kept[0] = kept[-1] = True
    numbers = numbers[kept]
    tensor.copy_(numbers[torch.searchsorted(numbers, tensor.contiguous())])


def _is_mask(tensor: torch.Tensor) -> bool:
    """Whether there are two values, and not one in each row and column only, as in a permutation."""
    other = tensor != tensor.flatten()[0]
    values = tensor[other]
    if not values.numel() or not bool((values == values[0]).all()):
        return False
    rare = other if 2 * values.numel() <= tensor.numel() else ~other
    return not any(bool((rare.sum(axis) <= 1).all()) for axis in range(-min(2, tensor.dim()), 0))


def _vary_mask(tensor: torch.Tensor) -> None:
    """An eighth of its places change. It stays symmetric where it is, and no row or column comes to be all of one value."""
    first = tensor.flatten()[0]
    other = tensor != first
    second = tensor[other][0]
    change = torch.randint(0, 8, tensor.shape, device=tensor.device) < FLIPPED_OF_8
    if tensor.dim() > 1 and tensor.shape[-1] == tensor.shape[-2] and torch.equal(tensor, tensor.mT):
        change = change.triu() | change.triu().mT
    flipped = other ^ change
    for axis in range(-min(2, tensor.dim()), 0):
        uniform = flipped.all(axis, keepdim=True) | ~flipped.any(axis, keepdim=True)
        flipped = torch.where(uniform, other, flipped)
    tensor.copy_(torch.where(flipped, second, first))


def flip_one_place(tensor: torch.Tensor) -> None:
    """Of a mask; with its mirror image where it is symmetric. Not where a row or column would come to be all of one value."""
    values = tensor.unique()
    place = tuple(int(torch.randint(0, size, ())) for size in tensor.shape)
    lines = []
    for axis in range(max(0, tensor.dim() - 2), tensor.dim()):
        line = tensor.movedim(axis, -1)
        for number in (*place[:axis], *place[axis + 1 :]):
            line = line[number]
        lines.append(line)
    if len(values) != 2 or any(int((line == tensor[place]).sum()) < 2 for line in lines):
        return
    mirrored = tensor.dim() > 1 and tensor.shape[-1] == tensor.shape[-2] and torch.equal(tensor, tensor.mT)
    flipped = values[0] if bool(tensor[place] == values[1]) else values[1]
    tensor[place] = flipped
    if mirrored:
        tensor[(*place[:-2], place[-1], place[-2])] = flipped


def _vary_staircase(tensor: torch.Tensor) -> None:
    """Each row changes elsewhere, and no row is all of one value: one that hides everything may have no answer."""
    rows = tensor.reshape(-1, tensor.shape[-1])
    left, right = rows[rows[:, 0] != rows[:, -1]][0, [0, -1]]
    places = torch.randint(1, tensor.shape[-1], (*tensor.shape[:-1], 1), device=tensor.device)
    tensor.copy_(torch.where(torch.arange(tensor.shape[-1], device=tensor.device) < places, left, right))


def _vary_progression(tensor: torch.Tensor) -> None:
    """Parts get different lengths, none of them empty; all of them together begin and end where they did."""
    inner = tensor[..., 1:-1]
    if tensor.is_floating_point():
        step = float(tensor.diff(dim=-1).flatten()[0])
        inner.add_(torch.rand(inner.shape, device=tensor.device, dtype=tensor.dtype), alpha=0.9 * step)
        return
    inner.add_(torch.randint(0, _step(tensor), inner.shape, device=tensor.device).to(tensor.dtype))


def _move_on(rows: torch.Tensor) -> torch.Tensor:
    """Each row by a number of its own: a kernel may read the positions of the first one only."""
    width = rows.shape[-1]
    if rows.numel() > PIECE:
        return rows.roll(int(torch.randint(1, width, ())), -1)
    shifts = torch.randint(1, width, (*rows.shape[:-1], 1), device=rows.device)
    return rows.gather(-1, (torch.arange(width, device=rows.device) + shifts) % width)


def _rows_of(tensor: torch.Tensor) -> torch.Tensor:
    """A view whose last axis is the one along which values may be exchanged: not between columns that mean different things."""
    if tensor.dim() < 2 or tensor.shape[-1] >= SHORT or tensor.shape[0] < SHORT:
        return tensor
    numbers = tensor.to(torch.uint8) if tensor.dtype == torch.bool else tensor
    highest = numbers.flatten(0, -2).amax(0)
    return tensor if bool((highest >= EXCHANGEABLE * highest.max()).all()) else tensor.movedim(0, -1)


def _vary_rows(rows: torch.Tensor, modes: tuple[int, ...]) -> torch.Tensor:
    """A tensor of the same shape. Each row has one of the modes, in random order; of few rows each part has."""
    shape = rows.shape
    table = rows.reshape(-1, shape[-1]).clone() if rows.dim() else rows.reshape(1, 1).clone()
    height, width = table.shape
    if height < PARTS <= width // 2:
        length = width // PARTS
        parts = table[:, : length * PARTS].reshape(height * PARTS, length)
        table[:, : length * PARTS] = _with_modes(parts, modes).reshape(height, length * PARTS)
    else:
        step = max(len(modes), PIECE // max(1, width))
        for start in range(0, height, step):
            table[start : start + step] = _with_modes(table[start : start + step], modes)
    return table.reshape(shape)


def _vary_alike(rows: torch.Tensor, modes: tuple[int, ...]) -> torch.Tensor:
    """A tensor of the same shape in which every row is one value, and all the same where they have the same range."""
    mode = modes[int(torch.randint(0, len(modes), ()))]
    numbers = rows.to(torch.uint8) if rows.dtype == torch.bool else rows
    table = numbers.reshape(-1, rows.shape[-1]) if rows.dim() else numbers.reshape(1, 1)
    highest = table.amax(-1)
    alike = bool((highest >= EXCHANGEABLE * highest.max()).all())
    varied = _in_mode(table.reshape(1, -1) if alike else table, mode)
    return varied.reshape(rows.shape).to(rows.dtype)


def _with_modes(rows: torch.Tensor, modes: tuple[int, ...]) -> torch.Tensor:
    order = torch.randperm(rows.shape[0], device=rows.device)
    offset = int(torch.randint(0, len(modes), ())) if rows.shape[0] < len(modes) else 0
    numbers = rows.to(torch.uint8) if rows.dtype == torch.bool else rows
    varied = numbers.clone()
    for place, mode in enumerate(modes):
        chosen = order[(place - offset) % len(modes) :: len(modes)]
        if mode != AS_DRAWN and chosen.numel():
            varied[chosen] = _in_mode(numbers[chosen], mode)
    return varied.to(rows.dtype)


def _in_mode(rows: torch.Tensor, mode: int) -> torch.Tensor:
    if mode == LOWEST:
        return rows.amin(-1, keepdim=True).expand_as(rows)
    if mode == HIGHEST:
        return rows.amax(-1, keepdim=True).expand_as(rows)
    if mode == ONE:
        return rows[:, :1].expand_as(rows)
    if mode in (RISING, FALLING):
        return rows.sort(-1, descending=mode == FALLING).values
    ends = rows.amin(-1, keepdim=True) if mode == MORE_LOW else rows.amax(-1, keepdim=True)
    share = torch.rand(rows.shape[0], 1, device=rows.device)
    return torch.where(torch.rand(rows.shape, device=rows.device) < share, ends, rows)


def _of_few_values(tensor: torch.Tensor) -> bool:
    """Masks and labels in floating point."""
    if not tensor.is_floating_point() or tensor.dtype.itemsize == 1:
        return False
    head = tensor.reshape(-1)[:4096].float()
    return not bool(head.isnan().any()) and len(torch.unique(head)) < min(FEW_VALUES, head.numel() // 2 + 1)


def _is_square_and_structured(tensor: torch.Tensor) -> bool:
    if tensor.dim() < 2 or tensor.shape[-1] != tensor.shape[-2] or tensor.shape[-1] < 2:
        return False
    if torch.equal(tensor, tensor.transpose(-1, -2)):
        return True
    size = tensor.shape[-1]
    above = torch.ones(size, size, dtype=torch.bool, device=tensor.device).triu(1)
    return any(bool((tensor[..., part] == tensor[..., part].flatten()[0]).all()) for part in (above, above.t()))
