"""One test for many things: it names each that fails.

A parameter costs as much as a small test: for thousands of files and errors that takes a minute.
"""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

Values = Iterable[Any] | Callable[[], Iterable[Any]]


def for_each(name: str, values: Values, ids: Callable[[Any], str] = str) -> Callable[[Any], Any]:
    """Call a test, or each of a class, with every value, and fail with all failures.

    Args:
        name: The parameter that gets the value.
        values: The values; or a function that returns them, called by the test.
        ids: Returns what names a value in a failure.
    """

    def decorate(test: Any) -> Any:
        if inspect.isclass(test):
            for member in [one for one in vars(test) if one.startswith("test_")]:
                setattr(test, member, decorate(vars(test)[member]))
            return test

        @functools.wraps(test)
        def each(*arguments: Any, **fixtures: Any) -> None:
            found = list(values() if callable(values) else values)
            assert found, f"no {name}"
            failures = []
            for value in found:
                try:
                    test(*arguments, **{name: value}, **fixtures)
                except Exception as failure:  # noqa: BLE001 - all are raised together
                    failure.add_note(f"{name}: {ids(value)}")
                    failures.append(failure)
            if failures:
                raise ExceptionGroup(f"{len(failures)} of {len(found)}", failures)

        signature = inspect.signature(test)
        kept = [one for one in signature.parameters.values() if one.name != name]
        each.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return each

    return decorate
