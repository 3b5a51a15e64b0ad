"""Calls and results as plain descriptions: whether a call is like a judged one, and how a kernel's tensors become the original's result."""

import importlib
import inspect
import sys
from typing import Any

import torch
from torch import nn

from bottega.episodes.delivery.drop_in.state import ALIGNMENT


def named_places(module: nn.Module, keywords: Any) -> tuple[list[Any], list[Any]]:
    """The places of a call, positional ones and these keywords: each name with its default in a list, an empty list where it has none."""
    try:
        parameters = inspect.signature(module.forward).parameters
    except (ValueError, TypeError):
        parameters = {}  # type: ignore[assignment]
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    defaults = {name: [] if each.default is each.empty else [each.default] for name, each in parameters.items()}
    positional = [(name, defaults[name]) for name, each in parameters.items() if each.kind in kinds and name not in keywords]
    return positional, [(name, defaults.get(name, [])) for name in keywords]


def in_place(arguments: Any, options: Any, names: list[Any], keywords: Any, most: int) -> Any:
    """A call as it would be with the fewest keywords and its defaults written out, the values of keywords last; None where one has no place.
    What is given beyond the judged arguments and is its default is left out."""
    row, used = list(arguments), 0
    while len(row) > most and len(row) <= len(names) and is_default(row[-1], names[len(row) - 1][1]):
        row.pop()
    for name, default in [*names[len(row) : most], *keywords]:
        if name in options:
            row.append(options[name])
            used += 1
        elif default:
            row.append(default[0])
        else:
            break
    beyond = dict(names[most:])
    used += sum(1 for name in options if name in beyond and is_default(options[name], beyond[name]))
    return tuple(row) if used == len(options) else None


def without_place(options: Any, names: list[Any], keywords: Any, most: int) -> str:
    """The keywords of a call for which `in_place` has none."""
    judged, beyond = {name for name, _ in (*names[:most], *keywords)}, dict(names[most:])
    left = [name for name in options if name not in judged]
    return ", ".join(name for name in left if name not in beyond or not is_default(options[name], beyond[name]))


def side_by_side(value: Any) -> Any:
    """Arguments as the judge hands them over: tensors whose elements do not lie side by side (an expanded mask, a slice) as copies."""
    if type(value) in (tuple, list):
        return type(value)(map(side_by_side, value))
    if type(value) is dict:
        return {key: side_by_side(item) for key, item in value.items()}
    if type(value) is not torch.Tensor or value.layout is not torch.strided or value.is_contiguous():
        return value
    extent = 1
    for stride, size in sorted(zip(value.stride(), value.shape)):
        if size > 1 and stride != extent:
            return value.contiguous()
        extent *= size
    return value


def is_default(value: Any, default: list[Any]) -> bool:
    return bool(default) and (
        value is default[0] or (type(value) in (bool, int, float, str) and repr(value) == repr(default[0]))
    )


def prepared(form: Any) -> Any:
    """A form as pairs of kind and content, with data types as torch has them: what is looked at in every call must be quick."""
    ((kind, content),) = form.items()
    if kind == "tensor":
        dtype, shape, stride = content
        return kind, (getattr(torch, dtype.removeprefix("torch.")), shape, stride)
    if kind in ("tuple", "list"):
        return kind, tuple(prepared(item) for item in content)
    if kind == "dict":
        return kind, tuple((key, prepared(item)) for key, item in content)
    if kind in ("fields", "named"):
        where, name, entries = content
        return kind, (where, name, tuple((key, prepared(item)) for key, item in entries))
    return kind, content


def form_mismatch(value: Any, form: Any, seen: list[torch.Tensor]) -> str:
    """How a value differs from the form that it had when the kernel was judged; its tensors are put into `seen`."""
    kind, wanted = form
    if kind == "tensor":
        return tensor_form_mismatch(value, wanted, seen)
    if kind in ("tuple", "list"):
        if not isinstance(value, tuple if kind == "tuple" else list) or len(value) != len(wanted):
            return "other arguments" if isinstance(value, tuple | list) else f"a {type(value).__name__} where a {kind} was"
        for item, part in zip(value, wanted):
            if part[0] == "tensor":
                reason = tensor_form_mismatch(item, part[1], seen)
            else:
                reason = form_mismatch(item, part, seen)
            if reason:
                return reason
        return ""
    if kind == "dict":
        if not isinstance(value, dict) or list(value) != [key for key, _ in wanted]:
            return "another dictionary"
        return next((reason for key, part in wanted if (reason := form_mismatch(value[key], part, seen))), "")
    if kind == "type":
        return "" if type(value).__name__ == wanted else f"a {type(value).__name__} where a {wanted} was"
    same = type(value) is type(wanted) and value == wanted and (value != 0 or repr(value) == repr(wanted))
    return "" if same else f"{_shown(value)} where {wanted!r} was"


def _shown(value: Any) -> str:
    """No contents of tensors or objects: looking at them takes longer than the call."""
    return repr(value) if value is None or isinstance(value, bool | int | float | str) else f"a {type(value).__name__}"


