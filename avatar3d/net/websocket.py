"""Streams over WebSocket, for browsers: the sender serves, whoever knows the token connects. Library: websockets.

The token is never sent. The sender begins with 16 random bytes; the listener answers with 16 of its own and HMAC-SHA256 over
"listener", both; the sender closes, or shows with HMAC-SHA256 over "sender", both that it knows the token too; packets follow.
"""

from __future__ import annotations

import errno
import hmac
import logging
import secrets
import socket
import threading
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from avatar3d.errors import InputError, WorkError
from avatar3d.extras import install_extra
from avatar3d.motion.seal import derived_key
from avatar3d.motion.wire_layout import MAX_PACKET
from avatar3d.net.link import LinkName

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection
    from websockets.sync.server import ServerConnection

MAX_CLIENTS = 32
MAX_OPEN = 64  # connections, whether they have shown a token or not; a new one takes the place of the oldest that has not
OPEN_S = 5.0  # in which one has to have shown it
REST_S = 0.1  # after the system had no descriptor to spare
NONCE_BYTES, PROOF_BYTES = 16, 32
WRONG_TOKEN, FULL_HOUSE = 4401, 4503  # close codes, after HTTP's
# After a wrong token the next answer to that address takes so long, twice as long after each further one up to the second figure, and
# one address is answered at a time: it has a try each two seconds, from however many connections.
WRONG_WAIT_S, LONGEST_WAIT_S = 0.25, 2.0
MAX_HOSTS, FORGET_HOSTS_S = 256, 60.0
QUEUED = 12  # packets kept for a client that is slow: 0.2 s; then the oldest are dropped
RETRY_S = 0.5
CONNECT_S = 3.0

_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_QUIET = logging.getLogger("avatar3d.websocket")  # what strangers send is their affair, not the sender's terminal's
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False


def _library() -> Any:
    try:
        import websockets
    except ModuleNotFoundError as error:
        raise WorkError(f"ws: needs the package websockets; run: {install_extra('net')}") from error
    return websockets


def _proof(key: bytes, who: bytes, sender_nonce: bytes, listener_nonce: bytes) -> bytes:
    return hmac.digest(key, who + sender_nonce + listener_nonce, "sha256")


class _Gate(socket.socket):
    """A listening socket that lets in MAX_OPEN connections at a time and outlives a system without a descriptor to spare."""

    def __init__(self, host: str, port: int) -> None:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        super().__init__(family, kind)
        try:
            self.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.bind(address)
            self.listen(MAX_OPEN)
        except OSError:
            self.close()
            raise
        self._waiting: deque[socket.socket] = deque()
        self._admitted: list[socket.socket] = []
        self._lock = threading.Lock()

    def accept(self) -> tuple[socket.socket, Any]:
        while True:
            try:
                connection, address = super().accept()
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                time.sleep(REST_S)
                continue
            with self._lock:
                self._waiting = deque(other for other in self._waiting if other.fileno() >= 0)
                self._admitted = [other for other in self._admitted if other.fileno() >= 0]
                while self._waiting and len(self._waiting) + len(self._admitted) >= MAX_OPEN:
                    with suppress(OSError):
                        self._waiting.popleft().shutdown(socket.SHUT_RDWR)  # its own thread then closes it
                self._waiting.append(connection)
            return connection, address

    def admit(self, connection: socket.socket) -> None:
        """Keep a connection that has shown the token, however many come."""
        with self._lock:
            self._waiting = deque(other for other in self._waiting if other is not connection)
            self._admitted.append(connection)


