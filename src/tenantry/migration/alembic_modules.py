"""``alembic.op`` and ``alembic.context``, one for each thread that runs a revision.

In Alembic, both modules forward to one `Operations` object of the process. Here each module
forwards to an object of the calling thread. So every way to use it works (``import alembic.op``,
an alias, a helper that imports ``op``), and no revision writes into the database of another.

This replaces the private attribute ``_proxy`` of Alembic's proxy modules, as in Alembic 1.16 to
1.20: a test checks the bounds of the version.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import alembic.context
import alembic.op
import sqlalchemy as sa
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext

from tenantry.kit.errors import Unavailable

OP = alembic.op
VERSION_TABLE = "alembic_version"


class OperationsOutside(Unavailable):
    """`alembic.op` was used outside `upgrade()`, or in another thread than that of `upgrade()`."""


class EnvironmentMissing(Unavailable):
    """The revision uses a part of `env.py` or of Alembic's command line that is not available."""


# As in Alembic's own template of an env.py.
_OPTIONS = {
    "as_sql": False,
    "literal_binds": False,
    "target_metadata": None,
    "transaction_per_migration": False,
}

_running = threading.local()


@contextmanager
def installed(op: Operations, on_use: Callable[[], None]) -> Iterator[None]:
    """Make ``alembic.op`` and ``alembic.context`` use *op* in this thread, during the block.

    *on_use* is called whenever *op* is used through these modules.
    """
    install()
    _running.op, _running.on_use = op, on_use
    try:
        yield
    finally:
        del _running.op, _running.on_use


@contextmanager
def noting(on_refusal: Callable[[Exception], object]) -> Iterator[None]:
    """Call *on_refusal* with each error of this module in this thread, even if it is caught."""
    _running.on_refusal = on_refusal
    try:
        yield
    finally:
        del _running.on_refusal


def _refuse(refusal: Exception) -> NoReturn:
    if on_refusal := getattr(_running, "on_refusal", None):
        on_refusal(refusal)
    raise refusal


def install() -> None:
    """Install the proxies; again before each use, because Alembic's commands replace them."""
    for module, proxy in ((alembic.op, _OP), (alembic.context, _CONTEXT)):
        vars(module)["_proxy"] = proxy
        vars(module)["__getattr__"] = proxy.__getattr__


def _current() -> Operations:
    try:
        op: Operations = _running.op
    except AttributeError:
        _refuse(OperationsOutside())
    _running.on_use()
    return op


class _ThreadOperations:
    """The operations of the calling thread."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # the import system reads these from a module
            raise AttributeError(name)
        return getattr(_current(), name)


class _ThreadEnvironment:
    """The part of Alembic's environment that does not depend on ``env.py``, for revisions."""

    def is_offline_mode(self) -> bool:
        """Return False: there is a database."""
        return False

    def get_context(self) -> MigrationContext:
        """Return the context of the revision."""
        return _current().migration_context

    def get_bind(self) -> Any:
        """Return the connection of the revision."""
        return _current().get_bind()

    def execute(self, sql: Any, execution_options: dict[str, Any] | None = None) -> None:
        """Send a statement."""
        _current().execute(sql, execution_options=execution_options)

    def get_tag_argument(self) -> None:
        """Return None: there is no ``--tag``."""

    def get_x_argument(self, *_: object, **__: object) -> NoReturn:
        """Raise `EnvironmentMissing`: there are no ``-x`` arguments."""
        _refuse(
            EnvironmentMissing(
                "The revision reads the -x arguments of Alembic's command line, which Tenantry "
                "does not have: read a setting from the environment instead."
            )
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        _refuse(
            EnvironmentMissing(
                f"The revision uses context.{name} of Alembic's env.py, which Tenantry does not "
                "run: use op.get_bind() for the database, and the environment for a setting."
            )
        )


class RevisionContext(MigrationContext):
    """Alembic's context of one revision, with the options of Alembic's own template.

    There is no connection while a revision is recorded. ``env.py`` sets *version_table* if it has
    another name.
    """

    def __init__(
        self, dialect: sa.Dialect, connection: sa.Connection | None, version_table: str
    ) -> None:
        named = {} if version_table == VERSION_TABLE else {"version_table": version_table}
        super().__init__(dialect, connection, {**_OPTIONS, **named})
        del self.script, self.environment_context  # see `__getattr__`

    def __getattr__(self, name: str) -> Any:
        """Raise `EnvironmentMissing` for what ``env.py`` would set."""
        if name in {"script", "environment_context"}:
            return _CONTEXT.script if name == "script" else _CONTEXT.config
        raise AttributeError(name)


_OP = _ThreadOperations()
_CONTEXT = _ThreadEnvironment()
