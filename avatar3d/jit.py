"""Compiling loops with numba, its cache kept where one can be: beside the code, in the user's folders, or nowhere.

A package that is installed for everybody, and a container that runs as nobody in particular, can write neither beside the code nor
at home; a disk may be full. Work goes on then, compiled anew at each start where nothing can be kept.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numba

from avatar3d.resources import cache_dir, private_temporary_dir

_compile = numba.njit


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """`numba.njit` with a cache, as a decorator. options: as numba's."""

    def compiled(function: Callable[..., Any]) -> Any:
        return _forgiving(_cached(function, options))

    return compiled


def cache_place() -> str | None:
    """The folder in which compiled loops of this module's folder are kept; None where there is none."""
    cache = getattr(_cached(cache_place, {}), "_cache", None)
    return getattr(cache, "cache_path", None)


def _cached(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """The dispatcher of a function, cached in the first place that can be written."""
    with suppress(RuntimeError):  # "no locator available": neither beside the code, nor in numba's own folder of the user's
        return _compile(cache=True, **options)(function)
    settings: Any = numba.config  # its names are made as it is imported
    before = settings.CACHE_DIR
    for folder in (cache_dir() / "numba", private_temporary_dir()):
        if folder is None:
            continue
        settings.CACHE_DIR = str(folder)
        try:
            return _compile(cache=True, **options)(function)
        except RuntimeError:
            continue
        finally:
            settings.CACHE_DIR = before
    return _compile(**options)(function)


def _forgiving(dispatcher: Any) -> Any:
    """The dispatcher, whose work a cache that cannot be written or read any more does not end."""
    cache = getattr(dispatcher, "_cache", None)
    for name in ("save_overload", "load_overload"):
        method = getattr(cache, name, None)
        if method is not None:
            setattr(cache, name, _without_oserror(method))
    return dispatcher


def _without_oserror(method: Callable[..., Any]) -> Callable[..., Any]:
    def tried(*arguments: Any, **named: Any) -> Any:
        with suppress(OSError):
            return method(*arguments, **named)
        return None

    return tried
