"""A real HTTP server that answers like a chat-completions endpoint and misbehaves on command, one command for each request."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar


class Misbehaving(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, commands: list[Command], afterwards: Command | None = None) -> None:
        """`afterwards`: what every request gets for which no command is left, in place of a plain answer."""
        super().__init__(("127.0.0.1", 0), Handler)
        self.commands, self.afterwards = list(commands), afterwards or answer()
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.arrivals: list[float] = []
        self.in_flight = self.most_in_flight = 0
        self.lock = threading.Condition()
        self.over = threading.Event()
        self.healthy = True
        self.started = 0
        """When its process began, as its metrics tell it; 0 where they do not."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up are what these tests are about."""


class Handler(BaseHTTPRequestHandler):
    server: Misbehaving
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        """For its health, and for its metrics."""
        if self.path == "/metrics" and self.server.started:
            self.send(
                200,
                f"# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds {self.server.started}\n",
                "text/plain",
            )
            return
        self.send(200 if self.server.healthy else 503, "{}")

    def do_POST(self) -> None:
        server = self.server
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with server.lock:
            server.requests.append(asked)
            server.headers.append({name.lower(): value for name, value in self.headers.items()})
            server.arrivals.append(time.monotonic())
            server.in_flight += 1
            server.most_in_flight = max(server.most_in_flight, server.in_flight)
            server.lock.notify_all()
            command = server.commands.pop(0) if server.commands else server.afterwards
        try:
            command(self)
        finally:
            with server.lock:
                server.in_flight -= 1

    def send(self, status: int, body: str, kind: str = "application/json", **headers: str) -> None:
        with self.server.lock:  # the client may ask again before this thread is back: the request is over once it is answered
            self.server.in_flight -= 1
        try:
            self.send_response(status)
            for name, value in {"content-type": kind, "content-length": str(len(body.encode())), **headers}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(body.encode())
        finally:
            with self.server.lock:
                self.server.in_flight += 1

    def log_message(self, format: str, *args: object) -> None:
        pass


Command = Callable[[Handler], None]
Server = TypeVar("Server", bound=Misbehaving)


def misbehaving(*commands: Command) -> AbstractContextManager[Misbehaving]:
    return serving(Misbehaving(list(commands)))


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()


def completion(
    text: str | None = "fine", prompt: int = 10, output: int = 5, finish: str = "stop", **message: Any
) -> dict[str, Any]:
    return {
        "choices": [{"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text, **message}}],
        "usage": {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output},
    }


def answer(text: str | None = "fine", **keywords: Any) -> Command:
    return lambda handler: handler.send(200, json.dumps(completion(text, **keywords)))


def body(value: Any) -> Command:
    """Any JSON with status 200."""
    return lambda handler: handler.send(200, json.dumps(value))


def error(status: int, message: str = "no", code: str | None = None, **headers: str) -> Command:
    return lambda handler: handler.send(status, json.dumps({"error": {"message": message, "code": code}}), **headers)


def page(
    status: int = 200, text: str = "<html><script>evil()</script><body><h1>Welcome to nginx</h1></body></html>"
) -> Command:
    return lambda handler: handler.send(status, text, "text/html")


def hang(handler: Handler) -> None:
    handler.server.over.wait(30)


def break_off(handler: Handler) -> None:
    """Promise a thousand bytes, send some, and hang up."""
    handler.send_response(200)
    handler.send_header("content-length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [{"mess')
    handler.close_connection = True


def endless(handler: Handler) -> None:
    """Never quiet for long enough that a time out between two bytes would help."""
    handler.send_response(200)
    handler.send_header("transfer-encoding", "chunked")
    handler.end_headers()
    with suppress(OSError):
        while not handler.server.over.wait(0.02):
            handler.wfile.write(b"1\r\n \r\n")
            handler.wfile.flush()


def together(count: int, then: Command | None = None) -> Command:
    """Answer once this many requests are under way."""

    def command(handler: Handler) -> None:
        server = handler.server
        with server.lock:
            server.lock.wait_for(lambda: server.most_in_flight >= count, timeout=60)
        time.sleep(0.02)  # one too many would come now
        (then or answer())(handler)

    return command


def slowly(command: Command, seconds: float = 0.02) -> Command:
    def later(handler: Handler) -> None:
        time.sleep(seconds)
        command(handler)

    return later


def answer_and_die(handler: Handler) -> None:
    """The last answer: nobody listens afterwards."""
    handler.server.socket.close()
    handler.close_connection = True
    answer("last words")(handler)
