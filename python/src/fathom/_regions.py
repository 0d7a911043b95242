"""Marks of this program for the Fathom that started it: regions, moments, pauses. Without one, calls do nothing.

The functions are those of include/fathom.h, in the library that FATHOM_REGIONS names. A Fathom that attaches sets no such variable.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import ContextDecorator
from typing import Any, Callable, Optional, TypeVar, Union, overload

F = TypeVar("F", bound=Callable[..., Any])


def _load() -> Optional[ctypes.CDLL]:
    path = os.environ.get("FATHOM_REGIONS")
    try:
        # With the interpreter's lock held: the calls are shorter than giving it up.
        return ctypes.PyDLL(path) if path else None
    except OSError:
        return None


_hooks = _load()


class Region(ContextDecorator):
    """A region: a context manager and a decorator, as often as you like."""

    def __init__(self, name: str) -> None:
        self._name = name.encode() if _hooks is not None else b""

    def __enter__(self) -> None:
        if _hooks is not None:
            _hooks.fathom_hook_begin(self._name)

    def __exit__(self, *_: object) -> None:
        if _hooks is not None:
            _hooks.fathom_hook_end()

    def __call__(self, function: F) -> F:
        return super().__call__(function) if _hooks is not None else function


@overload
def region(of: str) -> Region: ...
@overload
def region(of: F) -> F: ...
def region(of: Union[str, F]) -> Union[Region, F]:
    """`with fathom.region("solve"):`, `@fathom.region("solve")`, or `@fathom.region` with the function's name. Regions nest, per thread:
    no `await` or `yield` in them. `result.view("regions")` has their times."""
    if isinstance(of, str):
        return Region(of) if _hooks is not None else _NOTHING
    return Region(getattr(of, "__qualname__", repr(of)))(of)


#: What all regions are without a Fathom: nothing is made for them.
_NOTHING = Region("")


def mark(name: str) -> None:
    """A moment, which the timeline names."""
    if _hooks is not None:
        _hooks.fathom_hook_mark(name.encode())


def pause() -> None:
    """Nothing is observed until `resume`."""
    if _hooks is not None:
        _hooks.fathom_hook_pause()


def resume() -> None:
    """Observes again after `pause`."""
    if _hooks is not None:
        _hooks.fathom_hook_resume()
