"""A recorded revision does exactly what it does live."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from types import ModuleType

import pytest
import sqlalchemy as sa

from tenantry.migration import dialects
from tenantry.migration.recorder import RECORD_SECONDS_MAX, Unrecorded, examine, record
from tenantry.migration.run_scripts import RunScripts
from tenantry.migration.schema_state import Applied
from tenantry.migration.streams import Revision, Stream, Streams
from tenantry.tenant.stream import STREAM
from testkit import raw_sql
from testkit.revisions import AlembicFolder, imports
from tests.integration import difficult_revisions
from tests.integration.conftest import Rig
from tests.integration.difficult_revisions import Shape
from tests.own_time import own_seconds

# As in production, where a warning is no error.
pytestmark = pytest.mark.filterwarnings("ignore")

# It catches everything without the word.
SWALLOW = """
class Swallow:
    def __enter__(self):
        pass

    def __exit__(self, *error):
        return True
"""
DIALECTS = {"sqlite": dialects.SQLITE, "postgresql": dialects.postgresql((18, 4))}


def add(folder: AlembicFolder, shapes: list[Shape], *, online: bool = False) -> None:
    for number, shape in enumerate(shapes):
        head = f"{imports(shape.body)}{difficult_revisions.HEAD}\nonline = {online}\n"
        folder.add(f"u{number:02}_{shape.name}", shape.body, head=head)


# SQLAlchemy before 2.0.58 replaces the text `%(x)s` on SQLite, so a revision with it runs live.
REPLACES_NAMES = tuple(map(int, sa.__version__.split(".")[:3])) < (2, 0, 58)


def _install(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """Make *path* a module, with its packages, in which every name is a type."""
    parent = None
    for end in range(1, path.count(".") + 2):
        name = ".".join(path.split(".")[:end])
        module = ModuleType(name)
        module.__path__ = []  # type: ignore[attr-defined]
        for one in ("AutoString", "Vector", "VECTOR", "UUIDType"):
            vars(module)[one] = sa.String
        monkeypatch.setitem(sys.modules, name, module)
        if parent is not None:
            vars(parent)[name.rpartition(".")[2]] = module
        parent = module


def revision(folder: AlembicFolder, body: str, *, head: str = difficult_revisions.HEAD) -> Revision:
    folder.add("a_one", body, head=f"{imports(body)}{head}")
    return Stream("user", folder.path).revisions[0]


class TestRecorded:
    @pytest.mark.parametrize("default", ["func.now()", "sa.func.now()", "sa.text('now()')"])
    def test_is_the_clock_of_the_database(self, folder: AlembicFolder, default: str):
        body = f"""op.add_column("note", sa.Column("at", sa.DateTime, server_default={default}))"""
        one = revision(folder, body, head="from sqlalchemy import func")

        assert "now" in str(record(one, DIALECTS["postgresql"]))

    @pytest.mark.parametrize(
        ("body", "head"),
        [
            ("pass", "import sqlmodel"),
            ("t = sqlmodel.sql.sqltypes.AutoString(length=9)", "import sqlmodel"),
            ("t = AutoString()", "from sqlmodel.sql.sqltypes import AutoString"),
            ("t = pgvector.sqlalchemy.Vector(3)", "import pgvector.sqlalchemy"),
            ("t = pgvector.sqlalchemy.vector.VECTOR(3)", "import pgvector"),
            ("t = utils.types.uuid.UUIDType()", "import sqlalchemy_utils as utils"),
            ("x: Sequence[str] = ()", "from collections.abc import Sequence"),
            ("pass", "import typing\nif typing.TYPE_CHECKING:\n    import requests"),
            ("dialect = op.get_bind().dialect.name", ""),
            ("name = op.get_bind().engine.dialect.name", ""),
            ("name = op.get_context().dialect.name", ""),
        ],
    )
    def test_is_what_takes_only_types_or_the_name_of_the_dialect(
        self, folder: AlembicFolder, monkeypatch: pytest.MonkeyPatch, body: str, head: str
    ):
        """The packages are not installed here; these have the places of their types."""
        for path in ("sqlmodel.sql.sqltypes", "pgvector.sqlalchemy.vector"):
            _install(monkeypatch, path)
        _install(monkeypatch, "sqlalchemy_utils.types.uuid")
        one = revision(folder, f"{body}\nop.execute('SELECT 1')", head=head)

        for dialect in DIALECTS.values():
            assert record(one, dialect) == ("SELECT 1",), examine(one, dialect)[1]

    @pytest.mark.slow
    async def test_leaves_what_a_live_run_leaves(
        self,
        rig: Rig,
        folder: AlembicFolder,
        engine: str,
        new_database: Callable[[], str],
    ):
        """Schema and data, byte by byte, over every shape."""
        shapes = [shape for shape in difficult_revisions.SHAPES if engine in shape.engines]
        add(folder, shapes)
        live_folder = AlembicFolder(folder.path / "live")
        add(live_folder, shapes, online=True)
        url, live_url = [await rig.initialise(new_database()) for _ in range(2)]

        recorded = await rig.migrate(url)
        live = await Rig(rig.migrator, live_folder).migrate(live_url)

        assert recorded.error is None, repr(recorded.error.__cause__)
        assert live.error is None, repr(live.error.__cause__)
        assert raw_sql.written(url) == raw_sql.written(live_url)
        assert "tab\there" in raw_sql.written(url), "or the test says nothing"

    @pytest.mark.parametrize(
        "shape",
        [*difficult_revisions.SHAPES, *difficult_revisions.RANDOM],
        ids=lambda shape: str(shape.name),
    )
    def test_is_what_can_be(self, folder: AlembicFolder, shape: Shape):
        for engine in shape.engines:
            one = AlembicFolder(folder.path / engine)
            recording = record(revision(one, shape.body), DIALECTS[engine])

            is_replaced = REPLACES_NAMES and engine == "sqlite" and "%(" in shape.body
            expected = engine in shape.recorded and not is_replaced
            assert (recording is not Unrecorded.LIVE) == expected, engine


class TestLive:
    @pytest.mark.parametrize(
        ("body", "head"),
        [
            ("op.execute('SELECT 1')", "online = True"),
            ("op.get_bind().engine.connect()", ""),
            ("op.get_bind().commit(); op.get_bind().get_isolation_level()", ""),
            ("assert op.get_context().get_current_revision() is None", ""),
            ("if op.get_bind().execute(sa.text('SELECT 1')): pass", ""),
            ("len(op.get_bind().execute(sa.text('SELECT 1')))", ""),
            ("op.get_bind().connection.driver_connection.total_changes", ""),
            ("op.get_bind().connection.cursor().fetchall()", ""),
            ("raise SystemExit", ""),
            ("raise KeyboardInterrupt", ""),
            ("1 / 0", ""),
            ("op.no_such_thing()", ""),
            ("with suppress(Exception): op.execute('x')", "from contextlib import suppress"),
            ("sa.text('x')", "from sqlalchemy.ext.compiler import compiles"),
            ("op.execute(sa.text('SELECT 1').execution_options(a=1))", ""),
            ("op.get_context().impl.connection.dialect.paramstyle", ""),
            ("import time", ""),
            ("import threading", ""),
            ("text = open('/etc/hostname').read()", ""),
            ("op.execute(f\"SELECT '{open('/etc/hostname').read()}'\")", ""),
            ("text = Path('/').is_dir()", "from pathlib import Path"),
            ("text = os.environ.get('PATH')", "import os"),
            ("print('half-way')", ""),
            ("sa.create_engine('sqlite://').connect()", ""),
            ("op.get_context().dialect.driver", ""),
            ("op.execute(f\"SELECT '{date.today()}'\")", "from datetime import date"),
            ("op.execute(f'SELECT {dt.datetime.now().year}')", "import datetime as dt"),
            ("with Swallow(): op.get_bind().scalar(sa.text('SELECT 1'))", SWALLOW),
        ],
    )
    @pytest.mark.parametrize("engine", sorted(DIALECTS))
    def test_is_what_asks_or_fails(self, folder: AlembicFolder, engine: str, body: str, head: str):
        assert record(revision(folder, body, head=head), DIALECTS[engine]) is Unrecorded.LIVE

    @pytest.mark.parametrize(
        ("body", "head"),
        [
            ("open(PATH, 'w').close()", ""),
            ("Path(PATH).touch()", "from pathlib import Path"),
            ("os.mkdir(PATH)", "import os"),
            ("os.open(PATH, os.O_CREAT)", "import os"),
            ("shutil.copy(__file__, PATH)", "import shutil"),
            ("tempfile.mkstemp(dir=os.path.dirname(PATH))", "import os, tempfile"),
            ("urlopen('http://127.0.0.1:9')", "from urllib.request import urlopen"),
            ("SMTP('127.0.0.1', 9)", "from smtplib import SMTP"),
            ("os.system(f'touch {PATH}')", "import os"),
            ("subprocess.run(['touch', PATH])", "import subprocess"),
            ("sqlite3.connect(PATH).execute('CREATE TABLE t (i)')", "import sqlite3"),
            ("logging.FileHandler(PATH)", "import logging"),
        ],
    )
    def test_is_what_acts_outside_the_process_and_recording_does_not(
        self, folder: AlembicFolder, tmp_path: Path, body: str, head: str
    ):
        path = tmp_path / "touched"
        one = revision(folder, body, head=f"{head}\nPATH = {str(path)!r}")

        before = sorted(tmp_path.iterdir())
        assert record(one, dialects.SQLITE) is Unrecorded.LIVE
        assert sorted(tmp_path.iterdir()) == before

    def test_is_what_catches_that_it_may_not_act(self, folder: AlembicFolder, tmp_path: Path):
        helper = "class Swallow(ExitStack):\n    pass\n"
        path = tmp_path / "touched"
        body = f"with Swallow() as stack: stack.push(lambda *_: True); open({str(path)!r}, 'w')"
        one = revision(folder, body, head=f"from contextlib import ExitStack\n{helper}")

        assert record(one, dialects.SQLITE) is Unrecorded.LIVE
        assert not path.exists()

    @pytest.mark.slow
    def test_is_what_takes_too_long(self, folder: AlembicFolder):
        with own_seconds() as seconds:
            recording = record(
                revision(folder, "sum(1 for _ in range(100_000_000))"),
                dialects.SQLITE,
            )
            took = seconds()

        assert recording is Unrecorded.LIVE
        assert took < RECORD_SECONDS_MAX + 2

    @pytest.mark.parametrize("sql", ["SELECT 1; COMMIT", r"SELECT 'a\b'"])
    def test_is_what_ends_the_transaction_or_depends_on_settings_of_postgresql(
        self, folder: AlembicFolder, sql: str
    ):
        one = revision(folder, f"op.execute({sql!r})")

        assert record(one, DIALECTS["postgresql"]) is Unrecorded.LIVE

    @pytest.mark.parametrize(
        "sql",
        [
            "COMMIT",
            "-- one\nROLLBACK",
            "; END",
            "PRAGMA foreign_keys = ON",
            "ATTACH ':memory:' AS m",
        ],
    )
    def test_is_what_needs_the_guard_of_sqlite(self, folder: AlembicFolder, sql: str):
        """Recorded statements are sent without it."""
        one = revision(folder, f"op.execute({sql!r})")

        assert record(one, DIALECTS["sqlite"]) is Unrecorded.LIVE

    def test_is_not_what_has_an_end_in_the_body_of_a_trigger(self, folder: AlembicFolder):
        sql = "CREATE TRIGGER t AFTER INSERT ON note BEGIN DELETE FROM note; END"
        one = revision(folder, f"op.execute({sql!r})")

        assert record(one, DIALECTS["sqlite"]) == (sql,)


class TestReason:
    @pytest.mark.parametrize(
        ("body", "head", "reason"),
        [
            ("pass", "import requests, app.models", "imports app, requests"),
            ("pass", "from . import helper", "imports ."),
            ("s = sqlmodel.Session", "import sqlmodel", "uses sqlmodel.Session, which is no type"),
            ("f(sqlmodel)", "import sqlmodel", "uses sqlmodel, which is no type"),
            ("pass", "from sqlmodel import *", "uses *, which is no type"),
            ("open('a')", "", "uses open"),
            ("op.get_bind().scalar(sa.text('SELECT 1'))", "", "uses its connection (line {})"),
            ("op.get_bind().dialect.driver", "", "uses the dialect, other than dialect.name"),
            ("x = op.get_context().dialect", "", "uses the dialect, other than dialect.name"),
            ("try:\n    x = 1\nexcept ValueError:\n    pass", "", "handles errors (line {})"),
            ("pass", "online = True", "has online = True"),
            ("1 / 0", "", "raises ZeroDivisionError without a database"),
            ("op.execute('DELETE FROM alembic_version')", "", "names alembic_version"),
            ("uuid.uuid4()", "import uuid", "uses uuid4"),
        ],
    )
    def test_is_told_of_a_live_revision(
        self, folder: AlembicFolder, body: str, head: str, reason: str
    ):
        folder.add("a_one", body, head=head)
        # Not by its stream, which imports it.
        one = Revision("user", "a", frozenset(), folder.path / "versions" / "a_one.py")
        lines = one.source.splitlines()
        found = examine(one, DIALECTS["postgresql"])[1]

        places = [n for n, line in enumerate(lines, 1) if "scalar" in line or "except" in line]
        assert found == reason.format(*places)

    def test_is_found_once_in_a_run(self, folder: AlembicFolder):
        body = "sa.tries = getattr(sa, 'tries', 0) + 1\nop.get_bind().scalar(sa.text('SELECT 1'))"
        one = revision(folder, body)
        scripts = RunScripts(Streams(STREAM, Stream("user", folder.path)))
        wanted = [Applied("user", one.name)]
        try:
            found = [scripts.recorded(dialects.SQLITE, wanted, 9) for _ in range(2)]
            tries = vars(sa)["tries"]
        finally:
            del vars(sa)["tries"]

        assert found[0] == found[1]
        assert "uses its connection" in str(found[0])
        assert tries == 2  # a recording is compared with a second one

    def test_is_none_of_a_recorded_revision(self, folder: AlembicFolder):
        assert examine(revision(folder, "op.execute('SELECT 1')"), dialects.SQLITE)[1] is None

    def test_is_the_block_of_one_outside_a_transaction(self, folder: AlembicFolder):
        one = revision(folder, TestOutside.BLOCK)

        assert examine(one, DIALECTS["postgresql"])[1].startswith("has an autocommit_block")


class TestOutside:
    BLOCK = """
    with op.get_context().autocommit_block():
        op.create_index("ix", "note", ["text"], postgresql_concurrently=True)
    """

    @pytest.mark.parametrize("before", ["", "op.get_bind().scalar(sa.text('SELECT 1'))"])
    def test_is_what_has_a_block_on_postgresql(self, folder: AlembicFolder, before: str):
        one = revision(folder, f"{before}\n{dedent(self.BLOCK)}")

        assert record(one, DIALECTS["postgresql"]) is Unrecorded.AUTOCOMMIT
        assert record(one, DIALECTS["sqlite"]) is not Unrecorded.AUTOCOMMIT

    def test_is_what_swallows_that_it_cannot_leave(self, folder: AlembicFolder):
        helper = "def go(context):\n    with getattr(context, NAME)(): pass\n"
        head = f"{helper}NAME = 'autocommit' + '_block'\n"

        one = revision(folder, "go(op.get_context())", head=head)

        assert record(one, DIALECTS["postgresql"]) is Unrecorded.AUTOCOMMIT


@pytest.mark.slow
class TestRecording:
    async def test_of_many_runs_at_once_separates_them(
        self, rig: Rig, folder: AlembicFolder, new_database: Callable[[], str]
    ):
        """Each run records separately, and no revision gets the ``op`` of another."""
        urls = [await rig.initialise(new_database()) for _ in range(4)]
        for number in range(5):
            folder.add(
                f"u{number}_step",
                f"op.create_table('t{number}', sa.Column('id', sa.Integer))\n"
                f"sum(1 for _ in range(20_000))\n"
                f"op.execute('INSERT INTO t{number} VALUES ({number})')",
            )

        done = await asyncio.gather(*(rig.migrate(url) for url in urls))

        assert [one.error for one in done] == [None] * 4
        assert len({raw_sql.written(url) for url in urls}) == 1
