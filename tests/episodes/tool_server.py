"""A real HTTP server that calls tools by the OpenAI protocol, one after the other, and refuses a conversation that does not answer each call."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Work = Sequence[tuple[str, dict[str, str]]]
"""Names and arguments of the tools that it calls."""


class ToolServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, work: Work, stop_at: int | None = None) -> None:
        """`stop_at`: the step at which it is silent until `hold` is set."""
        super().__init__(("127.0.0.1", 0), _Handler)
        self.work, self.stop_at = work, stop_at
        self.requests: list[dict[str, Any]] = []
        self.hold = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    @property
    def told(self) -> dict[int, str]:
        """By step: what its tool returned, as the last request says it."""
        last = self.requests[-1]["messages"]
        return {int(message["tool_call_id"][5:]): message["content"] for message in last if message["role"] == "tool"}

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that are killed hang up."""


class _Handler(BaseHTTPRequestHandler):
    server: ToolServer

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        step = sum(message["role"] == "assistant" for message in asked["messages"])
        self.server.requests.append(asked)
        if self.server.stop_at == step:
            self.server.hold.wait(120)
        called = [call["id"] for message in asked["messages"] for call in message.get("tool_calls") or ()]
        answered = [message["tool_call_id"] for message in asked["messages"] if message["role"] == "tool"]
        known = {tool["function"]["name"] for tool in asked.get("tools", ())}
        name, arguments = self.server.work[step]
        if called != answered or name not in known:
            self._send(400, {"error": {"message": f"{called} were answered by {answered}; {name} is none of {known}"}})
            return
        call = {"id": f"call_{step}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        self._send(200, {"choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}], "usage": usage})

    def _send(self, status: int, value: dict[str, Any]) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serving(work: Work, stop_at: int | None = None) -> Iterator[ToolServer]:
    server = ToolServer(work, stop_at)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield server
    finally:
        server.hold.set()
        server.shutdown()
        server.server_close()