class _Tries:
    """How often each address may try a token; those beyond MAX_HOSTS share one turn. Used by the threads of all connections."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hosts: dict[str, _Turn] = {}
        self._began_s = time.monotonic()

    def right(self, host: str, answer: bool) -> bool:
        """The answer to a try, after the time that this address has to wait for it."""
        with self._lock:
            if time.monotonic() - self._began_s > FORGET_HOSTS_S:
                self._hosts, self._began_s = {}, time.monotonic()
            place = host if host in self._hosts or len(self._hosts) < MAX_HOSTS else ""
            turn = self._hosts.setdefault(place, _Turn())
        with turn.lock:
            if turn.wrong or not answer:
                time.sleep(min(WRONG_WAIT_S * 2**turn.wrong, LONGEST_WAIT_S))
            turn.wrong = 0 if answer else min(turn.wrong + 1, 16)
        return answer


class _Turn:
    def __init__(self) -> None:
        self.lock, self.wrong = threading.Lock(), 0


class WebSocketOutlet:
    """A server. Packets of a client that knows the token go into its own short queue; of what clients say only the proof is read."""

    def __init__(self, name: LinkName, token: bytes) -> None:
        _library()
        from websockets.sync.server import serve

        self._key = derived_key(token, b"websocket")
        self._queues: dict[int, deque[bytes]] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._tries = _Tries()
        try:
            self._gate = _Gate(name.host, name.port)
            self._server = serve(
                self._feed, sock=self._gate, compression=None, max_size=MAX_PACKET, max_queue=4,
                open_timeout=OPEN_S, logger=_QUIET,
            )  # fmt: skip
        except OSError as error:
            raise WorkError(f"cannot serve on {name.host} port {name.port}: {error.strerror}; choose another port") from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="websocket", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that is served."""
        return int(self._server.socket.getsockname()[1])

    @property
    def clients(self) -> int:
        """How many are connected."""
        return len(self._queues)

    def _knows(self, connection: ServerConnection) -> bool:
        """Whether a client shows within OPEN_S that it knows the token, and is shown the same; else the connection is closed."""
        challenge = secrets.token_bytes(NONCE_BYTES)
        connection.send(challenge)
        answer = connection.recv(timeout=OPEN_S)
        if not isinstance(answer, bytes) or len(answer) != NONCE_BYTES + PROOF_BYTES:
            answer = bytes(NONCE_BYTES + PROOF_BYTES)
        nonce, proof = answer[:NONCE_BYTES], answer[NONCE_BYTES:]
        host = str(connection.remote_address[0])
        if not self._tries.right(host, hmac.compare_digest(proof, _proof(self._key, b"listener", challenge, nonce))):
            connection.close(WRONG_TOKEN, "the token is wrong")
            return False
        if self.clients >= MAX_CLIENTS:
            connection.close(FULL_HOUSE, f"{MAX_CLIENTS} clients are connected already")
            return False
        connection.send(_proof(self._key, b"sender", challenge, nonce))
        return True

    def _feed(self, connection: ServerConnection) -> None:
        from websockets.exceptions import ConnectionClosed

        try:
            if not self._knows(connection):
                return
        except (ConnectionClosed, TimeoutError):
            return
        queue: deque[bytes] = deque(maxlen=QUEUED)
        self._gate.admit(connection.socket)
        with self._changed:
            self._queues[id(queue)] = queue
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: bool(queue) or self._closed)
                    if self._closed:
                        return
                    packets = list(queue)
                    queue.clear()
                for packet in packets:
                    connection.send(packet)
        except ConnectionClosed:
            pass
        finally:
            with self._changed:
                del self._queues[id(queue)]

    def send(self, packet: bytes) -> None:
        with self._changed:
            for queue in self._queues.values():
                queue.append(packet)
            self._changed.notify_all()

    def answers(self) -> list[tuple[bytes, int]]:
        return []

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._server.shutdown()
        self._thread.join(2.0)


class WebSocketInlet:
    """A client that connects to a sender, and again when it goes away."""

    def __init__(self, name: LinkName, token: bytes) -> None:
        _library()
        self._name, self._key = name, derived_key(token, b"websocket")
        host = f"[{name.host}]" if ":" in name.host else name.host
        self._uri = f"ws://{host}:{name.port}/"
        self._connection: ClientConnection | None = None
        self._retry_s = 0.0

    def receive(self, timeout_s: float) -> list[tuple[bytes, object]]:
        """Raises InputError when the sender turns the token away, or does not know it."""
        from websockets.exceptions import ConnectionClosed

        connection = self._connection or self._connect(timeout_s)
        if connection is None:
            return []
        found: list[tuple[bytes, object]] = []
        try:
            while len(found) < QUEUED:
                packet = connection.recv(timeout=0 if found else max(0.0, timeout_s))
                if isinstance(packet, bytes):
                    found.append((packet, None))
        except TimeoutError:
            pass
        except ConnectionClosed:
            self._connection = None
        return found

    def _connect(self, timeout_s: float) -> ClientConnection | None:
        from websockets.exceptions import ConnectionClosed, WebSocketException
        from websockets.sync.client import connect

        wait_s = self._retry_s - time.monotonic()
        if wait_s > 0:
            time.sleep(min(wait_s, max(0.0, timeout_s)))
            return None
        self._retry_s = time.monotonic() + RETRY_S
        connection = None
        try:
            connection = connect(self._uri, open_timeout=CONNECT_S, compression=None, max_size=MAX_PACKET, proxy=None)
            knows = self._both_know(connection)
        except ConnectionClosed as error:
            knows = error.rcvd is None or error.rcvd.code != WRONG_TOKEN
            connection = None
        except (OSError, TimeoutError, WebSocketException):
            knows = True  # nobody serves yet, for all we know
            if connection is not None:
                connection.close()
            connection = None
        if not knows:
            if connection is not None:
                connection.close()
            raise InputError(f"{self._name.text}: the sender does not know this token; give both ends the same")
        self._connection = connection
        return connection

    def _both_know(self, connection: ClientConnection) -> bool:
        """Show that we know the token; whether the sender showed it too."""
        challenge = connection.recv(timeout=CONNECT_S)
        if not isinstance(challenge, bytes) or len(challenge) != NONCE_BYTES:
            return False
        nonce = secrets.token_bytes(NONCE_BYTES)
        connection.send(nonce + _proof(self._key, b"listener", challenge, nonce))
        answer = connection.recv(timeout=CONNECT_S)
        return isinstance(answer, bytes) and hmac.compare_digest(answer, _proof(self._key, b"sender", challenge, nonce))

    def answer(self, packet: bytes, address: object) -> None:
        pass

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
