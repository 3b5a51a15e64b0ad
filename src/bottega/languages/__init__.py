"""Kernel languages, one file each: how a language is recognised, built, guarded and explained in a prompt.

Records keep a language by its name; every other package asks the object behind that name and compares no names.
"""

from bottega.languages.language import Language
from bottega.languages.registry import (
    LANGUAGES,
    candidate_from,
    choose_language,
    default_language,
    detect_language,
    every_language,
    index_bit,
    kernel_languages,
    language_named,
    library_language,
    snippet_language,
    use_language,
)

__all__ = [
    "LANGUAGES",
    "Language",
    "candidate_from",
    "choose_language",
    "default_language",
    "detect_language",
    "every_language",
    "index_bit",
    "kernel_languages",
    "language_named",
    "library_language",
    "snippet_language",
    "use_language",
]
