"""The control of the login storm: Tenantry, but it hashes in the event loop."""

from collections.abc import Callable
from typing import Any, TypeVar

from tenantry import services
from tenantry.access.cpu_queue import FairQueue
from tenantry.access.passwords import Passwords
from tenantry.cli.main import main

Answer = TypeVar("Answer")


class _InlineQueue(FairQueue):
    async def run(self, _address: str, work: Callable[..., Answer], *arguments: str) -> Answer:
        return work(*arguments)


class InlinePasswords(Passwords):
    """Hashes where it is asked to."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._queue = _InlineQueue(self._pool, 1)


if __name__ == "__main__":
    vars(services)["Passwords"] = InlinePasswords
    main()
