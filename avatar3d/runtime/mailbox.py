"""A mailbox for one value: the newest replaces the last, so that a slow reader drops values and never delays the writer."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Mailbox(Generic[Value]):
    """Thread-safe. put: values put in; dropped: those that were replaced before anyone took them."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._value: Value | None = None
        self.put_count = 0
        self.dropped = 0

    def put(self, value: Value) -> None:
        """Replace what is there."""
        with self._condition:
            self.dropped += self._value is not None
            self._value = value
            self.put_count += 1
            self._condition.notify()

    def take(self, timeout_s: float) -> Value | None:
        """The newest value not taken yet, waiting for one up to `timeout_s`; None when none came."""
        with self._condition:
            if self._value is None:
                self._condition.wait_for(lambda: self._value is not None, timeout_s)
            value, self._value = self._value, None
            return value
