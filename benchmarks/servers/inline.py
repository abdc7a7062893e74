"""The control of the login storm: Tenantry, but it hashes in the event loop."""

from collections.abc import Callable
from typing import TypeVar

from tenantry import services
from tenantry.access.passwords import Passwords
from tenantry.cli.main import main

Answer = TypeVar("Answer")


class InlinePasswords(Passwords):
    """Hashes where it is asked to."""

    async def _run(self, work: Callable[..., Answer], *arguments: str) -> Answer:
        return work(*arguments)


if __name__ == "__main__":
    vars(services)["Passwords"] = InlinePasswords
    main()
