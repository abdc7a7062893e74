"""How revisions are written as Python: imports, helpers, decorators, signatures."""

from tests.corpus.shape import BOTH, POSTGRESQL, Rev, shape

_INSERT = "execute(\"INSERT INTO note (text) VALUES ('x')\")"


def _whole(text: str) -> Rev:
    return Rev("a", source=f"revision = 'a'\ndown_revision = None\n{text}")


SHAPES = [
    shape(
        "op_under_an_alias",
        _whole(f"from alembic import op as o\ndef upgrade():\n    o.{_INSERT}\n"),
    ),
    shape(
        "import_alembic_op",
        _whole(f"import alembic.op\ndef upgrade():\n    alembic.op.{_INSERT}\n"),
    ),
    shape(
        "import_alembic",
        _whole(
            f"import alembic\nfrom alembic import op as _\ndef upgrade():\n    alembic.op.{_INSERT}\n"
        ),
    ),
    shape(
        "import_module_as",
        _whole(f"import alembic.op as operations\ndef upgrade():\n    operations.{_INSERT}\n"),
    ),
    shape(
        "import_inside_upgrade",
        _whole(f"def upgrade():\n    from alembic import op\n    op.{_INSERT}\n"),
    ),
    shape(
        "import_of_a_function",
        _whole(f"from alembic.op import execute\ndef upgrade():\n    {_INSERT}\n"),
    ),
    shape(
        "op_kept_by_another_name",
        _whole(f"from alembic import op\nrun = op.execute\ndef upgrade():\n    run{_INSERT[7:]}\n"),
    ),
    shape(
        "helper_that_imports_op",
        "add_notes('by a helper')",
        head="from helpers import add_notes",
        files={
            "helpers.py": """
                from alembic import op
                def add_notes(text):
                    op.execute(f"INSERT INTO note (text) VALUES ('{text}')")
            """
        },
    ),
    shape(
        "helper_that_reads",
        "op.execute(f\"INSERT INTO seen (text) VALUES ('{count_notes()}')\")",
        head="from helpers import count_notes",
        files={
            "helpers.py": """
                import sqlalchemy as sa
                from alembic import op
                def count_notes():
                    return op.get_bind().scalar(sa.text("SELECT count(*) FROM note"))
            """
        },
    ),
    shape(
        "helper_that_is_given_op",
        "add_notes(op)",
        head="from helpers import add_notes",
        files={
            "helpers.py": """
                def add_notes(op):
                    op.execute("INSERT INTO note (text) VALUES ('given')")
            """
        },
    ),
    shape(
        "helper_beside_the_versions",
        "add(op)",
        head="from migrations.helpers import add",
        files={
            "migrations/__init__.py": "",
            "migrations/helpers.py": """
                def add(op):
                    op.execute("INSERT INTO note (text) VALUES ('beside')")
            """,
        },
    ),
    shape(
        "helper_of_the_project",
        "op.execute(note.insert().values(text=WORD))",
        head="from shop.words import WORD",
        files={"shop/__init__.py": "", "shop/words.py": "WORD = 'imported'\n"},
    ),
    shape(
        "imports_another_revision",
        Rev("a", "op.execute(note.insert().values(text=TEXT))", more="TEXT = 'shared'"),
        Rev(
            "b",
            """
            import importlib.util
            from pathlib import Path
            (path,) = Path(__file__).parent.glob("a_*.py")
            spec = importlib.util.spec_from_file_location("other", path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            op.execute(note.insert().values(text=module.TEXT + " again"))
            """,
            "a",
        ),
    ),
    shape(
        "imports_what_is_not_there",
        "pass",
        head="import no_such_module_anywhere",
        fails=BOTH,
    ),
    shape("upgrade_with_keywords", f"op.{_INSERT}", signature="**kw"),
    shape("upgrade_with_default", f"op.{_INSERT}", signature="engine_name=None"),
    shape("upgrade_with_parameter", f"op.{_INSERT}", signature="engine_name", fails=BOTH),
    shape("upgrade_with_arguments", f"op.{_INSERT}", signature="*args, **kw"),
    shape("upgrade_async", f"op.{_INSERT}", head="import asyncio"),
    shape(
        "decorator_without_wraps",
        f"op.{_INSERT}",
        head="def logged(f):\n    def inner(*args, **kw):\n        return f(*args, **kw)\n    return inner",
        decorator="@logged",
    ),
    shape(
        "decorator_with_wraps",
        f"op.{_INSERT}",
        head="import functools\ndef logged(f):\n    @functools.wraps(f)\n"
        "    def inner(*args, **kw):\n        return f(*args, **kw)\n    return inner",
        decorator="@logged",
    ),
    shape(
        "decorator_that_skips",
        f"op.{_INSERT}",
        head="def never(f):\n    def inner():\n        pass\n    return inner",
        decorator="@never",
    ),
    shape(
        "decorator_from_a_helper",
        f"op.{_INSERT}",
        head="from helpers import noted",
        decorator="@noted",
        files={
            "helpers.py": """
                from alembic import op
                def noted(f):
                    def inner(*args, **kw):
                        f(*args, **kw)
                        op.execute("INSERT INTO seen (text) VALUES ('noted')")
                    return inner
            """
        },
    ),
    shape(
        "upgrade_is_a_lambda",
        _whole(f"from alembic import op\nupgrade = lambda: op.{_INSERT}\n"),
    ),
    shape(
        "upgrade_is_a_partial",
        _whole(
            "from functools import partial\nfrom alembic import op\n"
            "def work(text):\n    op.execute(f\"INSERT INTO note (text) VALUES ('{text}')\")\n"
            "upgrade = partial(work, 'partial')\n"
        ),
    ),
    shape(
        "upgrade_is_an_object",
        _whole(
            "from alembic import op\nclass Step:\n    def __call__(self):\n"
            f"        op.{_INSERT}\nupgrade = Step()\n"
        ),
    ),
    shape(
        "upgrade_from_a_helper",
        _whole("from helpers import upgrade\n"),
        files={"helpers.py": f"from alembic import op\ndef upgrade():\n    op.{_INSERT}\n"},
    ),
    shape(
        "upgrade_per_engine",
        "globals()[f'upgrade_{op.get_bind().dialect.name}']()",
        head=f"def upgrade_sqlite():\n    op.{_INSERT}\n"
        f"def upgrade_postgresql():\n    op.{_INSERT}\n",
    ),
    shape(
        "work_at_import",
        "op.execute(note.insert().values(text=WORDS[0]))",
        head="WORDS = [w.upper() for w in ['computed']]\nprint('imported')",
    ),
    shape("op_at_import", "pass", head=f"op.{_INSERT}"),
    shape(
        "calls_main_functions",
        "one()\ntwo()",
        head=f"def one():\n    op.{_INSERT}\ndef two():\n    see(2)",
    ),
    shape("star_import", _whole(f"from alembic.op import *\ndef upgrade():\n    {_INSERT}\n")),
    shape(
        "future_annotations",
        Rev(
            "a",
            source="from __future__ import annotations\nfrom alembic import op\n"
            "revision: str = 'a'\ndown_revision: str | None = None\n"
            f"def upgrade() -> None:\n    op.{_INSERT}\n",
        ),
    ),
    shape(
        "thread",
        """
        import threading
        thread = threading.Thread(target=lambda: op.execute(
            "INSERT INTO note (text) VALUES ('from a thread')"))
        thread.start()
        thread.join()
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "asyncio_run",
        """
        import asyncio
        async def word():
            await asyncio.sleep(0)
            return "awaited"
        op.execute(note.insert().values(text=asyncio.run(word())))
        """,
    ),
    shape(
        "prints_and_logs",
        """
        import logging
        logging.getLogger("alembic.runtime.migration").info("working")
        print("progress")
        op.execute("INSERT INTO note (text) VALUES ('logged')")
        """,
    ),
    shape(
        "custom_operation",
        "op.add_note('invoked')",
        head="""
        from alembic.operations import MigrateOperation, Operations

        @Operations.register_operation("add_note")
        class AddNote(MigrateOperation):
            def __init__(self, text):
                self.text = text

            @classmethod
            def add_note(cls, operations, text):
                return operations.invoke(cls(text))

        @Operations.implementation_for(AddNote)
        def add_note(operations, operation):
            operations.execute(note.insert().values(text=operation.text))
        """,
    ),
    shape(
        "custom_operation_that_reads",
        "op.count_notes()",
        head="""
        from alembic.operations import MigrateOperation, Operations

        @Operations.register_operation("count_notes")
        class CountNotes(MigrateOperation):
            @classmethod
            def count_notes(cls, operations):
                return operations.invoke(cls())

        @Operations.implementation_for(CountNotes)
        def count_notes(operations, operation):
            count = operations.get_bind().scalar(sa.text("SELECT count(*) FROM note"))
            operations.execute(seen.insert().values(text=str(count)))
        """,
    ),
    shape(
        "invoke",
        """
        from alembic.operations.ops import CreateTableOp, ExecuteSQLOp
        op.invoke(CreateTableOp("invoked", [sa.Column("id", sa.Integer)]))
        op.invoke(ExecuteSQLOp("INSERT INTO invoked VALUES (1)"))
        """,
    ),
    shape(
        "run_async",
        """
        async def work(connection):
            pass
        op.run_async(work)
        """,
        fails=BOTH,
    ),
    shape(
        "compiles_extension",
        "op.execute(Touch('note'))",
        head="""
        from sqlalchemy.ext.compiler import compiles
        from sqlalchemy.schema import DDLElement

        class Touch(DDLElement):
            inherit_cache = False
            def __init__(self, name):
                self.name = name

        @compiles(Touch)
        def _touch(element, compiler, **kw):
            return f"UPDATE {element.name} SET text = 'touched it'"
        """,
    ),
    shape(
        "event_listener_on_connection",
        """
        count = []
        bind = op.get_bind()
        sa.event.listen(bind, "before_cursor_execute", lambda *a: count.append(1))
        op.execute("INSERT INTO note (text) VALUES ('heard')")
        see(len(count))
        """,
    ),
    shape(
        "event_listener_on_engine_class",
        """
        texts = []
        def listen(connection, cursor, statement, *rest):
            texts.append(statement)
        sa.event.listen(sa.Engine, "before_cursor_execute", listen)
        op.execute("INSERT INTO note (text) VALUES ('heard')")
        sa.event.remove(sa.Engine, "before_cursor_execute", listen)
        op.execute(f"INSERT INTO seen (text) VALUES ('{len(texts)}')")
        """,
    ),
    shape(
        "table_listeners",
        """
        table = sa.Table("made", sa.MetaData(), sa.Column("id", sa.Integer))
        sa.event.listen(table, "after_create", sa.DDL("INSERT INTO made VALUES (5)"))
        table.create(op.get_bind())
        """,
    ),
    shape(
        "listener_on_every_engine",
        """
        see(op.get_bind().scalar(sa.text("SHOW TimeZone")))
        sa.event.remove(sa.Engine, "connect", listening.set_time_zone)
        """,
        head="import listening",
        files={
            "listening.py": """
                from sqlalchemy import Engine, event

                @event.listens_for(Engine, "connect")
                def set_time_zone(raw, record):
                    before, raw.autocommit = raw.autocommit, True
                    raw.cursor().execute("SET TIME ZONE 'Asia/Tokyo'")
                    raw.autocommit = before
            """
        },
        engines=POSTGRESQL,
    ),
]
