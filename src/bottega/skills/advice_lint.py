"""Detects lazy advice: cards that tell a writer to call the library function or to skip the work are refused.

A card may say that a library call stays where it wins; what it may not do is make that call its technique. So the patterns look
for an advising verb beside the thing it hands the work to. Advice that is negated ("never fall back to …") is none, nor is a
comparison ("1.3x over torch.compile").
"""

from __future__ import annotations

import re

_ADVISE = r"\b(?:use|apply|call|let|add|enable|try|rely on|depend on|delegate to|switch to|hand \w+ (?:over |back )?to|leave .{0,30}?\bto)"
_QUOTE = r"[`'\"]*"
_VENDOR = r"(?:cublas\w*|cudnn|cutlass|mkl|mkl-?dnn|onednn|rocblas|miopen)\b"
_TORCH = r"(?:eager|pytorch|torch|aten|the reference|the original|native)\b"
_RESULT = r"(?:result|output|answer|tensor)s?\b(?!\s+(?:tile|block|row|column|element|value|ind|pointer|vector|line|slice|panel|chunk|bit))"
_PART = r"(?!\s+(?:of|on|in|launch|call|where|outside|beyond|above|below|past)\b)"
"""What follows when only a piece is meant: the work of masked tiles may well be skipped."""

_LAZY: dict[str, tuple[str, ...]] = {
    "leaves the work to torch.compile": (
        rf"{_ADVISE}\s+{_QUOTE}(?:@?torch\.)(?:compile|jit)\b",
        rf"\bwrap\b.{{0,60}}\btorch\.(?:compile|jit)\b|@\s*torch\.compile\b|\btorch\.compile\(|\bwith\s+{_QUOTE}torch\.compile",
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
        rf"(?:computation|calculation|work|operation|forward pass|kernel)\b{_PART}",
    ),
    "returns an old result": (
        rf"\b(?:return|reuse)\s+(?:a\s+|the\s+)?(?:cached|memoi[sz]ed|stored|previous|earlier)\s+{_RESULT}",
        rf"\b(?:cache|memoi[sz]e)\s+(?:the\s+)?(?:final\s+)?{_RESULT}",
    ),
    "replays a captured graph": (
        r"\b(?:capture|replay)\b.{0,60}\bcuda ?graphs?\b",
        r"\bcuda ?graphs?\b.{0,60}\b(?:capture|replay)|torch\.cuda\.(?:graph|CUDAGraph)\b",
    ),
    "writes the answer down": (rf"\b(?:hard-?code|embed)\s+(?:the\s+)?(?:expected\s+)?{_RESULT}",),
    "lowers the precision": (
        r"\b(?:lower|reduce|relax|downgrade)\s+(?:the\s+)?(?:precision|accuracy|tolerance)\b(?!\s+loss|.{0,80}\b(?:allow|permit|only|where|when))",
    ),
}

_PATTERNS = [(re.compile(text, re.IGNORECASE | re.DOTALL), why) for why, texts in _LAZY.items() for text in texts]
_NEGATED = re.compile(
    r"(?:\b(?:never|not|no|nor|neither|nothing|none|without|instead of|rather than|avoid|avoids|avoiding|cannot)|n't)"
    r"[\s,*`'\"(]+(?:\w+[\s,*`'\")]+){0,3}$",
    re.IGNORECASE,
)
_COMPARED = re.compile(
    r"\b(?:than|over|versus|vs\.?|unlike|beats?|outperforms?|against|compared)[\s*`'\"]+(?:to |with |plain )?$", re.IGNORECASE
)
_URGED = re.compile(r"\b(?:why not|not (?:only|just|hesitate)|no (?:doubt|harm|reason not))\b[^.;:!?]*$", re.IGNORECASE)


def lazy_advice(text: str) -> str | None:
    """Why the text is lazy advice, with the words that say so; nothing when it is not."""
    for pattern, why in _PATTERNS:
        for match in pattern.finditer(text):
            before = text[max(0, match.start() - 120) : match.start()]
            negated = _NEGATED.search(before) and not _URGED.search(before)
            if not negated and not _COMPARED.search(before):
                return f"{why} ({' '.join(match.group().split())[:80]!r})"
    return None
