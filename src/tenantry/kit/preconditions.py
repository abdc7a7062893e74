"""Preconditions of a change: that the resource is still what the caller has read.

Source: RFC 9110, section 13. A caller names that state by an entity tag, or by a version number.
"""

from collections.abc import Callable
from typing import Any

from tenantry.kit.errors import Conflict

Expected = Callable[[Any], bool] | None
"""Returns whether a resource, read in the transaction of the change, is what the caller expects.

None: the caller expects nothing.
"""


class ResourceChanged(Conflict):
    """The resource has changed since you read it. Read it again, and repeat your change on that."""


class ResourceExists(ResourceChanged):
    """`If-None-Match` asks for a change only if there is no such resource, but there is one."""


def check(expected: Expected, current: object) -> None:
    """Check that the resource *current* is what the caller expects; None expects nothing.

    Raises:
        ResourceChanged: It is not.
    """
    if expected is not None and not expected(current):
        raise ResourceChanged
