"""What in the text of a revision requires it to run live: imports, names, handlers of errors.

The rule depends on the file of the revision alone, and in doubt the revision runs live.
"""

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

from tenantry.migration.revisions import Revision, parse
from tenantry.migration.sql_files import SqlRevision

NAMES_SHOWN_MAX = 3
# Of revisions: a run reads those of the run before again, and some kilobytes take 5 ms each.
TEXTS_REMEMBERED_MAX = 256
# A revision that imports anything else is not recorded: it can read the clock, a file or the
# environment, handle errors, or keep state from one call to the next.
_PURE_MODULES = frozenset(
    {"__future__", "alembic", "collections", "dataclasses", "enum", "functools", "itertools"}
    | {"json", "re", "sqlalchemy", "string", "textwrap", "typing", "uuid"}
)
# Of these, only types may be used: SQLAlchemy asks them for the text of a column's type.
_TYPE_LIBRARIES = frozenset({"pgvector", "sqlalchemy_utils", "sqlmodel"})
_TYPE = re.compile(r"\w+Type|AutoString|BIT|GUID|HALFVEC|SPARSEVEC|VECTOR|Vector")
# What opens a connection to a database that the revision names itself.
_ENGINE_MAKERS = frozenset({"create_async_engine", "create_engine", "engine_from_config"})
_DRIVERS = frozenset({"aiosqlite", "asyncpg", "psycopg", "psycopg2", "sqlite3"})
# Nor is one with one of these names: it handles errors, listens to events, compiles statements
# itself, opens another database, acts outside the process, or is different each time.
_LIVE_NAMES = frozenset(
    {"__exit__", "event", "listen", "listens_for", "run_async"}
    | {"memo", "opts"}  # what an upgrade keeps from one revision to the next
    | {"compile", "compiles", "render_ddl_sql_expr"}
    | {"command", *_ENGINE_MAKERS}
    | {"breakpoint", "eval", "exec", "input", "open", "print"}
    | {"__builtins__", "__file__", "__import__", "__loader__", "__spec__"}
    | {"datetime", "dt", "os", "sys"}  # reached through another module
    | {"getnode", "uuid1", "uuid4", "uuid6", "uuid7"}
)
_TYPE_CHECKING = ("TYPE_CHECKING", "typing.TYPE_CHECKING")
# The fields of nodes of `ast` that contain a name.
_NAME_FIELDS = ("arg", "attr", "id", "name")


def read_source(revision: Revision, version_table: str, engine: str) -> tuple[str | None, bool]:
    """Return why the text of *revision* requires it to run live, if so; and whether it has a block.

    Args:
        revision: The revision.
        version_table: The name of the user's version table, which is written only at the end.
        engine: ``sqlite`` or ``postgresql``, for a revision in plain SQL.
    """
    if isinstance(revision, SqlRevision):
        return revision.why_live(engine, version_table), revision.part.is_outside
    try:
        return _read_text(revision.path.read_bytes(), version_table)
    except (OSError, SyntaxError, ValueError):  # it runs live, and reports this
        return "cannot be read", False


def own_connections(revision: Revision) -> list[str]:
    """Return with what the text of *revision*, which runs live, opens connections of its own."""
    try:
        nodes = list(_executed(parse(revision.path.read_bytes())))
    except (OSError, SyntaxError, ValueError):
        return []
    names = _names(nodes)
    imports = (one for one in nodes if isinstance(one, ast.Import | ast.ImportFrom))
    modules = {name for one in imports for name in _modules(one)}
    return sorted((names & _ENGINE_MAKERS) | (modules & _DRIVERS if "connect" in names else set()))


@lru_cache(TEXTS_REMEMBERED_MAX)
def _read_text(text: bytes, version_table: str) -> tuple[str | None, bool]:
    """Return what `read_source` does, for a file with this text."""
    nodes = list(_executed(parse(text)))
    names = _names(nodes)
    has_block = "autocommit_block" in names
    if version_table.encode() in text:
        return f"names {version_table}", has_block
    return next(_reasons(nodes, names), None), has_block


