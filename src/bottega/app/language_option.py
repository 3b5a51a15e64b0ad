"""How the commands explain the setting `language`."""

from __future__ import annotations

from bottega.languages import default_language, kernel_languages

LANGUAGE_NAMES = ", ".join(language.name for language in kernel_languages())
LANGUAGE_HELP = (
    f"{LANGUAGE_NAMES}, or module:Name; {default_language('cpu').name} on a CPU, {default_language('cuda').name} on a GPU."
)