def tensor_form_mismatch(value: Any, wanted: Any, seen: list[torch.Tensor]) -> str:
    if type(value) is not torch.Tensor and type(value) is not nn.Parameter:
        return f"a {type(value).__name__} where a tensor was"
    dtype, shape, stride = wanted
    if value.shape != shape:
        return f"shape {tuple(value.shape)} where {shape} was"
    if value.dtype is not dtype:
        return f"{value.dtype} where {dtype} was"
    if value.layout is not torch.strided or value.is_conj() or value.is_neg():
        return "another memory layout"
    if value.stride() != stride and any(size > 1 and a != b for size, a, b in zip(shape, value.stride(), stride)):
        return "another memory layout"
    try:
        if value.data_ptr() % ALIGNMENT and value.numel():
            return "a tensor that is not aligned"
    except RuntimeError:  # a tensor that stands for something else, as in functorch
        return "a tensor without memory of its own"
    seen.append(value)
    return ""


def fitting(value: Any, form: Any, seen: list[Any]) -> bool:
    """Whether a call has a form, by what a compiler knows while it traces; its tensors are put into `seen`."""
    kind, wanted = form
    if kind == "tensor":
        if not isinstance(value, torch.Tensor) or tuple(value.shape) != wanted[1] or value.dtype != wanted[0]:
            return False
        seen.append(value)
        return True
    if kind in ("tuple", "list"):
        if not isinstance(value, tuple | list) or len(value) != len(wanted):
            return False
        return all(fitting(item, part, seen) for item, part in zip(value, wanted))
    if kind == "dict":
        if not isinstance(value, dict) or list(value) != [key for key, _ in wanted]:
            return False
        return all(fitting(value[key], part, seen) for key, part in wanted)
    return kind == "value" and type(value) is type(wanted) and value == wanted


def filled(form: Any, leaves: Any, classes: Any) -> Any:
    """A value of this form with the next of `leaves` in the place of each tensor. `classes`: of what is no plain container."""
    kind, content = form
    if kind == "tensor":
        return next(leaves)
    if kind in ("tuple", "list"):
        items = [filled(part, leaves, classes) for part in content]
        return tuple(items) if kind == "tuple" else items
    if kind == "dict":
        return {key: filled(part, leaves, classes) for key, part in content}
    if kind in ("fields", "named"):
        where, name, entries = content
        return classes[where, name](**{key: filled(part, leaves, classes) for key, part in entries})
    return content


def leaves_of(value: Any, form: Any) -> list[torch.Tensor]:
    """The tensors of a result, in the order of the form; a kernel may give a dictionary where the original gives an object with fields."""
    kind, content = form
    if kind == "tensor":
        return [value]
    if kind in ("tuple", "list"):
        return [leaf for item, part in zip(value, content, strict=True) for leaf in leaves_of(item, part)]
    if kind == "named":
        return [leaf for item, (_, part) in zip(value, content[2], strict=True) for leaf in leaves_of(item, part)]
    if kind in ("dict", "fields"):
        entries = content if kind == "dict" else content[2]
        found = [(value[key] if isinstance(value, dict) else getattr(value, key), part) for key, part in entries]
        return [leaf for item, part in found for leaf in leaves_of(item, part)]
    return []


def specs_of(form: Any) -> list[Any]:
    """The tensors of a form: data type, shape and strides of each."""
    kind, content = form
    if kind == "tensor":
        return [content]
    if kind in ("fields", "named"):
        content = content[2]
    if kind in ("dict", "fields", "named"):
        content = [part for _, part in content]
    return [spec for part in content for spec in specs_of(part)] if isinstance(content, tuple | list) else []


def as_laid_out(value: Any, form: Any, specs: list[Any], classes: Any) -> Any:
    """A kernel's result in the layout of the original's, which its callers may rely on, and as the original's classes. Where strides differ the judge
    charged the kernel with a copy."""
    if len(specs) == 1 and value.__class__ is torch.Tensor and form[0] == "tensor":
        return value if value.stride() == specs[0][2] else laid_out(value, specs[0])
    leaves = leaves_of(value, form)
    found = [each if each.stride() == spec[2] else laid_out(each, spec) for each, spec in zip(leaves, specs)]
    if not classes and all(new is old for new, old in zip(found, leaves)):
        return value
    return filled(form, iter(found), classes)


def laid_out(tensor: torch.Tensor, spec: Any) -> torch.Tensor:
    _, shape, stride = spec
    same = tensor.numel() == 0 or all(size == 1 or a == b for size, a, b in zip(shape, tensor.stride(), stride))
    if same or tuple(tensor.shape) != tuple(shape):
        return tensor
    return torch.empty_strided(shape, stride, dtype=tensor.dtype, device=tensor.device).copy_(tensor)


def classes_of(form: Any, original: Any) -> dict[Any, Any]:
    """The classes that a result of this form needs. What the module's own file defined is looked up where the original's class is."""
    kind, content = form
    found: dict[Any, Any] = {}
    if kind in ("fields", "named"):
        where, name, content = content
        home = sys.modules[type(original).__module__] if where == "task" else importlib.import_module(where)
        made: Any = home
        for part in name.split("."):
            made = getattr(made, part)
        found[where, name] = made
    if kind in ("dict", "fields", "named"):
        content = [part for _, part in content]
    for part in content if kind in ("tuple", "list", "dict", "fields", "named") else ():
        found.update(classes_of(part, original))
    return found
