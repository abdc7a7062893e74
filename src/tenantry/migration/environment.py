"""Find the features of an Alembic project's ``env.py`` that are missing here; never run it."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tenantry.kit.errors import Unavailable
from tenantry.migration.alembic_modules import VERSION_TABLE
from tenantry.migration.revisions import parse

BYTES_MAX = 1_000_000
QUOTES = ("'", '"')

Found = tuple[int, str, str]
"""A line, the name of a feature, and the consequence."""

_IGNORED = "It only filters what Alembic generates, not what is migrated."
# Keywords of ``context.configure`` that change what a migration does.
_KEYWORDS = {
    "version_table_schema": "Your version table must be in a schema of the role's search_path: "
    "move it there, or migrate it with Alembic.",
    "include_object": _IGNORED,
    "include_name": _IGNORED,
    "include_schemas": _IGNORED,
    "transaction_per_migration": "All pending revisions of a tenant run in one transaction: if one "
    "fails, the earlier ones of the same run are rolled back, too.",
    "transactional_ddl": "All pending revisions of a tenant run in one transaction, also on "
    "SQLite.",
    "on_version_apply": "It is not called.",
}
# Keywords that only Alembic's own commands need, or that have the same effect here.
_HARMLESS = frozenset(
    {
        *("connection", "url", "dialect_name", "dialect_opts", "literal_binds", "as_sql"),
        *("output_buffer", "output_encoding", "starting_rev", "tag", "template_args"),
        *("render_as_batch", "compare_type", "compare_server_default", "render_item"),
        *("process_revision_directives", "upgrade_token", "downgrade_token", "purge"),
        *("alembic_module_prefix", "sqlalchemy_module_prefix", "user_module_prefix"),
        *("autogenerate_plugins", "version_table", "target_metadata", "version_table_pk"),
    }
)
_CALLS = {
    "listen": "It is not called: Tenantry does not create that engine.",
    "listens_for": "It is not called: Tenantry does not create that engine.",
    "get_x_argument": "There are no -x arguments: read a setting from the environment.",
    "register_operation": "The operation is not registered: register it in a module that the "
    "revisions import.",
    "implementation_for": "It is not used: register it in a module that the revisions import.",
    "CreateSchema": "The schema is not created: create it in a revision.",
}
_NAMING = (
    "If it has a naming convention, set TENANTRY_TENANT_NAMING_CONVENTION to it: otherwise a "
    "constraint without a name is named by the database."
)
_SQL = {
    r"\bSET\s+(SESSION\s+|LOCAL\s+)?(ROLE|SESSION\s+AUTHORIZATION)\b": (
        "SET ROLE",
        "Revisions run as the role of the tenant server's URL, which owns what they create.",
    ),
    r"\bCREATE\s+SCHEMA\b": ("CREATE SCHEMA", "Create the schema in a revision."),
    r"\bsearch_path\b": (
        "search_path",
        "Set it for the role or for the database (ALTER ROLE … SET search_path = …).",
    ),
    r"\bCREATE\s+EXTENSION\b": ("CREATE EXTENSION", "Create the extension in a revision."),
    r"\bPRAGMA\b": ("PRAGMA", "It is not sent: Tenantry sets up its own connections."),
    r"\b(lock|statement)_timeout\b": (
        "a timeout",
        "Set TENANTRY_LOCK_TIMEOUT_MS and TENANTRY_TENANT_DEADLINE_S.",
    ),
    r"\bpg_(try_)?advisory_": (
        "an advisory lock",
        "Tenantry has its own lock for each tenant.",
    ),
}


class BadEnvironment(Unavailable):
    """The version table of ``env.py`` cannot be read without executing it, or found."""


@dataclass(frozen=True)
class MissingFeature:
    """A feature in ``env.py`` that Tenantry does not have.

    Attributes:
        line: The line in ``env.py``.
        name: The name of the feature.
        consequence: The effect, and what to do.
    """

    line: int
    name: str
    consequence: str

    @property
    def found(self) -> str:
        """The name and the line, as text."""
        return f"Line {self.line}: {self.name}."


def read_environment(folder: Path, version_table: str) -> list[MissingFeature]:
    """Return the features of the ``env.py`` in *folder* that are missing here, by line.

    Args:
        folder: The Alembic directory.
        version_table: The version table in Tenantry's settings.
    """
    path = folder / "env.py"
    if not path.is_file():
        return []
    try:
        with path.open("rb") as file:
            tree = parse(file.read(BYTES_MAX))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return [MissingFeature(1, "it cannot be read as Python", "Nothing in it is checked.")]
    found: dict[tuple[str, str], MissingFeature] = {}
    for node in ast.walk(tree):
        for line, name, consequence in _missing(node, tree, version_table):
            found.setdefault((name, consequence), MissingFeature(line, name, consequence))
    return sorted(found.values(), key=lambda one: one.line)


def find_version_table(folder: Path) -> dict[str, str]:
    """Return the ``version_table`` that the ``env.py`` in *folder* configures; empty for Alembic's.

    Raises:
        BadEnvironment: It is no text in the call, or is in a schema of its own.
    """
    for one in read_environment(folder, VERSION_TABLE):
        name, _, value = one.name.partition("=")
        if name == "version_table" and value[:1] in QUOTES:
            return {name: ast.literal_eval(value)}
        if name.startswith("version_table"):
            raise BadEnvironment(f"env.py: {one.found} {one.consequence}")
    return {}


def _missing(node: ast.AST, tree: ast.Module, version_table: str) -> Iterator[Found]:
    if isinstance(node, ast.Call):
        yield from _missing_of_call(node, tree, version_table)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        for pattern, (name, consequence) in _SQL.items():
            if re.search(pattern, node.value, re.IGNORECASE):
                yield node.lineno, name, consequence
    elif isinstance(node, ast.keyword) and node.arg == "naming_convention":
        yield node.lineno, "naming_convention", _NAMING
    elif isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.path":
        consequence = "Revisions import from prepend_sys_path of alembic.ini: add the folder there."
        yield node.lineno, "sys.path", consequence


def _missing_of_call(node: ast.Call, tree: ast.Module, version_table: str) -> Iterator[Found]:
    name = ast.unparse(node.func).rpartition(".")[2]
    if name in _CALLS:
        yield node.lineno, name, _CALLS[name]
    if name == "run_migrations" and (node.args or node.keywords):
        yield node.lineno, "run_migrations(…)", "Its arguments are not passed to upgrade()."
    for keyword in node.keywords:
        if name == "configure" and not _is_off(keyword.value):
            yield from _missing_of_keyword(keyword, tree, version_table)
        if keyword.arg == "schema_translate_map":
            yield node.lineno, "schema_translate_map", "Names of schemas are used unchanged."


def _missing_of_keyword(
    keyword: ast.keyword, tree: ast.Module, version_table: str
) -> Iterator[Found]:
    name, value, line = keyword.arg, ast.unparse(keyword.value), keyword.value.lineno
    if name is None:
        consequence = "They cannot be read as text: compare them with the documentation."
        yield line, f"**{value}", consequence
    elif name == "version_table" and value != repr(version_table):
        consequence = f"Set TENANTRY_TENANT_VERSION_TABLE to it; it is {version_table} now."
        yield line, f"version_table={value}", consequence
    elif name == "target_metadata" and not _is_none(value, tree):
        yield line, "target_metadata", _NAMING
    elif name in _KEYWORDS:
        yield line, name, _KEYWORDS[name]
    elif name not in _HARMLESS:
        yield line, name, "Revisions do not see this option."


def _is_off(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value in (None, False)


def _is_none(name: str, tree: ast.Module) -> bool:
    """Return whether the module sets *name* to None and nothing else."""
    assigned = {
        ast.unparse(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if ast.unparse(target) == name
    }
    return assigned == {"None"}
