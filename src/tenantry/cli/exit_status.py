"""The exit statuses of every command, and the error of arguments that do not fit together."""

from enum import IntEnum

from tenantry.kit.errors import Invalid


class ExitStatus(IntEnum):
    """The exit status of a command."""

    OK = 0
    TENANTS_FAILED = 1
    USAGE = 2
    UNUSABLE = 3
    HOLDING = 4
    INTERRUPTED = 130


class Misuse(Invalid):
    """The arguments of a command do not fit together; the message says what to use instead."""
