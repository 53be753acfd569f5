"""A real browser on a real stream: headless Chromium decodes what `avatar3d stream` serves by WebSocket as Python decodes it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, Queue

import numpy as np
import pytest
from net.streams import PERIOD_NS, head
from net.test_links import free_port, needs_websockets

from avatar3d.motion.jsonl import write_motion_jsonl
from avatar3d.motion.seal import can_encrypt
from avatar3d.net.link import LinkName
from avatar3d.net.open_link import open_inlet
from avatar3d.net.receiver import Receiver

WEB = Path(__file__).resolve().parents[2] / "avatar3d" / "web"
CHROMIUM = next((path for name in ("chromium", "google-chrome", "chrome") if (path := shutil.which(name))), None)
CODES = 100
SLOWLY_S = 120.0  # how long a busy machine may take
TOKEN = "a token & its = signs"
PAGE = """<!doctype html><meta charset="utf-8"><script type="module">
import { receive } from "/wire.js";
const tell = (value) => fetch("/result", { method: "POST", body: JSON.stringify(value) });
try {
  const { address, token, count, plain } = await (await fetch("/task")).json();
  const wrong = await receive(address, "another token").next().then(() => "believed", (error) => error.message);
  const codes = [];
  for await (const code of receive(address, token, { plain })) {
    if (codes.push(code) === count) break;
  }
  await tell({ codes, wrong });
} catch (error) {
  tell({ error: String(error) });
}
</script>"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: install the package chromium"),
    needs_websockets,
]


def serve(task: dict[str, object], results: Queue[dict]) -> ThreadingHTTPServer:
    """A server of the page, the decoder and the task, on a free port of loopback; what the page posts goes to `results`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.lstrip("/")
            if name in ("wire.js", "wire_layout.js"):
                body, kind = (WEB / name).read_bytes(), "text/javascript"
            else:
                body, kind = (json.dumps(task).encode(), "application/json") if name == "task" else (PAGE.encode(), "text/html")
            self.answer(body, kind)

        def do_POST(self) -> None:
            results.put(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.answer(b"", "text/plain")

        def answer(self, body: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


@pytest.fixture
def stream(tmp_path):
    """`avatar3d stream` of a recording at 60 Hz over WebSocket; yields its link."""
    write_motion_jsonl(tmp_path / "motion.jsonl", [head(n * PERIOD_NS) for n in range(300)])
    (tmp_path / "token").write_text(TOKEN, encoding="utf-8")
    link = f"ws:{free_port()}"
    command = [
        sys.executable, "-m", "avatar3d.cli", "stream", f"json:{tmp_path / 'motion.jsonl'}", "--to", link,
        "--token-file", str(tmp_path / "token"), "--quiet",
    ]  # fmt: skip
    process = subprocess.Popen(command)
    yield LinkName.parse(link)
    process.terminate()
    process.wait(SLOWLY_S)


def test_chromium_decodes_a_stream_as_python_does(stream, tmp_path):
    results: Queue[dict] = Queue()
    server = serve(
        {"address": f"ws://127.0.0.1:{stream.port}", "token": TOKEN, "count": CODES, "plain": not can_encrypt()}, results
    )
    receiver, ours = Receiver(TOKEN.encode()), {}
    with closing(open_inlet(stream, TOKEN.encode())) as inlet:
        deadline = time.monotonic() + SLOWLY_S
        while not ours and time.monotonic() < deadline:  # until the sender serves
            for packet, _ in inlet.receive(0.1):
                ours |= {arrival.code.sequence: arrival.code for arrival in receiver.accept(packet, time.monotonic_ns())}
        browser = subprocess.Popen(
            [
                str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
                "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run",
                f"http://127.0.0.1:{server.server_port}/",
            ],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        theirs = None
        try:
            while theirs is None and time.monotonic() < deadline:
                for packet, _ in inlet.receive(0.05):
                    ours |= {arrival.code.sequence: arrival.code for arrival in receiver.accept(packet, time.monotonic_ns())}
                with suppress(Empty):
                    theirs = results.get_nowait()
        finally:
            browser.terminate()
            browser.wait(SLOWLY_S)
            server.shutdown()
    assert theirs is not None, "the page said nothing"
    assert "error" not in theirs, theirs["error"]
    assert theirs["wrong"] == "the token is wrong"
    assert len(theirs["codes"]) == CODES
    numbers = [code["sequence"] for code in theirs["codes"]]
    assert numbers == sorted(set(numbers))
    # A client that is slow skips packets; of what both had all numbers are the same.
    both = [code for code in theirs["codes"] if code["sequence"] in ours]
    assert len(both) > CODES // 2
    for code in both:
        expected = ours[code["sequence"]]
        np.testing.assert_allclose(list(code["weights"].values()), expected.weights, atol=1e-9)
        np.testing.assert_allclose(code["rotation"], expected.rotation, atol=1e-9)
        np.testing.assert_allclose(code["translation"], expected.translation, atol=1e-9)
        np.testing.assert_allclose(code["gaze"], expected.gaze, atol=1e-9)
        np.testing.assert_allclose(code["confidence"], expected.confidence, atol=1e-9)
        assert code["time"] * 1e9 == pytest.approx(expected.time_ns)
