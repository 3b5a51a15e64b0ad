"""The page `/docs`: the OpenAPI description as plain HTML. FastAPI's own page fetches its scripts from a CDN; this one fetches nothing."""

from __future__ import annotations

import json
from typing import Any

from bottega.core.foreign_text import html_text

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}"
    "code,pre{font:14px/1.4 ui-monospace,monospace}pre{overflow:auto;padding:.8rem;border:1px solid #8886}"
    "table{border-collapse:collapse}td,th{text-align:left;padding:.2rem .8rem .2rem 0;vertical-align:top}"
)
EXAMPLE = """curl -s -H "Authorization: Bearer $BOTTEGA_TOKEN" -H "Content-Type: application/json" \\
  "http://127.0.0.1:8765/v1/verdicts?wait=60" \\
  -d '{"task": {"id": "builtin:star_relu"}, "candidate": {"source": "class ModelNew: ..."}}'"""


def api_page(schema: dict[str, Any]) -> str:
    """From the schema that `/openapi.json` serves."""
    info = schema["info"]
    parts = [f"<h1>{html_text(info['title'])} {html_text(info['version'])}</h1>", f"<p>{html_text(info['description'])}</p>"]
    parts += [
        f"<pre>{html_text(EXAMPLE)}</pre>",
        '<p>For programs: <a href="/openapi.json">/openapi.json</a>.</p>',
        "<h2>Routes</h2><table>",
    ]
    for path, methods in schema["paths"].items():
        for method, route in methods.items():
            parts.append(_route(method, path, route))
    parts.append("</table><h2>Bodies</h2>")
    for name, model in schema.get("components", {}).get("schemas", {}).items():
        if not name.startswith(("HTTPValidation", "Validation")):
            parts.append(f"<h3>{html_text(name)}</h3><table>{''.join(_fields(model))}</table>")
    return f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Bottega API</title><style>{_STYLE}</style>{"".join(parts)}</html>'


def _route(method: str, path: str, route: dict[str, Any]) -> str:
    asked = [each["name"] for each in route.get("parameters", []) if each["in"] == "query"]
    query = f"?{'&'.join(asked)}" if asked else ""
    body = route.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {}).get("$ref", "")
    told = route.get("summary", "") + (f" Body: {body.rpartition('/')[2]}." if body else "")
    return f"<tr><td><code>{method.upper()}</code></td><td><code>{html_text(path + query)}</code></td><td>{html_text(told)}</td></tr>"


def _fields(model: dict[str, Any]) -> list[str]:
    required = model.get("required", ())
    return [
        f"<tr><td><code>{html_text(name)}</code></td><td>{html_text(_kind(field))}{' (required)' if name in required else ''}</td>"
        f"<td>{html_text(field.get('description', ''))}</td></tr>"
        for name, field in model.get("properties", {}).items()
    ]


def _kind(field: dict[str, Any]) -> str:
    if "anyOf" in field:
        return " or ".join(_kind(each) for each in field["anyOf"])
    if "$ref" in field:
        return str(field["$ref"]).rpartition("/")[2]
    default = f" = {json.dumps(field['default'])}" if "default" in field else ""
    return f"{field.get('type', '')}{default}"
