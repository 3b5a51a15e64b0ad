"""Allocation of cache pages. Prompts with a common prefix share its pages.

All pages that a generation may come to need are set aside when it is taken, so none is ever thrown out in the middle. Full pages of
a prompt are known by what they hold; after their last holder has gone they stay readable until the memory is wanted. In
training, where many answers are sampled to one prompt, that prompt is read once.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass

PAGE = 64
"""Tokens in a page."""

_Key = tuple[int, tuple[int, ...]]
"""Which page comes before it in the prompt, by a number that is never used twice (0: none), and the tokens in it."""


@dataclass(frozen=True)
class HeldPages:
    pages: tuple[int, ...]
    shared: int
    """How many tokens at the beginning have been read already, or will be, by others that were taken before."""


class Pages:
    def __init__(self, count: int) -> None:
        self.count = count
        self._free: deque[int] = deque(range(count))
        self._holders = [0] * count
        self._known: dict[_Key, int] = {}
        self._key: dict[int, _Key] = {}
        self._name: dict[int, int] = {}
        """The numbers of the known pages, as keys of those that follow name them."""
        self._names = 0
        self._idle: OrderedDict[int, None] = OrderedDict()
        """Known pages that nobody holds, the one longest unused first."""

    @property
    def free(self) -> int:
        return len(self._free) + len(self._idle)

    def grow(self, count: int) -> None:
        """There are so many from now on; those in use keep their numbers."""
        self._free.extend(range(self.count, count))
        self._holders.extend([0] * (count - self.count))
        self.count = max(self.count, count)

    def take(self, prompt: tuple[int, ...], length: int) -> HeldPages | None:
        """Pages for `length` tokens that begin with `prompt`, or nothing when there are not enough."""
        common = self._common(prompt)
        fresh = -(-length // PAGE) - len(common)
        if fresh > self.free - sum(self._holders[page] == 0 for page in common):
            return None
        for page in common:
            self._holders[page] += 1
            self._idle.pop(page, None)
        pages = [*common, *(self._fresh() for _ in range(fresh))]
        self._remember(prompt, pages, len(common))
        return HeldPages(tuple(pages), len(common) * PAGE)

    def give(self, held: HeldPages) -> None:
        for page in reversed(held.pages):  # the later pages of a prompt are useless without the earlier ones: they go first
            self._holders[page] -= 1
            if self._holders[page] == 0:
                if page in self._key:
                    self._idle[page] = None
                else:
                    self._free.append(page)

    def forget(self) -> None:
        """What the pages hold was made by other weights: nobody else may read it."""
        self._free.extend(self._idle)
        self._idle.clear()
        self._known.clear()
        self._key.clear()
        self._name.clear()

    def _common(self, prompt: tuple[int, ...]) -> list[int]:
        """Known pages for the beginning of a prompt. Its last token is never among them: what follows it is yet to be computed."""
        found: list[int] = []
        for at in range(0, len(prompt) - PAGE, PAGE):
            page = self._known.get((self._name[found[-1]] if found else 0, prompt[at : at + PAGE]))
            if page is None:
                break
            found.append(page)
        return found

    def _remember(self, prompt: tuple[int, ...], pages: list[int], begin: int) -> None:
        for number in range(begin, len(prompt) // PAGE):
            key = (self._name[pages[number - 1]] if number else 0, prompt[number * PAGE : (number + 1) * PAGE])
            if key in self._known:  # can only be the very page that holds the prompt's last token: it is computed anew
                break
            self._names += 1
            self._known[key], self._key[pages[number]], self._name[pages[number]] = pages[number], key, self._names

    def _fresh(self) -> int:
        if self._free:
            page = self._free.popleft()
        else:
            page, _ = self._idle.popitem(last=False)
            del self._known[self._key.pop(page)], self._name[page]
        self._holders[page] = 1
        return page
