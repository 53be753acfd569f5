"""GL objects that are freed together; draws nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class GlScope:
    """Owns GL objects of one moderngl context, which must be current in every call."""

    def __init__(self, context: Any) -> None:
        self.context = context
        self._kept: list[Any] = []
        self._named: dict[object, Any] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, resource: Any) -> Any:
        """The resource, which `release` frees."""
        self._kept.append(resource)
        return resource

    def once(self, key: object, make: Callable[[], Any]) -> Any:
        """What `make` made, and keeps itself where it must, at the first call with a key."""
        if key not in self._named:
            self._named[key] = make()
        return self._named[key]

    def holds(self, key: object) -> bool:
        """Whether `once` made something for a key."""
        return key in self._named

    def release(self) -> None:
        """Free every object, the newest first."""
        for resource in reversed(self._kept):
            resource.release()
        self._kept.clear()
        self._named.clear()
