"""Links that are really there: UDP, WebSocket and zenoh on loopback, the source `net:`, and both commands."""

from __future__ import annotations

import hmac
import importlib.util
import os
import random
import socket
import tempfile
import threading
import time
import uuid
from contextlib import ExitStack, closing, suppress
from queue import Queue

import numpy as np
import pytest
from net.streams import JAW, TOKEN, head

from avatar3d.cli import listen as listen_command
from avatar3d.cli import stream as stream_command
from avatar3d.cli.command import Result
from avatar3d.cli.options import parse
from avatar3d.errors import InputError, WorkError
from avatar3d.motion.code import MotionCode
from avatar3d.motion.jsonl import read_motion_jsonl, write_motion_jsonl
from avatar3d.motion.seal import can_encrypt, derived_key
from avatar3d.motion.sources import open_source
from avatar3d.motion.sources.base import LOOPBACK
from avatar3d.net import open_link, websocket
from avatar3d.net.link import LinkName, Outlet
from avatar3d.net.open_link import open_inlet, open_outlet
from avatar3d.net.sender import Sender
from avatar3d.net.source import NetSource
from avatar3d.net.token import make_token, read_token
from avatar3d.net.udp import UdpInlet, UdpOutlet
from avatar3d.net.websocket import MAX_OPEN, REST_S

needs_websockets = pytest.mark.skipif(importlib.util.find_spec("websockets") is None, reason="websockets is not installed")
needs_zenoh = pytest.mark.skipif(importlib.util.find_spec("zenoh") is None, reason="eclipse-zenoh is not installed")
SLOWLY_S = 60.0  # how long a busy machine may take
PORTS = range(20_000, 32_000)  # below those that Linux gives to whoever asks for any: nobody is given one meanwhile


def free_port(kind: int = socket.SOCK_DGRAM) -> int:
    """A port for an end that is opened later than the other; where one is opened first, it takes port 0 and tells."""
    while True:
        port = random.choice(PORTS)
        if not is_taken(port, kind):
            return port


def is_taken(port: int, kind: int = socket.SOCK_DGRAM) -> bool:
    with socket.socket(socket.AF_INET, kind) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
        return False


class Feeder:
    """Sends `head` at 60 Hz from a thread until closed."""

    def __init__(self, *outlets: Outlet) -> None:
        self._outlets = outlets
        self._stop = threading.Event()
        self.senders = [Sender(TOKEN) for _ in outlets]
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(1 / 60):
            for outlet, sender in zip(self._outlets, self.senders, strict=True):
                now = time.monotonic_ns()
                for answer, arrived_ns in outlet.answers():
                    sender.answered(answer, arrived_ns)
                outlet.send(sender.packet(head(now), now))

    def close(self) -> None:
        self._stop.set()
        self._thread.join()


def codes_of(source: NetSource, count: int) -> list[MotionCode]:
    deadline, codes = time.monotonic() + SLOWLY_S, []
    while len(codes) < count and time.monotonic() < deadline:
        code = source.read(0.2)
        if code is not None:
            codes.append(code)
    return codes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("9310", LinkName("udp")),
        ("udp:9311", LinkName("udp", port=9311)),
        ("192.0.2.7:80", LinkName("udp", "192.0.2.7", 80)),
        ("[::1]:80", LinkName("udp", "::1", 80)),
        ("ws:8080", LinkName("ws", port=8080)),
        ("ws:example.org:8080", LinkName("ws", "example.org", 8080)),
        ("zenoh:room/alice", LinkName("zenoh", head="room/alice")),
        ("zenoh:bob@tcp/192.0.2.7:7447", LinkName("zenoh", head="bob", endpoint="tcp/192.0.2.7:7447")),
    ],
)
def test_links_have_names(text, expected):
    assert LinkName.parse(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "99999",
        "host:",
        "a b:1",
        "ws:",
        "zenoh:",
        "zenoh:a//b",
        "zenoh:a*",
        "zenoh:/a",
        "-1",
        "ws:²",
        "٣",
        "9310²",
        "１２",
        "ünï:1",
    ],
)
def test_what_is_no_link_is_refused(text):
    with pytest.raises(InputError):
        LinkName.parse(text)


