"""A shape: a small Alembic project, for a comparison of its effects."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version

from packaging.version import Version

SQLITE = frozenset({"sqlite"})
POSTGRESQL = frozenset({"postgresql"})
BOTH = SQLITE | POSTGRESQL
NEITHER: frozenset[str] = frozenset()
INSTALLED = Version(version("sqlalchemy"))

# The database before every shape, on either engine.
SETUP = {
    "sqlite": """
        CREATE TABLE note (id INTEGER PRIMARY KEY, text VARCHAR(80));
        CREATE TABLE person (
            id INTEGER PRIMARY KEY, name VARCHAR(80) NOT NULL UNIQUE, age INTEGER,
            note_id INTEGER REFERENCES note (id)
        );
        CREATE TABLE seen (id INTEGER PRIMARY KEY, text TEXT);
        INSERT INTO note (text) VALUES ('one'), ('two'), (NULL);
        INSERT INTO person (name, age, note_id) VALUES ('Ada', 36, 1), ('Bob', NULL, NULL);
    """,
    "postgresql": """
        CREATE TABLE note (id SERIAL PRIMARY KEY, text VARCHAR(80));
        CREATE TABLE person (
            id SERIAL PRIMARY KEY, name VARCHAR(80) NOT NULL UNIQUE, age INTEGER,
            note_id INTEGER REFERENCES note (id)
        );
        CREATE TABLE seen (id SERIAL PRIMARY KEY, text TEXT);
        INSERT INTO note (text) VALUES ('one'), ('two'), (NULL);
        INSERT INTO person (name, age, note_id) VALUES ('Ada', 36, 1), ('Bob', NULL, NULL);
    """,
}
# A database that Alembic has known before.
VERSION_TABLE = """
    CREATE TABLE alembic_version (
        version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
    );
"""
# Above every revision, after the modules of Python that it names.
HEAD = """
from sqlalchemy.dialects import postgresql
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker

note = sa.table("note", sa.column("id", sa.Integer), sa.column("text", sa.String))
person = sa.table(
    "person", sa.column("id", sa.Integer), sa.column("name", sa.String),
    sa.column("age", sa.Integer), sa.column("note_id", sa.Integer),
)
seen = sa.table("seen", sa.column("text", sa.Text))


def see(*values):
    op.execute(seen.insert().values(text=repr(values)))
"""


@dataclass(frozen=True)
class Rev:
    """One revision of a shape that is not a plain line.

    Attributes:
        id: Its id; the file is named after it.
        body: Of its ``upgrade``.
        down: The revisions before it.
        more: Further lines of the module, such as ``depends_on = "b"``.
        source: The whole file, in place of all of this but the id.
        below: A folder in ``versions``.
    """

    id: str
    body: str = "pass"
    down: str | tuple[str, ...] | None = None
    more: str = ""
    source: str = ""
    below: str = ""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A small Alembic project.

    Attributes:
        name: What is special about it.
        revisions: Of the project.
        head: Above each ``upgrade``, after the imports that all have.
        setup: SQL that runs before, in addition to `SETUP`.
        engines: On which plain Alembic runs it.
        fails: The engines on which plain Alembic fails, and Tenantry has to fail too.
        loses: The engines on which plain Alembic reports success, and the new version is not in
            the database: its work is lost, or is done again. Tenantry has to refuse.
        varies: Columns, as ``table.column``, with other values in each run.
        files: Other files of the project, by their paths in it.
        ini: More lines of ``alembic.ini``.
        signature: The parameters of ``upgrade``.
        decorator: The lines above ``upgrade``.
        metadata: The ``target_metadata`` of ``env.py``.
        configure: More arguments of ``context.configure`` in ``env.py``.
        driver: Of plain Alembic on PostgreSQL, and of Tenantry.
        since: The first version of SQLAlchemy on which plain Alembic runs it.
    """

    name: str
    revisions: Sequence[Rev]
    head: str = ""
    setup: str = ""
    engines: frozenset[str] = BOTH
    fails: frozenset[str] = NEITHER
    loses: frozenset[str] = NEITHER
    varies: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    ini: str = ""
    signature: str = ""
    decorator: str = ""
    metadata: str = "None"
    configure: str = ""
    driver: str = "psycopg"
    since: str = "2.0"

    @property
    def all_engines(self) -> frozenset[str]:
        """The engines on which it is run."""
        is_runnable = Version(self.since) <= INSTALLED
        return (self.engines | self.fails | self.loses) if is_runnable else NEITHER


def shape(
    name: str,
    *revisions: str | Rev,
    engines: frozenset[str] = BOTH,
    fails: frozenset[str] = NEITHER,
    loses: frozenset[str] = NEITHER,
    metadata: str = "None",
    head: str = "",
    setup: str = "",
    varies: tuple[str, ...] = (),
    files: Mapping[str, str] | None = None,
    ini: str = "",
    signature: str = "",
    decorator: str = "",
    configure: str = "",
    driver: str = "psycopg",
    since: str = "2.0",
) -> Shape:
    """Return a shape; revisions that are given as bodies follow each other."""
    made: list[Rev] = []
    for number, one in enumerate(revisions, 1):
        if isinstance(one, Rev):
            made.append(one)
        else:
            made.append(Rev(f"r{number}", one, made[-1].id if made else None))
    return Shape(
        name=name,
        revisions=made,
        engines=engines,
        fails=fails,
        loses=loses,
        metadata=metadata,
        head=head,
        setup=setup,
        varies=varies,
        files=files or {},
        ini=ini,
        signature=signature,
        decorator=decorator,
        configure=configure,
        driver=driver,
        since=since,
    )
