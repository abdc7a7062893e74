"""The exit status of each error, and what to do about it."""

from tenantry.access.signing import WrongSecretKey
from tenantry.catalog.admins import AdminEmailInUse, AdminNotFound
from tenantry.catalog.credentials import ApiKeyNotFound, McpTokenNotFound
from tenantry.catalog.runs import MigrationRunNotFound
from tenantry.catalog.tenants import TenantNameInUse, TenantNotFound
from tenantry.cli.exit_status import ExitStatus
from tenantry.fleet.lifecycle import ActivationFailed, TenantActive, UnknownServer, WrongName
from tenantry.fleet.migration_runs import RunGoesOn
from tenantry.kit.errors import (
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    TenantryError,
    Unauthenticated,
    Unavailable,
)
from tenantry.services import CatalogUnusable
from tenantry.settings import BadSettings
from tenantry.tenant.users import EmailInUse, UserNotFound

# The first class of an error's `__mro__` in this table decides.
STATUS: dict[type[TenantryError], ExitStatus] = {
    BadSettings: ExitStatus.UNUSABLE,
    WrongSecretKey: ExitStatus.UNUSABLE,
    ActivationFailed: ExitStatus.TENANTS_FAILED,
    RunGoesOn: ExitStatus.INTERRUPTED,
    Unavailable: ExitStatus.UNUSABLE,
    Invalid: ExitStatus.USAGE,
    Unauthenticated: ExitStatus.USAGE,
    Forbidden: ExitStatus.USAGE,
    NotFound: ExitStatus.USAGE,
    Conflict: ExitStatus.USAGE,
}

# What to do, where the message itself does not say it.
ADVICE: dict[type[TenantryError], str] = {
    AdminEmailInUse: "`tenantry admin list` shows them.",
    AdminNotFound: "`tenantry admin list` shows them.",
    ApiKeyNotFound: "`tenantry key list TENANT` shows them.",
    CatalogUnusable: "Run `tenantry doctor`.",
    EmailInUse: "`tenantry user list TENANT` shows whose.",
    McpTokenNotFound: "`tenantry token list TENANT` shows them.",
    MigrationRunNotFound: "`tenantry migrate history` shows the runs.",
    TenantActive: "Run `tenantry tenant suspend TENANT`.",
    TenantNameInUse: "Choose another name.",
    TenantNotFound: "`tenantry tenant list` shows them.",
    UnknownServer: "The setting TENANTRY_TENANT_SERVERS names them.",
    UserNotFound: "`tenantry user list TENANT` shows them.",
    WrongName: "`tenantry tenant show TENANT` shows it.",
    WrongSecretKey: "Set the key that the catalog was created with.",
}


def status_of(error: TenantryError) -> ExitStatus:
    """Return the exit status that *error* means."""
    return next(STATUS[category] for category in type(error).__mro__ if category in STATUS)


def explain(error: TenantryError) -> str:
    """Return *error* in one line, with what can be done about it."""
    return " ".join(f"{error.message} {ADVICE.get(type(error), '')}".split())