def test_only_loopback_is_local():
    assert all(LinkName.parse(text).local for text in ("9310", "ws:9310", "[::1]:9310", "zenoh:alice", "localhost:9310"))
    assert not any(LinkName.parse(text).local for text in ("0.0.0.0:9310", "example.org:9310", "zenoh:a@tcp/192.0.2.7:1"))


def test_listening_is_on_loopback_unless_a_host_is_named():
    with closing(UdpInlet(LinkName.parse("0"))) as inlet:
        assert inlet._socket.getsockname()[0] == "127.0.0.1"


def test_tokens_are_read_and_made(tmp_path, monkeypatch):
    monkeypatch.delenv("AVATAR3D_TOKEN", raising=False)
    assert read_token() is None
    assert read_token("12345678") == "12345678"
    path = tmp_path / "token"
    path.write_text("from a file\n")
    assert read_token(file=path) == "from a file"
    monkeypatch.setenv("AVATAR3D_TOKEN", "from the environment")
    assert read_token() == "from the environment"
    made = make_token()
    assert read_token(made) == made
    assert made != make_token()
    for arguments in (("short",), (None, tmp_path / "missing"), ("12345678", path)):
        with pytest.raises(InputError):
            read_token(*arguments)


def test_a_stream_over_udp_is_a_motion_source_with_small_round_trips():
    with ExitStack() as stack:
        source = stack.enter_context(open_source(f"net:0?token={TOKEN.decode().replace(' ', '%20')}"))
        outlet = stack.enter_context(closing(UdpOutlet(LinkName.parse(str(source._inlet.port)))))
        feeder = stack.enter_context(closing(Feeder(outlet)))
        codes = codes_of(source, 60)
        now = time.monotonic_ns()
        assert len(codes) == 60
        round_trip_ns = feeder.senders[0].round_trip_ns
        assert round_trip_ns is not None
        times = [code.time_ns for code in codes]
        assert times == sorted(times)
        assert times[-1] <= now
        # Its times are on this machine's clock, as well as a round trip can tell: the head is what was sent about then.
        shifts_ns = np.linspace(-1, 1, 21) * max(round_trip_ns, 10_000_000)
        wrong = [
            min(abs(code.weights[JAW] - head(code.time_ns + round(shift)).weights[JAW]) for shift in shifts_ns)
            for code in codes[20:]
        ]
        assert np.median(wrong) < 0.05


def test_a_source_needs_a_token(monkeypatch):
    monkeypatch.delenv("AVATAR3D_TOKEN", raising=False)
    with pytest.raises(InputError, match="token"):
        open_source("net:9310")


def test_a_port_that_is_taken_is_told():
    with closing(UdpInlet(LinkName.parse("0"))) as inlet, pytest.raises(WorkError, match="cannot listen"):
        UdpInlet(LinkName.parse(str(inlet.port)))


@needs_websockets
def test_a_websocket_serves_those_who_know_the_token_and_no_others():
    with ExitStack() as stack:
        outlet = stack.enter_context(closing(open_outlet(LinkName.parse("ws:0"), TOKEN)))
        name = LinkName.parse(f"ws:{outlet.port}")
        stack.enter_context(closing(Feeder(outlet)))
        sources = [stack.enter_context(NetSource(open_inlet(name, TOKEN), TOKEN)) for _ in range(2)]
        assert len(codes_of(sources[0], 20)) == 20
        assert len(codes_of(sources[1], 20)) == 20  # one that joined late
        assert outlet.clients == 2
        with closing(open_inlet(name, b"wrong token")) as stranger, pytest.raises(InputError, match="token"):
            deadline = time.monotonic() + SLOWLY_S
            while time.monotonic() < deadline:
                stranger.receive(1.0)