def _reasons(nodes: list[ast.AST], every: set[str]) -> Iterator[str]:
    """Yield the reasons, the imports first; *every* name is that of `_names`."""
    imports = [one for one in nodes if isinstance(one, ast.Import | ast.ImportFrom)]
    modules = {name for one in imports for name in _modules(one)}
    if foreign := sorted(modules - _PURE_MODULES - _TYPE_LIBRARIES):
        yield f"imports {_listed(foreign)}"
    if modules & _TYPE_LIBRARIES and (others := _used_without_type(nodes, imports)):
        yield f"uses {_listed(others)}, which is no type"
    # An `except` at the top level (around imports) does not concern the database.
    handlers = [one for one in nodes if isinstance(one, ast.ExceptHandler) and one.col_offset]
    if handlers:
        yield f"handles errors (line {min(one.lineno for one in handlers)})"
    if names := sorted(every & _LIVE_NAMES):
        yield f"uses {_listed(names)}"
    if _uses_dialect(nodes):
        yield "uses the dialect, other than dialect.name"


def _executed(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the nodes of a module, without what is below ``if TYPE_CHECKING``."""
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        yield node
        if isinstance(node, ast.If) and ast.unparse(node.test) in _TYPE_CHECKING:
            todo += node.orelse
        else:
            todo += ast.iter_child_nodes(node)


def _modules(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """Yield the packages that a statement imports; the dots of a relative import."""
    if isinstance(node, ast.Import):
        yield from (alias.name.partition(".")[0] for alias in node.names)
    else:
        yield "." * node.level or (node.module or "").partition(".")[0]


def _used_without_type(
    nodes: list[ast.AST], imports: list[ast.Import | ast.ImportFrom]
) -> list[str]:
    """Return what is used of the libraries of types, and is not a type."""
    bound: dict[str, str] = {}
    for one in imports:
        if not set(_modules(one)) & _TYPE_LIBRARIES:
            continue
        for alias in one.names:
            is_from = isinstance(one, ast.ImportFrom)
            path = alias.name if is_from or alias.asname else alias.name.partition(".")[0]
            bound[alias.asname or path] = path
    inner = {id(one.value) for one in nodes if isinstance(one, ast.Attribute)}
    found = set()
    for node in nodes:
        if not isinstance(node, ast.Attribute | ast.Name) or id(node) in inner:
            continue
        root, *names = ast.unparse(node).split(".")
        # A call or an index in the chain is a use of its own.
        last = names[-1] if names else bound.get(root, "")
        if root in bound and not _TYPE.fullmatch(last):
            found.add(ast.unparse(node))
    return sorted(found | ({"*"} & bound.keys()))


def _uses_dialect(nodes: list[ast.AST]) -> bool:
    """Return whether the dialect is used, other than in ``….dialect.name``.

    A variable of that name is harmless: nothing else can put a dialect into it.
    """
    named = {
        id(one.value) for one in nodes if isinstance(one, ast.Attribute) and one.attr == "name"
    }
    return any(
        "dialect" in str(getattr(node, key, "")).split(".")
        for node in nodes
        for key in ("arg", "attr", "name")
        if not (isinstance(node, ast.Attribute) and id(node) in named)
    )


def _names(nodes: list[ast.AST]) -> set[str]:
    """Return every name: of variables, attributes, functions, arguments, imports."""
    found = (getattr(node, key, None) for node in nodes for key in _NAME_FIELDS)
    return {part for name in found if isinstance(name, str) for part in name.split(".")}


def _listed(names: list[str]) -> str:
    more = ", …" if len(names) > NAMES_SHOWN_MAX else ""
    return ", ".join(names[:NAMES_SHOWN_MAX]) + more
