import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from kboot.host.http import ask


class Echo(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = f'{{"path": "{self.path}"}}'.encode()
        self.send_response(200 if self.path.startswith("/good") else 503)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: object) -> None:
        pass


def served(count: int) -> str:
    """Serve some requests; return the URL."""
    server = HTTPServer(("127.0.0.1", 0), Echo)

    def serve() -> None:
        for _ in range(count):
            server.handle_request()
        server.server_close()

    threading.Thread(target=serve, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def test_an_answer_has_status_and_json() -> None:
    """Path, query and body arrive as they were sent."""
    answer = ask(served(1) + "/good?a=1", 10)

    assert (200, True, {"path": "/good?a=1"}) == (answer.status, answer.ok, answer.json())


def test_a_server_that_is_not_ready_is_an_answer_too() -> None:
    """503 is a status, not an error."""
    answer = ask(served(1) + "/health", 10)

    assert (503, False) == (answer.status, answer.ok)


def test_a_document_is_posted_as_json() -> None:
    """What the server read is what was given."""
    assert {"prompt": "é", "max_tokens": 1} == ask(served(1), 10, {"prompt": "é", "max_tokens": 1}).json()


def test_no_server_is_a_reason_not_an_exception() -> None:
    """An engine that does not listen yet is the normal case while it boots."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    answer = ask(f"http://127.0.0.1:{port}/health", 10)

    assert (None, False) == (answer.status, answer.ok)
    assert "refused" in answer.problem


def test_a_server_that_never_answers_is_given_up() -> None:
    """The kernel accepts the connection, nobody reads it: the time-out ends the wait."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        answer = ask(f"http://127.0.0.1:{server.getsockname()[1]}/health", 0.2)

    assert (None, "timed out") == (answer.status, answer.problem)