@needs_websockets
def test_a_websocket_shows_no_listener_the_token_and_no_stranger_is_a_sender():
    """A tap between both ends, and a sender that gives back what it hears."""
    from websockets.exceptions import ConnectionClosed
    from websockets.sync.client import connect
    from websockets.sync.server import serve

    heard: list[bytes] = []
    with ExitStack() as stack:
        outlet = stack.enter_context(closing(open_outlet(LinkName.parse("ws:0"), TOKEN)))
        stack.enter_context(closing(Feeder(outlet)))

        def tap(connection):
            heard.append(connection.request.path.encode())
            with connect(f"ws://127.0.0.1:{outlet.port}{connection.request.path}") as onward, suppress(Exception):
                connection.send(onward.recv())
                heard.append(connection.recv())
                onward.send(heard[-1])
                while True:
                    connection.send(onward.recv())

        def echo(connection):
            connection.send(bytes(16))
            answer = connection.recv()
            connection.send(answer[16:])
            connection.recv()

        ports = []
        for handler in (tap, echo):
            server = stack.enter_context(serve(handler, "127.0.0.1", 0))
            threading.Thread(target=server.serve_forever, daemon=True).start()
            ports.append(server.socket.getsockname()[1])
        source = stack.enter_context(NetSource(open_inlet(LinkName.parse(f"ws:{ports[0]}"), TOKEN), TOKEN))
        assert len(codes_of(source, 5)) == 5
        assert TOKEN not in b"".join(heard) and TOKEN.replace(b" ", b"%20") not in b"".join(heard)
        # What was overheard is of no use a second time, and the address's token is of none at all.
        for path, answer in (
            ("/", heard[1]),
            (f"/?token={TOKEN.decode().replace(' ', '%20')}", bytes(48)),
            ("/", b""),
            ("/", "text"),
        ):
            with connect(f"ws://127.0.0.1:{outlet.port}{path}") as again:
                again.recv()
                again.send(answer)
                with pytest.raises(ConnectionClosed, match="token"):
                    again.recv(timeout=SLOWLY_S)
        with closing(open_inlet(LinkName.parse(f"ws:{ports[1]}"), TOKEN)) as fooled, pytest.raises(InputError, match="token"):
            fooled.receive(SLOWLY_S)


@needs_websockets
def test_a_websocket_bounds_how_often_an_address_may_try(monkeypatch):
    from websockets.exceptions import ConnectionClosed
    from websockets.sync.client import connect

    waited: list[float] = []
    monkeypatch.setattr(websocket.time, "sleep", waited.append)
    with closing(open_outlet(LinkName.parse("ws:0"), TOKEN)) as outlet:
        for number in range(6):
            with connect(f"ws://127.0.0.1:{outlet.port}/") as stranger:
                stranger.recv()
                stranger.send(bytes([number]) * 48)
                with pytest.raises(ConnectionClosed, match="token"):
                    stranger.recv(timeout=SLOWLY_S)
        # One after the other, each longer: 64 connections at once get no further.
        assert waited == [0.25, 0.5, 1.0, 2.0, 2.0, 2.0]
        with connect(f"ws://127.0.0.1:{outlet.port}/") as friend:
            challenge, nonce = friend.recv(), bytes(16)
            key = derived_key(TOKEN, b"websocket")
            friend.send(nonce + hmac.digest(key, b"listener" + challenge + nonce, "sha256"))
            assert friend.recv(timeout=SLOWLY_S) == hmac.digest(key, b"sender" + challenge + nonce, "sha256")
        assert waited[6:] == [2.0]


@needs_websockets
def test_idle_connections_and_strange_requests_do_not_end_a_websocket_sender(capfd):
    with ExitStack() as stack:
        outlet = stack.enter_context(closing(open_outlet(LinkName.parse("ws:0"), TOKEN)))
        stack.enter_context(closing(Feeder(outlet)))
        idle = [stack.enter_context(closing(socket.create_connection((LOOPBACK, outlet.port)))) for _ in range(3 * MAX_OPEN)]
        for connection in idle[:MAX_OPEN]:
            with suppress(OSError):
                connection.sendall(
                    b"GET //[::1/?token=x HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
                )
        source = stack.enter_context(NetSource(open_inlet(LinkName.parse(f"ws:{outlet.port}"), TOKEN), TOKEN))
        assert len(codes_of(source, 20)) == 20
    assert "Traceback" not in capfd.readouterr().err


