"""Languages by name, by device and by the text of a candidate: the built-in ones, the installed ones, and those named as `module:Name`."""

from __future__ import annotations

import warnings
from contextlib import suppress
from functools import cache
from zlib import crc32

from bottega.core.candidate import SOURCE_LIMIT, Candidate
from bottega.core.errors import UsageError
from bottega.core.plugins import Plugins
from bottega.languages.language import Language

LANGUAGES = Plugins(
    "languages",
    "language",
    {
        "cpp": "bottega.languages.cpp:Cpp",
        "triton": "bottega.languages.triton:Triton",
        "cuda": "bottega.languages.cuda:Cuda",
        "gluon": "bottega.languages.gluon:Gluon",
        "torch": "bottega.languages.torch:Torch",
    },
)
_NAMED: dict[str, Language] = {}
"""Those that were asked for as `module:Name`, which is their name then: texts are recognised as theirs too."""


def language_named(name: str) -> Language:
    """By the name that records have. Raises `UsageError` where there is none.

    A `module:Name` is found only after `use_language`: records, results and cards may be a stranger's, and must not have modules imported.
    """
    if name in _NAMED:
        return _NAMED[name]
    if name not in LANGUAGES.names and ":" in name:
        raise UsageError(f"the language {name} is a module's that was not asked for here; name it with language={name}")
    return _loaded(name)


def use_language(name: str) -> Language:
    """What the user has named, also as `module:Name`, which is imported."""
    if name not in LANGUAGES.names and name not in _NAMED:
        language = _loaded(name)
        language.name = name  # records must name it so that any process finds it again
        _NAMED[name] = language
    return language_named(name)


@cache
def _loaded(name: str) -> Language:
    made = LANGUAGES.load(name)
    language = made() if isinstance(made, type) else made
    if not isinstance(language, Language):
        raise UsageError(f"{name}: is no Language; subclass bottega.languages.Language")
    return language


def every_language() -> tuple[Language, ...]:
    """Also the installed ones; one that cannot be imported is left out with a warning."""
    return (*_found(), *(language for language in _NAMED.values() if language not in _found()))


@cache
def _found() -> tuple[Language, ...]:
    found = []
    for name in LANGUAGES.names:
        try:
            found.append(language_named(name))
        except UsageError as error:
            warnings.warn(str(error), stacklevel=2)
    return tuple(found)


def kernel_languages() -> tuple[Language, ...]:
    """Those that kernels are written in."""
    return tuple(language for language in every_language() if language.has_kernels)


def default_language(device: str) -> Language:
    """What kernels for a device are written in when no language is asked for."""
    kind = device.partition(":")[0]
    found = [language for language in every_language() if language.is_default and kind in language.devices]
    if not found:
        raise UsageError(f"unknown device {device!r}; use cpu, cuda or cuda:N")
    return found[0]


def library_language() -> Language:
    """What the kernel library is written in."""
    return next(language for language in every_language() if language.kernel_library)


def choose_language(name: str | None, device: str) -> str:
    """What a user asked for, or the device's default. Raises `UsageError` where its kernels cannot be timed on that device."""
    if name is None:
        return default_language(device).name
    language, kind = use_language(name), device.partition(":")[0]
    if not language.has_kernels:
        raise UsageError(f"{name}: no kernels are written in it; use {', '.join(known.name for known in kernel_languages())}")
    if kind not in language.devices:
        raise UsageError(
            f"{name} kernels cannot be timed on {kind}; use language={default_language(kind).name}, or --device {language.devices[0]}"
        )
    return name


def detect_language(source: str) -> str:
    """A hint from the text alone: it picks the tool chain and the wording of a diagnosis, never a verdict."""
    text = source[:SOURCE_LIMIT]
    ranked = sorted(every_language(), key=lambda language: -language.precedence)
    return next(language.name for language in ranked if language.recognises(text))


def snippet_language(text: str, device: str) -> Language:
    """The language of a piece of code, or of prose about it, where the device is known: its default unless another one shows."""
    usual = default_language(device)
    if usual.recognises_snippet(text):
        return usual
    others = (language for language in kernel_languages() if device in language.devices and language.recognises_snippet(text))
    return next(others, usual)


def index_bit(name: str) -> int:
    """Also of a language that is not installed here: a library may come from a machine where it is."""
    fixed = language_named(name).index_bit if name in LANGUAGES.names else 0
    return fixed or 1 << (10 + crc32(name.encode()) % 50)


def warm_compilers() -> None:
    """Make every compiler ready. What fails is left to the candidate's process, which meets it again."""
    for language in every_language():
        with suppress(Exception):
            language.warm()


def candidate_from(source: str, name: str = "candidate", parent: str | None = None) -> Candidate:
    """A candidate whose language is recognised by its text."""
    return Candidate(source, detect_language(source), name, parent)
