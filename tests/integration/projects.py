"""A team's Alembic project, made and run with Alembic itself, and databases that it has made."""

import functools
import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import dedent
from urllib.parse import quote

from tenantry.db.urls import sqlite_path
from testkit import raw_sql
from testkit.forked import run_module
from testkit.postgres import create_database
from testkit.programs import environment_of

DONE = "a2"
HEAD = "a4"
REVISIONS = {
    "a1_create_customers": """
        op.create_table(
            "customer",
            sa.Column("id", sa.Integer, primary_key=True),
            sa.Column("name", sa.String(80), nullable=False, unique=True),
            sa.Column("balance", sa.Numeric(10, 2), server_default="0", nullable=False),
            sa.CheckConstraint("balance >= 0", name="ck_balance"),
        )
    """,
    "a2_create_orders": """
        op.create_table(
            "order",
            sa.Column("id", sa.Integer, primary_key=True),
            sa.Column("customer_id", sa.Integer, sa.ForeignKey("customer.id", ondelete="CASCADE")),
            sa.Column("placed_at", sa.DateTime(timezone=True)),
            sa.Column("note", sa.Text),
        )
        op.create_index("ix_order_customer", "order", ["customer_id"])
        op.execute('CREATE VIEW ordered AS SELECT name, note FROM customer '
                   'JOIN "order" ON customer_id = customer.id')
        op.execute("INSERT INTO customer (name, balance) VALUES ('Ä & Söhne', 12.50), ('B', 0)")
        op.execute("INSERT INTO \\"order\\" (customer_id, note) VALUES (1, 'a\\ttab'), (2, NULL)")
    """,
    "a3_add_email": """
        op.add_column("customer", sa.Column("email", sa.String(200)))
    """,
    "a4_fill_email": """
        op.execute("UPDATE customer SET email = lower(name) || '@example.com'")
    """,
}

# Everything that a change would show in: files, owners, rights, and where each row lies.
_PG_RELATIONS = """
SELECT relname, oid, relfilenode, relkind, relowner, relacl::text, reloptions, relnatts
FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relname NOT LIKE '%tenantry\\_%'
ORDER BY 1
"""
_PG_RULES = """
SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE connamespace = 'public'::regnamespace AND conname NOT LIKE '%tenantry\\_%'
UNION ALL
SELECT attrelid::regclass || '.' || attname, format_type(atttypid, atttypmod) || attnotnull
FROM pg_attribute JOIN pg_class ON attrelid = pg_class.oid
WHERE relnamespace = 'public'::regnamespace AND relname NOT LIKE '%tenantry\\_%'
UNION ALL
SELECT 'database', datacl::text FROM pg_database WHERE datname = current_database()
UNION ALL
SELECT 'schema ' || nspname, nspacl::text FROM pg_namespace WHERE nspname !~ '^pg_'
ORDER BY 1, 2
"""
_SQLITE_SCHEMA = """
SELECT type, name, rootpage, sql FROM sqlite_master
WHERE tbl_name NOT LIKE 'tenantry\\_%' ESCAPE '\\' ORDER BY 1, 2
"""


@dataclass(frozen=True)
class Project:
    """A team's project: ``alembic.ini``, ``migrations/env.py``, ``migrations/versions``."""

    folder: Path

    @property
    def migrations(self) -> Path:
        return self.folder / "migrations"

    def set_url(self, url: str) -> None:
        """Set the database that ``alembic`` works on."""
        ini = self.folder / "alembic.ini"
        escaped = url.replace("postgresql://", "postgresql+psycopg://").replace("%", "%%")
        lines = [
            f"sqlalchemy.url = {escaped}" if one.startswith("sqlalchemy.url") else one
            for one in ini.read_text().splitlines()
        ]
        ini.write_text("\n".join(lines))

    def alembic(self, *arguments: str, url: str = "") -> None:
        """Run ``alembic`` on the database at *url*, as the team does."""
        if url:
            self.set_url(url)
        variables = environment_of()
        done = run_module("alembic", *arguments, folder=self.folder, environment=variables)
        assert done.returncode == 0, done.stderr


def make_project(folder: Path) -> Project:
    """Return a new project with all its revisions."""
    project = Project(folder)
    (project.migrations / "versions").mkdir(parents=True)
    for name, text in _initial_files().items():
        (folder / name).write_text(text)
    down = None
    for name, body in REVISIONS.items():
        revision = name.partition("_")[0]
        text = (
            "from alembic import op\nimport sqlalchemy as sa\n\n"
            f"revision = {revision!r}\ndown_revision = {down!r}\n\n"
            f"def upgrade() -> None:\n{_indented(body)}\n\ndef downgrade() -> None:\n    pass\n"
        )
        (project.migrations / "versions" / f"{name}.py").write_text(text)
        down = revision
    return project


@functools.cache
def _initial_files() -> dict[str, str]:
    """Return what `alembic init` writes; it is run once, because it takes half a second."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        Project(folder).alembic("init", "migrations")
        found = [one for one in folder.rglob("*") if one.is_file()]
        return {str(one.relative_to(folder)): one.read_text() for one in found}


@dataclass(frozen=True)
class Foreign:
    """A database that the team's project has made.

    Attributes:
        name: By which it is adopted.
        url: Of itself.
    """

    name: str
    url: str

    def own(self) -> object:
        """Return its own content; for a file, the file."""
        path = sqlite_path(self.url)
        if path is None:
            return own(self.url)
        beside = sorted(one.name for one in path.parent.iterdir() if one.name.startswith(path.name))
        return beside, hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns


def own(url: str) -> object:
    """Return the content of a database without the tables of Tenantry."""
    if sqlite_path(url) is not None:
        tables = [name for name in raw_sql.tables(url) if not name.startswith("tenantry_")]
        data = {name: raw_sql.rows(url, f'SELECT rowid, * FROM "{name}"') for name in tables}
        return raw_sql.rows(url, _SQLITE_SCHEMA), data
    tables = [name for name in raw_sql.tables(url) if not name.startswith("tenantry_")]
    sql = 'SELECT xmin::text, ctid::text, t::text FROM "{}" AS t ORDER BY ctid'
    data = {name: raw_sql.rows(url, sql.format(name)) for name in tables}
    return raw_sql.rows(url, _PG_RELATIONS), raw_sql.rows(url, _PG_RULES), data


def ours(url: str) -> list[str]:
    """Return the names in a database that are Tenantry's."""
    table, name = ("sqlite_master", "name") if sqlite_path(url) else ("pg_class", "relname")
    found = raw_sql.rows(url, f"SELECT {name} FROM {table} ORDER BY 1")
    return [str(one) for (one,) in found if "tenantry" in str(one)]


def make_foreign(project: Project, url: str) -> str:
    """Let the team bring the empty database at *url* to `DONE`; return *url*."""
    project.alembic("upgrade", DONE, url=url)
    return url


def copier(made: str, folder: Path, postgres_url: str) -> Callable[[str], Foreign]:
    """Return what makes copies of the database at *made* under other names."""
    path = sqlite_path(made)

    def copy_file(name: str) -> Foreign:
        assert path is not None
        copied = folder / f"{name}.db"
        shutil.copyfile(path, copied)
        return Foreign(str(copied), f"sqlite:///{copied}")

    def copy_database(name: str) -> Foreign:
        create_database(postgres_url, name, template=made.rpartition("/")[2])
        return Foreign(name, f"{postgres_url.rpartition('/')[0]}/{quote(name, safe='')}")

    return copy_database if path is None else copy_file


def _indented(body: str) -> str:
    return "\n".join(f"    {line}" for line in dedent(body).strip().splitlines())
