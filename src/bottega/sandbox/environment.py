"""Which variables of the judge's environment a cell may see: an allow list, so that no secret travels by oversight."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import bottega

_NAMES = {"PATH", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "CC", "CXX", "MAX_JOBS"}
_FAMILIES = ("CUDA_", "NVIDIA_", "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "TRITON_", "TORCH_", "PYTORCH_", "TORCHINDUCTOR")
_SECRET_WORDS = ("TOKEN", "SECRET", "PASSW", "CREDENTIAL", "API_KEY")
_FOLDERS_OF_THE_HOST = ("CACHE_DIR", "EXTENSIONS_DIR", "TORCH_HOME", "TRITON_HOME", "DUMP_DIR", "OVERRIDE_DIR")
"""Private in a cell: the default below its own home is right, the host's folder could not be written."""


def scrubbed(environment: Mapping[str, str], added: Mapping[str, str]) -> dict[str, str]:
    """What may pass of `environment`, then `added` as it stands. Bottega itself can always be imported."""
    kept = {
        name: value
        for name, value in environment.items()
        if (name in _NAMES or name.startswith(_FAMILIES))
        and not any(word in name.upper() for word in _SECRET_WORDS)
        and not name.endswith(_FOLDERS_OF_THE_HOST)
    }
    kept.setdefault("PATH", "/usr/local/bin:/usr/bin:/bin")
    kept.setdefault("LANG", "C.UTF-8")
    kept.update(added)
    own_folder = str(Path(bottega.__file__).resolve().parent.parent)
    kept["PYTHONPATH"] = f"{added['PYTHONPATH']}:{own_folder}" if added.get("PYTHONPATH") else own_folder
    return kept
