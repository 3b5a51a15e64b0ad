"""Lazy advice is refused with its reason; honest cards may name what they beat, warn of, or do without."""

from __future__ import annotations

import pytest

from bottega.skills.advice_lint import lazy_advice
from bottega.skills.starter import starter_cards

LAZY = {
    "torch.compile": """Use torch.compile.
Wrap the module in torch.compile for speed
Decorate forward with @torch.compile
Use `torch.compile` with max-autotune
model = torch.compile(model)
Let torch.compile fuse the chain.
apply torch.jit.script to the loop
Do not hesitate to use torch.compile.
Why not use torch.compile here?
There is no doubt: use torch.compile.
It is not only elegant to use torch.compile.""",
    "vendor": """Simply call cuBLAS for the matrix product.
call the vendor's cuDNN
Delegate to cuBLAS.
leave the matmul to cuBLAS
rely on cuDNN
Use cublasLt
Let cuBLAS do it
switch to CUTLASS
hand it over to oneDNN
No. Use cuBLAS.
Use MKL""",
    "falls back": """Fall back to PyTorch when the shape is odd
falling back to eager is fine
revert to the reference""",
    "to torch": """Just use torch.softmax
simply call F.softmax
Use the native PyTorch operator
keep the existing torch implementation""",
    "out": """Skip the computation when inputs repeat.
omit the expensive operation
leave out the kernel""",
    "old": """Return the cached result.
memoize the output
reuse the previous output""",
    "graph": """Capture a CUDA graph and replay it
use torch.cuda.graph(g)""",
    "down": """Hardcode the expected output
embed the answer""",
    "precision": """Reduce the precision to fp16.
lower the tolerance""",
}
HONEST = """Never fall back to eager
Do not use torch.compile; it hides the launch.
Do **not** use torch.compile here.
Don't call cuBLAS for 8 rows
This doesn't use cuBLAS.
A kernel that isn't allowed to call cuBLAS
neither call cuBLAS nor cuDNN
Nothing here needs to fall back to torch
You must not, under any circumstances, use torch.compile
without having to rely on cuDNN
Instead of calling cuBLAS, tile by hand
rather than use cuDNN, do it directly
Avoid falling back to PyTorch.
Unlike torch.compile, the epilogue is fused
1.3x over torch.compile (default mode) on small rows
Beats torch.compile(mode='max-autotune') on small rows
2x compared with torch.compile
faster than cuBLAS below 32 rows
Where cuBLAS wins, stay away.
cuBLAS already uses this layout; match it
A call to torch.compile would not fuse this.
The reference calls torch.softmax; we replace it
Use tensor cores directly: cuBLAS is slower for skinny shapes
Skip masked tiles
skip the work of tiles above the diagonal
Skip the operation on padded rows
skip the kernel launch for empty inputs
cache the output tile in shared memory
Keep the running maximum and reuse the stored tile
embed the result index in the low bits
Lower the precision only where the task allows it
reduce the precision loss with Kahan summation
capture the maximum per row"""
HOSTILE = [
    *(
        f"{word} " * (2400 // (len(word) + 1))
        for word in ("use", "leave", "hand", "not", "wrap", "skip", "capture", "lower", "the")
    ),
    *("use" + sign * 2390 for sign in " \t\n`'(_"),
    *(
        phrase * (2400 // len(phrase))
        for phrase in ("use the ", "cuda graph ", "not use cublas ", "just use the native native ")
    ),
    *(sign * 2400 for sign in "a *(\\\n"),
    "leave " + "x " * 1190 + "to",
    "never " * 400 + "x",
]


@pytest.mark.parametrize(("why", "text"), [(why, text) for why, texts in LAZY.items() for text in texts.splitlines()])
def test_lazy_advice_is_found_and_quoted(why: str, text: str) -> None:
    found = lazy_advice(text)
    assert found is not None and why in found
    quoted = found.partition("(")[2][1:-2]
    assert " ".join(quoted.split()).lower() in " ".join(text.split()).lower()


@pytest.mark.parametrize("text", HONEST.splitlines())
def test_honest_words_pass(text: str) -> None:
    assert lazy_advice(text) is None


def test_case_line_breaks_and_long_texts_make_no_difference() -> None:
    assert lazy_advice("USE\n   TORCH.COMPILE")
    assert lazy_advice("Tile the rows. " * 150 + "Use torch.compile." + " Tile the rows." * 8)
    assert lazy_advice("Never use torch.compile. " * 20 + "Or do: use torch.compile.")


@pytest.mark.timeout(60)
def test_no_text_of_a_cards_length_makes_the_patterns_run_away() -> None:
    for text in HOSTILE:
        lazy_advice(text[:2400])


def test_the_starter_cards_are_honest() -> None:
    assert all(lazy_advice(text) is None for card in starter_cards() for text in (card.intent, card.technique))