@needs_websockets
def test_a_sender_without_a_descriptor_to_spare_goes_on_when_there_are_some_again():
    import resource

    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        outlet = stack.enter_context(closing(open_outlet(LinkName.parse("ws:0"), TOKEN)))
        stack.enter_context(closing(Feeder(outlet)))
        stranger = stack.enter_context(closing(socket.socket()))
        used = max(int(name) for name in os.listdir("/proc/self/fd"))
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (used, limits[1]))
            stranger.connect((LOOPBACK, outlet.port))
            time.sleep(3 * REST_S)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        source = stack.enter_context(NetSource(open_inlet(LinkName.parse(f"ws:{outlet.port}"), TOKEN), TOKEN))
        assert len(codes_of(source, 5)) == 5


@needs_websockets
def test_a_websocket_listener_waits_for_its_sender_and_follows_it_through_a_restart():
    name = LinkName.parse(f"ws:{free_port(socket.SOCK_STREAM)}")
    with NetSource(open_inlet(name, TOKEN), TOKEN) as source:
        assert source.read(0.3) is None
        for _ in range(2):
            with closing(open_outlet(name, TOKEN)) as outlet, closing(Feeder(outlet)):
                before = source.receiver.sessions
                deadline = time.monotonic() + SLOWLY_S
                while source.receiver.sessions == before and time.monotonic() < deadline:
                    source.read(0.1)
        assert source.receiver.sessions == 2


@needs_zenoh
def test_heads_over_zenoh_from_one_process_reach_each_listener_a_late_one_too():
    from avatar3d.net.zenoh import ZenohInlet, ZenohOutlet, open_session

    room = uuid.uuid4().hex  # of no other run, on this machine or in another container
    names = [LinkName.parse(f"zenoh:test-{room}/{index}") for index in range(4)]
    with ExitStack() as stack:
        session = stack.enter_context(closing(open_session(None)))
        outlets = [stack.enter_context(closing(ZenohOutlet(name, session))) for name in names]
        stack.enter_context(closing(Feeder(*outlets)))
        other = stack.enter_context(closing(open_session(None)))
        sources = [stack.enter_context(NetSource(ZenohInlet(name, other), TOKEN)) for name in names]
        for source in sources:
            assert len(codes_of(source, 20)) == 20
        late = stack.enter_context(NetSource(ZenohInlet(names[0]), TOKEN))
        assert len(codes_of(late, 20)) == 20
        assert late.receiver.counts["forged"] == 0


@needs_zenoh
def test_an_endpoint_that_nobody_serves_is_told():
    with pytest.raises(InputError, match="cannot join zenoh"):
        open_outlet(LinkName.parse(f"zenoh:a@tcp/127.0.0.1:{free_port(socket.SOCK_STREAM)}"), TOKEN)


def test_a_listener_that_is_sent_a_stream_in_the_clear_says_so(monkeypatch):
    port = free_port()
    monkeypatch.setattr(LinkName, "local", property(lambda name: False))
    words = (str(port), "--token", "a token for tests", "--seconds", "4")
    with (
        closing(UdpOutlet(LinkName.parse(str(port)))) as outlet,
        closing(Feeder(outlet)),
        pytest.raises(WorkError, match="encrypt"),
    ):
        run_listen(*words)


def run_stream(*words: str) -> Result:
    return stream_command.run(parse(stream_command.Stream, words), True)


def run_listen(*words: str) -> Result:
    return listen_command.run(parse(listen_command.Listen, words), True)


def test_stream_and_listen_carry_a_recording(tmp_path, capsys, monkeypatch):
    recording, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    write_motion_jsonl(recording, [head(number * 16_666_667) for number in range(240)])
    results: dict[str, tuple[dict[str, object], list[str]]] = {}
    opened: Queue[UdpInlet] = Queue()

    def opener(name: LinkName, token: bytes) -> UdpInlet:
        inlet = UdpInlet(name)
        opened.put(inlet)
        return inlet

    def listen() -> None:
        results["listen"] = run_listen("0", "-o", str(out), "--token", "12345678", "--seconds", "60", "--silence", "5")

    monkeypatch.setattr(open_link, "open_inlet", opener)
    thread = threading.Thread(target=listen)
    thread.start()
    port = str(opened.get(timeout=SLOWLY_S).port)
    results["stream"] = run_stream(f"json:{recording}", "--to", port, "--token", "12345678", "--seconds", "3")
    thread.join()
    for report, lines in results.values():
        assert {"packets", "kbit_per_s", "lost", "stall_ms_max", "jump_frames_max"} <= report.keys()
        assert lines
    listened = results["listen"][0]
    assert listened["lost"] == 0
    assert listened["sessions"] == 1
    assert len(read_motion_jsonl(out)) == listened["codes"] > 60
    assert capsys.readouterr().err == ""  # nothing left this machine and no token had to be made


