"""The exit statuses of every command."""

from enum import IntEnum


class ExitStatus(IntEnum):
    """The exit status of a command."""

    OK = 0
    TENANTS_FAILED = 1
    USAGE = 2
    UNUSABLE = 3
    HOLDING = 4
    INTERRUPTED = 130
