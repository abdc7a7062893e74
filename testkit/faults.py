"""Faults at a certain moment: something happens before or after a function does its work."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

Action = Callable[..., Any]
"""Called with the arguments of the function; a coroutine if the function is one."""


class Faults:
    """Wraps functions until `restore`; each still does its work.

    An action can raise: the call has failed before it began, or its result was lost.
    """

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def before(self, place: Any, name: str, action: Action, *, once: bool = False) -> None:
        """Call *action* before each call of the function *name* of a module, class or object.

        Args:
            place: Where the function is looked up when it is called.
            name: The name of the function.
            action: What to do.
            once: Only before the first call.
        """
        self._wrap(place, name, action, None, once=once)

    def after(self, place: Any, name: str, action: Action, *, once: bool = False) -> None:
        """Call *action* after each call that has raised no error; see `before`."""
        self._wrap(place, name, None, action, once=once)

    def restore(self) -> None:
        """Remove the actions that were added."""
        while self._undo:
            self._undo.pop()()

    def _wrap(
        self, place: Any, name: str, before: Action | None, after: Action | None, *, once: bool
    ) -> None:
        function, calls = getattr(place, name), 0

        def due() -> tuple[Action | None, Action | None]:
            nonlocal calls
            calls += 1
            return (None, None) if once and calls > 1 else (before, after)

        def wrapper(*arguments: Any, **options: Any) -> Any:
            first, last = due()
            if first is not None:
                first(*arguments, **options)
            result = function(*arguments, **options)
            if last is not None:
                last(*arguments, **options)
            return result

        async def async_wrapper(*arguments: Any, **options: Any) -> Any:
            first, last = due()
            if first is not None:
                await _finish(first(*arguments, **options))
            result = await function(*arguments, **options)
            if last is not None:
                await _finish(last(*arguments, **options))
            return result

        chosen = async_wrapper if inspect.iscoroutinefunction(function) else wrapper
        self._put(place, name, functools.wraps(function)(chosen))

    def _put(self, place: Any, name: str, value: Any) -> None:
        if name in vars(place):
            self._undo.append(functools.partial(setattr, place, name, vars(place)[name]))
        else:  # of a class, and set on an object of it
            self._undo.append(functools.partial(delattr, place, name))
        setattr(place, name, value)


async def _finish(result: Any) -> None:
    if inspect.isawaitable(result):
        await result
