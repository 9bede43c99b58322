"""E1 under verifiers' own commands, against a real HTTP endpoint on this machine."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

REPLY = '{"label": "malicious", "confidence": 0.7, "rationale": "as always"}'
RIGHT, WRONG = 1.0 + 0.5 * (1 - 0.3**2), 0.5 * (1 - 0.7**2)


class _Endpoint(BaseHTTPRequestHandler):
    """Answers every chat with the same completion and keeps what it was asked."""

    asked: ClassVar[list[dict[str, object]]] = []

    def do_POST(self) -> None:
        self.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": REPLY}}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        body = {
            "id": "1",
            "object": "chat.completion",
            "created": 0,
            "model": "fake",
            "choices": [choice],
            "usage": usage,
        }
        raw = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[str]:
    _Endpoint.asked.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Endpoint)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    thread.join()


def test_vf_eval_scores_as_sv_does(endpoint: str, tmp_path: Path) -> None:
    command = [Path(sys.executable).with_name("vf-eval"), "sv-env-network-logs", "-m", "fake", "--no-push"]
    command += ["--client.base-url", endpoint, "--client.api-key-var", "FAKE_KEY", "--select.limit", "10"]
    done = subprocess.run(
        [*map(str, command), "-o", str(tmp_path)],
        env={**os.environ, "FAKE_KEY": "x", "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (traces,) = tmp_path.rglob("traces.jsonl")
    episodes = [json.loads(line)["traces"][0] for line in traces.read_text().splitlines()]
    assert len(episodes) == len(_Endpoint.asked) == 10
    for trace in episodes:
        assert trace["ok"]
        paid = sum(reward["score"] * reward["weight"] for reward in trace["rewards"].values())
        truth = trace["task"]["data"]["truth"]
        assert paid == pytest.approx(RIGHT if truth == "Malicious" else WRONG)
