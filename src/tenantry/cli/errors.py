"""The exit status of each error, and what to do about it."""

from typing import Any

from tenantry.access.signing import WrongSecretKey
from tenantry.backup.archive import ArchiveDamaged, ArchiveForeign, ArchiveNotFound
from tenantry.backup.archives import FolderMissing
from tenantry.backup.dumps import CopyDiffers
from tenantry.backup.replacing import ArchiveOfOther
from tenantry.backup.restoring import TenantExists
from tenantry.catalog.admins import AdminEmailInUse, AdminNotFound
from tenantry.catalog.credentials import ApiKeyNotFound, McpTokenNotFound
from tenantry.catalog.deleted_tenants import DeletedTenantNotFound
from tenantry.catalog.holds import TenantsHeld
from tenantry.catalog.records import CredentialsInUse
from tenantry.catalog.run_tenants import RunNotHolding
from tenantry.catalog.runs import MigrationRunNotFound, RunContinues
from tenantry.catalog.tenants import TenantNameInUse, TenantNotFound
from tenantry.catalog.upgrading import CatalogUnusable
from tenantry.cli.exit_status import ExitStatus
from tenantry.cli.wording import named
from tenantry.db.outage_errors import ServerAway
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.fleet.deletion import TenantActive, WrongName
from tenantry.fleet.lifecycle import ActivationFailed, UnknownServer
from tenantry.fleet.run_undo import NothingToRetry, RunUnfinished
from tenantry.kit.errors import TenantryError, Unavailable
from tenantry.migration import errors as causes
from tenantry.settings import BadSettings
from tenantry.tenant.databases import TenantReadOnly
from tenantry.tenant.users import EmailInUse, UserNotFound

# The first class of an error's `__mro__` in this table decides.
STATUS: dict[type[TenantryError], ExitStatus] = {
    BadSettings: ExitStatus.UNUSABLE,
    ActivationFailed: ExitStatus.TENANTS_FAILED,
    ArchiveDamaged: ExitStatus.TENANTS_FAILED,
    CopyDiffers: ExitStatus.TENANTS_FAILED,
    RunContinues: ExitStatus.INTERRUPTED,
    Unavailable: ExitStatus.UNUSABLE,
    TenantryError: ExitStatus.USAGE,
}

UNUSABLE = "The catalog cannot be used:"
"""The beginning of a message that goes on with names; only these words are those of a fleet."""
# What to do, for errors with a message that does not include it.
ADVICE: dict[type[TenantryError], str] = {
    AdminEmailInUse: "`tenantry admin list` lists the admins.",
    AdminNotFound: "`tenantry admin list` lists the admins.",
    ArchiveForeign: "Set that key, or restore it with --as NAME --foreign.",
    ArchiveNotFound: "`tenantry backup list` lists the archives.",
    ArchiveOfOther: "Use --as NAME.",
    ApiKeyNotFound: "`tenantry key list TENANT` lists the keys.",
    CatalogUnusable: "Run `tenantry doctor`.",
    CredentialsInUse: "Use --as NAME.",
    DeletedTenantNotFound: "`tenantry tenant list --deleted` lists the deleted tenants.",
    FolderMissing: "Check --from.",
    EmailInUse: "`tenantry user list TENANT` lists the users.",
    McpTokenNotFound: "`tenantry token list TENANT` lists the tokens.",
    MigrationRunNotFound: "`tenantry migrate history` lists the runs.",
    NothingToRetry: "If no process works on it, `tenantry migrate continue RUN` does.",
    RunNotHolding: "If no process works on it, `tenantry migrate continue RUN` does.",
    RunUnfinished: "If no process works on it, `tenantry migrate continue RUN` does.",
    TenantActive: "Run `tenantry tenant suspend TENANT`.",
    TenantExists: "Use --replace TENANT, or --as NAME.",
    TenantNameInUse: "Choose another name (for `undelete`, with --name).",
    TenantNotFound: "`tenantry tenant list` lists the tenants.",
    TenantsHeld: "Use `tenantry migrate continue RUN` (of a run that holds, with --wave N).",
    TenantReadOnly: "If it is not being moved, run `tenantry tenant activate TENANT`.",
    UnknownServer: "The setting TENANTRY_TENANT_SERVERS has the names of the servers.",
    UserNotFound: "`tenantry user list TENANT` lists the users.",
    WrongName: "`tenantry tenant show TENANT` shows the name.",
    WrongSecretKey: "Set the key that the catalog was created with.",
}


def status_of(error: TenantryError) -> ExitStatus:
    """Return the exit status for *error*."""
    return next(STATUS[category] for category in type(error).__mro__ if category in STATUS)


def explain(error: TenantryError, context: Any = None) -> str:
    """Return the message of *error*, its cause and the advice for it, in one line.

    *context* is that of a command, whose words it has where no name can be among them.

    A database that is not available has one message for many causes: the cause replaces it.
    """
    message = error.message
    if message == (type(error).__doc__ or "").partition("\n")[0]:
        message = named(message, context)
    message = message.replace(UNUSABLE, named(UNUSABLE, context), 1)
    if isinstance(error, DatabaseUnavailable | ServerAway) and error.__cause__ is not None:
        cause = causes.explain(error.__cause__)
        message = cause if type(error) in causes.OF_ANY_CAUSE else f"{message} {cause}"
    advice = named(ADVICE.get(type(error), ""), context)
    return " ".join(f"{message} {advice}".split())
