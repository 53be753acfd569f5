"""Sealing packets of the wire format: a tag that only the token's owners can make, and secrecy of the frame.

As in SRTP (RFC 3711): AES in counter mode, then HMAC over the whole packet, cut. Counter mode adds no byte to a packet, and the tag
stays at 5; of AEADs, AES-CCM's next tag has 6, which is half a kbit/s at 60 Hz, and browsers have no CCM. Headers stay
readable. Keys come from the token by scrypt, once: who records packets pays its price for every token tried.
"""

from __future__ import annotations

import hashlib
import hmac
from copy import copy
from functools import lru_cache
from importlib.util import find_spec

from avatar3d.errors import WorkError
from avatar3d.extras import install_extra
from avatar3d.motion.wire_layout import (
    KEY_LABEL,
    RECEIVER_BYTES,
    SCRYPT_N,
    SCRYPT_P,
    SCRYPT_R,
    SEQUENCE_BYTES,
    SESSION_BYTES,
    TAG_BYTES,
    TIME_BYTES,
)

_NONCE_REST = bytes(16 - SESSION_BYTES - SEQUENCE_BYTES)  # the block counter's place


def can_encrypt() -> bool:
    """Whether the package that has AES is there."""
    return find_spec("cryptography") is not None


def need_encryption() -> None:
    """Raise WorkError where `can_encrypt` says no."""
    if not can_encrypt():
        raise WorkError(
            f"encryption needs the package cryptography; run: {install_extra('net')}"
            " (--plain goes without, and then whoever is on the way sees the face)"
        )


@lru_cache(maxsize=16)
def _stretched(token: bytes) -> bytes:
    """32 bytes of a token by scrypt (RFC 7914); some 50 to 100 ms."""
    memory = 128 * SCRYPT_R * (SCRYPT_N + SCRYPT_P + 2)
    return hashlib.scrypt(token, salt=KEY_LABEL, n=SCRYPT_N, r=SCRYPT_R, p=SCRYPT_P, maxmem=memory, dklen=32)


def derived_key(token: bytes, purpose: bytes, scope: bytes = b"") -> bytes:
    """The 32-byte key of one purpose. scope: what the key is bound to beside the token."""
    return hmac.digest(_stretched(token), purpose + b"\0" + scope, "sha256")


class Seal:
    """Tags and ciphers the packets of one token. scope: the head's name where the link has one, which keeps heads apart."""

    def __init__(self, token: bytes, scope: bytes = b"") -> None:
        self._tag_key = derived_key(token, b"tag", scope)
        self._keyed = hmac.new(self._tag_key, digestmod=hashlib.sha256)
        self._key = derived_key(token, b"cipher", scope)

    def bound(self, receiver: int) -> Seal:
        """The seal of packets that only the receiver with this random number believes."""
        seal = copy(self)
        key = hmac.digest(self._tag_key, b"receiver" + receiver.to_bytes(RECEIVER_BYTES, "big"), "sha256")
        seal._keyed = hmac.new(key, digestmod=hashlib.sha256)
        return seal

    def tag(self, session: int, sequence: int, time: int, body: bytes) -> bytes:
        """The tag of a packet without its tag."""
        keyed = self._keyed.copy()
        keyed.update(session.to_bytes(SESSION_BYTES, "big"))
        keyed.update(sequence.to_bytes(SEQUENCE_BYTES, "big") + time.to_bytes(TIME_BYTES, "big") + body)
        return keyed.digest()[:TAG_BYTES]

    def fits(self, session: int, sequence: int, time: int, packet: bytes) -> bool:
        """Whether a packet carries the tag that these numbers and the token ask for."""
        return hmac.compare_digest(self.tag(session, sequence, time, packet[:-TAG_BYTES]), packet[-TAG_BYTES:])

    def cipher(self, session: int, sequence: int, data: bytes) -> bytes:
        """A payload enciphered, or deciphered. Raises WorkError without the package cryptography.

        AES-256 in counter mode; a session's random part keeps those apart that start together, so no block of it is used twice.
        """
        try:
            from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
        except ModuleNotFoundError:
            need_encryption()
            raise
        nonce = session.to_bytes(SESSION_BYTES, "big") + sequence.to_bytes(SEQUENCE_BYTES, "big") + _NONCE_REST
        walk = Cipher(algorithms.AES256(self._key), modes.CTR(nonce)).encryptor()
        return walk.update(data) + walk.finalize()