def test_a_missing_token_is_made_and_lies_in_a_file_that_only_its_owner_reads(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("AVATAR3D_TOKEN", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    made: list[tuple[str, int, str]] = []

    def watch(name: LinkName, token: bytes) -> Outlet:
        path = next(tmp_path.glob("avatar3d-token-*"))
        made.append((path.read_text().strip(), path.stat().st_mode & 0o777, str(path)))
        assert read_token(file=path) == token.decode()
        return open_outlet(name, token)

    monkeypatch.setattr(open_link, "open_outlet", watch)
    recording = tmp_path / "in.jsonl"
    write_motion_jsonl(recording, [head(number * 16_666_667) for number in range(10)])
    run_stream(f"json:{recording}", "--to", str(free_port()), "--seconds", "0.3")
    said = capsys.readouterr().err
    token, mode, path = made[0]
    assert mode == 0o600
    assert f"--token-file {path}" in said and token not in said
    assert not list(tmp_path.glob("avatar3d-token-*"))


def test_what_is_said_of_a_stream_that_leaves_this_machine_is_true(tmp_path, capsys):
    recording = tmp_path / "in.jsonl"
    write_motion_jsonl(recording, [head(number * 16_666_667) for number in range(10)])
    words = (f"json:{recording}", "--to", "192.0.2.7:9", "--seconds", "0.3", "--token", "sixteen characters or more")
    if can_encrypt():
        assert run_stream(*words)[0]["encrypted"] is True
        assert "NOT" not in (said := capsys.readouterr().err) and "encrypted" in said
    assert run_stream(*words, "--plain")[0]["encrypted"] is False
    assert "NOT encrypted" in capsys.readouterr().err
    with pytest.raises(InputError, match="16"):
        run_stream(*words[:-1], "only 15 letters")
    with pytest.raises(InputError, match="16"):
        run_listen("192.0.2.7:9", "--token", "only 15 letters")
    with pytest.raises(InputError, match="16"):
        open_source("net:192.0.2.7:9?token=only15letters")


@pytest.mark.parametrize("text", [
    "net:9310?token=sesame-sesame&max_age=x", "net:9310?token=sesame-sesame&other=1", "net:x?token=sesame-sesame",
    "net:9310?max_age=1&token=sesame-sesame&plain=7", "9310?token=sesame-sesame",
])  # fmt: skip
def test_no_sentence_tells_a_token(text):
    for read in (open_source, LinkName.parse):
        with pytest.raises(InputError) as caught:
            read(text)
        assert "sesame" not in str(caught.value)


def test_listening_to_a_wrong_token_says_so():
    port = free_port()
    words = (str(port), "--token", "not that one", "--seconds", "4")
    with (
        closing(UdpOutlet(LinkName.parse(str(port)))) as outlet,
        closing(Feeder(outlet)),
        pytest.raises(WorkError, match="token"),
    ):
        run_listen(*words)


@pytest.mark.parametrize(
    "words",
    [
        ["--hz", "0"],
        ["--seconds", "-1"],
        ["-o", "codes.txt"],
        ["--max-age", "-1"],
        ["--silence", "0"],
        ["nowhere"],
        *(
            [f"{option}={value}"]
            for option in ("--hz", "--seconds", "--max-age", "--silence")
            for value in ("nan", "inf", "-inf")
        ),
    ],
)
def test_arguments_that_make_no_sense_are_refused_before_anything_is_opened(words):
    with pytest.raises(InputError):
        run_listen(*words, "--token", "12345678")
