"""Lazy advice: cards that tell a writer to hand the work back, or to leave it undone, teach nothing and are refused.

A card may say that a library call stays where it wins; what it may not do is make that call its technique. So the patterns look
for an advising verb beside the thing it hands the work to, and advice that is negated ("never fall back to …") is none.
"""

from __future__ import annotations

import re

_ADVISE = r"\b(?:use|apply|call|add|enable|try|rely on|depend on|delegate to|switch to|hand \w+ (?:over |back )?to|leave .{0,30}?\bto)"
_QUOTE = r"[`'\"]*"
_VENDOR = r"(?:cublas\w*|cudnn|cutlass|mkl|mkl-?dnn|onednn|rocblas|miopen)\b"
_TORCH = r"(?:eager|pytorch|torch|aten|the reference|the original|native)\b"
_RESULT = r"(?:result|output|answer|tensor)s?\b"

_LAZY: dict[str, tuple[str, ...]] = {
    "leaves the work to torch.compile": (
        rf"{_ADVISE}\s+{_QUOTE}(?:@?torch\.)(?:compile|jit)\b",
        rf"\bwrap\b.{{0,60}}\btorch\.(?:compile|jit)\b|@\s*torch\.compile\b|\btorch\.compile\s*\(|\bwith\s+{_QUOTE}torch\.compile",
    ),
    "leaves the work to a vendor's library": (rf"{_ADVISE}\s+(?:the\s+)?(?:vendor'?s?\s+|tuned\s+)?{_QUOTE}{_VENDOR}",),
    "falls back to torch": (
        rf"\b(?:fall(?:s|ing)?[ -]?back|revert|defer|go back|hand (?:it )?back)\s+to\s+(?:the\s+)?{_QUOTE}{_TORCH}",
    ),
    "leaves the work to torch": (
        r"\b(?:use|call|keep|just)\s+(?:the\s+)?(?:(?:built-?in|native|original|existing|standard)\s+)+"
        r"(?:pytorch|torch|aten)\s+(?:operator|op|function|implementation|kernel)s?\b",
        rf"\b(?:simply|just|only)\s+(?:use|call)\s+{_QUOTE}(?:torch|F|nn)\.",
    ),
    "leaves the computation out": (
        r"\b(?:skip|omit|leave out)\s+(?:the\s+)?(?:whole\s+|entire\s+|expensive\s+)?"
        r"(?:computation|calculation|work|operation|forward pass|kernel)\b",
    ),
    "returns an old result": (
        rf"\b(?:return|reuse)\s+(?:a\s+|the\s+)?(?:cached|memoi[sz]ed|stored|previous|earlier)\s+{_RESULT}",
        rf"\b(?:cache|memoi[sz]e)\s+(?:the\s+)?(?:final\s+)?{_RESULT}",
    ),
    "replays a captured graph": (
        r"\b(?:capture|replay)\b.{0,60}\bcuda ?graphs?\b",
        r"\bcuda ?graphs?\b.{0,60}\b(?:capture|replay)|torch\.cuda\.(?:graph|CUDAGraph)\b",
    ),
    "writes the answer down": (r"\b(?:hard-?code|embed)\s+(?:the\s+)?(?:expected\s+)?(?:output|answer|result)s?\b",),
    "lowers the precision": (
        r"\b(?:lower|reduce|relax|downgrade)\s+(?:the\s+)?(?:precision|accuracy|tolerance)\b(?!.{0,80}\b(?:allow|permit|only|where|when))",
    ),
}

_PATTERNS = [(re.compile(text, re.IGNORECASE | re.DOTALL), why) for why, texts in _LAZY.items() for text in texts]
_NEGATED = re.compile(
    r"\b(?:never|not|no|don't|without|instead of|rather than|avoid|avoids|cannot)\W+(?:\w+\W+){0,3}$", re.IGNORECASE
)


def lazy_advice(text: str) -> str | None:
    """Why the text is lazy advice, with the words that say so; nothing when it is not."""
    for pattern, why in _PATTERNS:
        for match in pattern.finditer(text):
            if not _NEGATED.search(text[: match.start()][-120:]):
                return f"{why} ({' '.join(match.group().split())[:80]!r})"
    return None
