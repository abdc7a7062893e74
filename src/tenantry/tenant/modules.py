"""The modules of the product, and which of them a tenant has."""

import msgspec

from tenantry.catalog.tenants import Tenant
from tenantry.kit.errors import Forbidden, Invalid

BLOG = "blog"
MCP = "mcp"


class ModuleInactive(Forbidden):
    """The module is not active for this tenant."""


class UnknownModule(Invalid):
    """`modules` contains an unknown module."""


class Module(msgspec.Struct, frozen=True):
    """A part of the product that can be activated for a tenant.

    Attributes:
        key: What requests name it by.
        name: Its name, for people.
        description: What it is for.
    """

    key: str
    name: str
    description: str


MODULES = (
    Module(BLOG, "Blog", "Posts, drafts and their publication"),
    Module(MCP, "MCP", "Tools for assistants, and their McpTokens"),
)
ALL_KEYS = frozenset(module.key for module in MODULES)


def active(tenant: Tenant) -> list[Module]:
    """Return the modules that are on for *tenant*."""
    return [module for module in MODULES if module.key in tenant.modules]


def require(tenant: Tenant, key: str) -> None:
    """Check that the module *key* is on for *tenant*.

    Raises:
        ModuleInactive: It is off.
    """
    if key not in tenant.modules:
        raise ModuleInactive


def checked_keys(keys: list[str]) -> frozenset[str]:
    """Return *keys* as a set.

    Raises:
        UnknownModule: One of them is unknown.
    """
    if not ALL_KEYS.issuperset(keys):
        raise UnknownModule(f"`modules` may hold {', '.join(sorted(ALL_KEYS))}.")
    return frozenset(keys)
