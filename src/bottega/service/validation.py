"""What is wrong with a request, as sentences: which field, and what is allowed there. pydantic's own words speak of Python's types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bottega.core.settings import section_of
from bottega.service.requests import VerdictBody

MOST_TOLD = 5
ALLOWED = {
    "missing": "is missing",
    "json_invalid": "is no valid JSON: {error}",
    "model_type": "must be a JSON object",
    "model_attributes_type": "must be a JSON object",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "string_type": "must be a text",
    "string_unicode": "must be valid Unicode",
    "string_too_long": "may have {max_length} characters at most",
    "string_too_short": "must have {min_length} characters at least",
    "string_pattern_mismatch": "must match {pattern}",
    "too_short": "must have {min_length} items at least",
    "too_long": "may have {max_length} items at most",
    "literal_error": "must be {expected}",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be {ge} or more",
    "less_than": "must be below {lt}",
    "less_than_equal": "must be {le} or less",
    "value_error": "{error}",
}


def sentences(errors: Sequence[Mapping[str, Any]]) -> str:
    """Of the first few; what FastAPI's errors of validation say, in words."""
    told = [_sentence(each) for each in errors[:MOST_TOLD]]
    if len(errors) > MOST_TOLD:
        told.append(f"and {len(errors) - MOST_TOLD} more")
    return "; ".join(dict.fromkeys(told))


def _sentence(error: Mapping[str, Any]) -> str:
    place, *names = (str(part) for part in error["loc"])
    if error["type"] == "json_invalid" or not names:
        name = "the body" if place == "body" else place
    elif place == "query":
        name = f"?{'.'.join(names)}"
    else:
        name = ".".join(names)
    if error["type"] == "extra_forbidden":
        return f"{name}: there is no such field{_beside(names[:-1])}"
    wanted = ALLOWED.get(error["type"], "{msg}")
    values = {key: _shown(value) for key, value in {"msg": error["msg"], **(error.get("ctx") or {})}.items()}
    return f"{name}: {wanted.format(**values)}"


def _beside(names: Sequence[str]) -> str:
    """The fields that there are in its place. All bodies are parts of a request for a verdict."""
    section: Any = VerdictBody
    for name in names:
        field = section.model_fields.get(name)
        section = None if field is None else section_of(field.annotation)
        if section is None:
            return ""
    return f"; allowed are {', '.join(section.model_fields)}"


def _shown(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value
