"""Revisions that are difficult to record."""

from dataclasses import dataclass

HEAD = """
from sqlalchemy.dialects import postgresql
from sqlalchemy.orm import Session

note = sa.table("note", sa.column("id", sa.Integer), sa.column("text", sa.String))
"""
BOTH = ("sqlite", "postgresql")
NEITHER: tuple[str, ...] = ()


@dataclass(frozen=True)
class Shape:
    """A revision.

    Attributes:
        name: What is difficult about it.
        body: Of its ``upgrade``.
        recorded: The engines on which it is recorded; on the others it runs live.
        engines: Those on which it makes sense.
    """

    name: str
    body: str
    recorded: tuple[str, ...] = BOTH
    engines: tuple[str, ...] = BOTH


SHAPES = [
    Shape(
        "create",
        r"""
        op.create_table(
            "note",
            sa.Column("id", sa.Integer, primary_key=True, comment="it's 100% :x \\ \t"),
            sa.Column("text", sa.String(80), server_default="tab\there, 100%, a :colon, it's \\n"),
            sa.Column("kind", sa.Enum("a", "b'c", "100%", name="note_kind"), nullable=True),
            sa.Column("at", sa.DateTime, server_default=sa.text("'2020-01-01 00:00:00'")),
            sa.Column("flag", sa.Boolean, server_default=sa.false(), nullable=False),
            sa.CheckConstraint("text <> 'a:b' AND text NOT LIKE '%y%%z'", name="ck_text"),
            sa.UniqueConstraint("id", "kind", name="uq_kind"),
            comment="100% \\ :y ''",
        )
        """,
        recorded=("sqlite",),
    ),
    Shape(
        "bulk_insert",
        r"""
        rows = [{"id": 1, "text": "tab\there"}, {"id": 2, "text": None}, {"id": 3, "text": "%s"}]
        op.bulk_insert(note, rows)
        op.bulk_insert(note, [{"id": 4, "text": ":x \\ $1"}], multiinsert=False)
        """,
        recorded=("sqlite",),
    ),
    Shape(
        "plain",
        r"""
        op.create_table(
            "plain",
            sa.Column("id", sa.Integer, primary_key=True, comment="it's 100% :x \t"),
            sa.Column("text", sa.String(80), server_default="tab\there, 100%, a :colon, it's"),
            sa.Column("kind", sa.Enum("a", "b'c", "100%", name="plain_kind"), nullable=True),
            sa.Column("flag", sa.Boolean, server_default=sa.false(), nullable=False),
            sa.CheckConstraint("text <> 'a:b' AND text NOT LIKE '%y%%z'", name="ck_plain"),
        )
        op.create_index("ix_plain", "plain", ["text", sa.text("lower(text)")], unique=True)
        plain = sa.table("plain", sa.column("id", sa.Integer), sa.column("text", sa.String),
                         sa.column("flag", sa.Boolean))
        op.bulk_insert(plain, [
            {"id": 1, "text": "tab\there 'q' 100% :x $1 ? -- no ; /* */", "flag": True},
            {"id": -2**31 + 1, "text": None, "flag": None or False},
        ])
        op.bulk_insert(plain, [{"id": 3, "text": "%s %(x)s %%"}], multiinsert=False)
        op.execute(plain.insert().values(id=4, text="four"))
        op.execute(plain.update().where(plain.c.id == 4).values(text="vier", flag=True))
        op.execute(plain.update().where(plain.c.id.in_([3, 4])).values(flag=sa.true()))
        op.execute(plain.delete().where(plain.c.id == 1))
        """,
    ),
    Shape(
        "batch_of_a_known_table",
        """
        known = sa.Table("plain_too", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True),
                         sa.Column("text", sa.String(20)))
        op.create_table("plain_too", sa.Column("id", sa.Integer, primary_key=True),
                        sa.Column("text", sa.String(20)))
        op.execute("INSERT INTO plain_too VALUES (1, 'one')")
        with op.batch_alter_table("plain_too", copy_from=known) as batch:
            batch.alter_column("text", type_=sa.Text, existing_type=sa.String(20))
            batch.add_column(sa.Column("more", sa.Integer, server_default="7"))
        """,
    ),
    Shape(
        "a_column_named_atomic",
        """
        op.execute("CREATE TABLE bomb (atomic int); INSERT INTO bomb (atomic) VALUES (1); "
                   "UPDATE bomb SET atomic = 2")
        """,
        engines=("postgresql",),
    ),
    Shape(
        "literals",
        r"""
        op.execute("INSERT INTO note (id, text) VALUES (5, 'tab\t100% a\:b ''q'' \\ $1 ?;')")
        op.execute("INSERT INTO note (id, text) VALUES (6, '-- no comment') -- a comment")
        op.execute("INSERT INTO note (id, text) VALUES (7, '/* not */') /* a; comment */")
        """,
        recorded=("sqlite",),
    ),
    Shape(
        "write_by_connection",
        """
        bind = op.get_bind()
        insert = sa.text("INSERT INTO note (id, text) VALUES (:id, :text)")
        bind.execute(insert, {"id": 10, "text": "ten"})
        bind.execute(insert, [{"id": 11, "text": "a"}, {"id": 12, "text": None}])
        op.execute(insert.bindparams(id=13, text="100%"))
        op.execute(note.update().where(note.c.id.in_([10, 11])).values(text="in"))
        op.execute(note.delete().where(note.c.id == sa.bindparam("x", 12)))
        op.execute(note.insert().from_select(
            ["id", "text"], sa.select(note.c.id + 100, note.c.text).where(note.c.id < 3)))
        """,
        recorded=NEITHER,
    ),
    Shape(
        "python_defaults",
        """
        table = op.create_table(
            "counted", sa.Column("id", sa.Integer, primary_key=True),
            sa.Column("text", sa.String, default="by Python"),
            sa.Column("at", sa.Integer, default=sa.func.length("four")),
        )
        op.get_bind().execute(table.insert().values(text="first"))
        op.get_bind().execute(table.insert().values(id=20))
        op.get_bind().execute(table.insert(), [{"id": 21}, {"id": 22}])
        """,
        recorded=NEITHER,
    ),
    Shape(
        "typed",
        r"""
        columns = [
            sa.Column("u", sa.Uuid), sa.Column("d", sa.DateTime(timezone=True)),
            sa.Column("day", sa.Date), sa.Column("t", sa.Time), sa.Column("i", sa.Interval),
            sa.Column("j", sa.JSON), sa.Column("b", sa.LargeBinary),
            sa.Column("n", sa.Numeric(20, 4)), sa.Column("f", sa.Float), sa.Column("x", sa.Boolean),
            sa.Column("big", sa.BigInteger), sa.Column("e", sa.Enum("a", "b", name="typed_e")),
        ]
        table = op.create_table("typed", *columns)
        op.bulk_insert(table, [{
            "u": uuid.UUID(int=5), "d": datetime.datetime(2020, 2, 3, 4, 5, 6, 7, datetime.UTC),
            "day": datetime.date(2020, 2, 3), "t": datetime.time(1, 2, 3, 4),
            "i": datetime.timedelta(days=1, microseconds=5), "j": {"ü": [1, None, "a\tb%"]},
            "b": b"\x00\xff'", "n": decimal.Decimal("1234567.8900"), "f": 0.1, "x": True,
            "big": 2**40, "e": "b",
        }, dict.fromkeys(["u", "d", "day", "t", "i", "j", "b", "n", "f", "x", "big", "e"])])
        """,
        recorded=NEITHER,
    ),
    Shape(
        "add_column",
        """
        op.add_column("note", sa.Column("more", sa.String, server_default="x'y"))
        op.create_index("ix_more", "note", ["more", sa.text("lower(text)")])
        op.create_index("ix_some", "note", ["id"], unique=True,
                        sqlite_where=sa.text("id > 3"), postgresql_where=sa.text("id > 3"))
        op.execute(sa.update(sa.table("note", sa.column("more"))).values(more=sa.func.upper("a")))
        """,
        recorded=("sqlite",),
    ),
    Shape("rename", 'op.alter_column("note", "more", new_column_name="less")'),
    Shape(
        "alter_column",
        """
        op.alter_column("note", "less", type_=sa.Text, existing_type=sa.String, nullable=False,
                        server_default=sa.text("'%'"), comment="why 100%")
        op.create_check_constraint("ck_less", "note", sa.column("less") != "a:b%")
        op.create_foreign_key("fk_self", "note", "note", ["id"], ["id"], ondelete="CASCADE")
        op.create_unique_constraint("uq_text", "note", ["text", "id"])
        op.drop_constraint("uq_kind", "note")
        """,
        engines=("postgresql",),
    ),
    Shape(
        "batch",
        """
        op.create_table("pile", sa.Column("id", sa.Integer, primary_key=True),
                        sa.Column("text", sa.String(80), server_default="it's"))
        op.execute("INSERT INTO pile (id) VALUES (1), (2)")
        with op.batch_alter_table("pile") as batch:
            batch.alter_column("text", type_=sa.Text, existing_type=sa.String(80))
            batch.add_column(sa.Column("batched", sa.Integer, server_default="7"))
            batch.create_check_constraint("ck_batched", sa.text("batched > 0"))
        """,
        recorded=("postgresql",),
    ),
    Shape(
        "dollar_quotes",
        """
        op.execute('''
            CREATE FUNCTION twice(n integer) RETURNS integer LANGUAGE plpgsql AS $body$
            BEGIN
                -- it's a comment; with a 'quote
                RETURN n * 2; /* ; */
            END;
            $body$
        ''')
        op.execute("CREATE FUNCTION one() RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT 1; END")
        op.execute("INSERT INTO note (id, text) VALUES (twice(20), one())")
        """,
        engines=("postgresql",),
    ),
    Shape(
        "several_commands",
        r"""
        op.execute("CREATE TABLE one (a int); INSERT INTO one VALUES (1); -- and; no more")
        op.execute("INSERT INTO one VALUES (2);")
        """,
        engines=("postgresql",),
    ),
    Shape(
        "settings",
        r"""
        op.execute("SET LOCAL standard_conforming_strings = off")
        op.execute("INSERT INTO note (id, text) VALUES (60, 'a\\tb')")
        op.execute("SET LOCAL standard_conforming_strings = on")
        op.execute("INSERT INTO note (id, text) VALUES (61, 'a\\tb')")
        """,
        recorded=NEITHER,
        engines=("postgresql",),
    ),
    Shape(
        "of_postgresql",
        """
        op.create_table(
            "own", sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
            sa.Column("tags", postgresql.ARRAY(sa.Text)), sa.Column("doc", postgresql.JSONB),
            sa.Column("inet", postgresql.INET),
            sa.Column("half", sa.Integer, sa.Computed("id / 2")),
        )
        own = sa.table("own", sa.column("tags", postgresql.ARRAY(sa.Text)),
                       sa.column("doc", postgresql.JSONB), sa.column("inet", postgresql.INET))
        op.bulk_insert(own, [{"tags": ["a", "b'c"], "doc": {"a": 1}, "inet": "10.0.0.1"}])
        sa.Enum("x", "y", name="mood").create(op.get_bind(), checkfirst=False)
        op.execute("ALTER TABLE own ADD COLUMN mood mood DEFAULT 'x'")
        op.execute("CREATE TRIGGER t BEFORE UPDATE ON own FOR EACH ROW "
                   "EXECUTE FUNCTION suppress_redundant_updates_trigger()")
        """,
        recorded=NEITHER,
        engines=("postgresql",),
    ),
    Shape(
        "trigger",
        """
        op.execute('''
            CREATE TRIGGER shout AFTER INSERT ON note BEGIN
                UPDATE note SET text = upper(text) WHERE id = new.id;
            END
        ''')
        op.execute("INSERT INTO note (id, text) VALUES (70, 'loud')")
        """,
        engines=("sqlite",),
    ),
    Shape(
        "functions_of_sqlalchemy",
        "op.execute(\"UPDATE note SET text = 'matched' WHERE text REGEXP '^ten'\")",
        engines=("sqlite",),
    ),
    Shape(
        "create_all",
        """
        metadata = sa.MetaData()
        sa.Table("made", metadata, sa.Column("id", sa.Integer, primary_key=True))
        metadata.create_all(op.get_bind(), checkfirst=False)
        """,
        recorded=NEITHER,
    ),
    Shape(
        "create_all_that_is_not_there",
        """
        metadata = sa.MetaData()
        sa.Table("made", metadata, sa.Column("id", sa.Integer, primary_key=True))
        metadata.create_all(op.get_bind())
        """,
        recorded=NEITHER,
    ),
    Shape(
        "reads_rows",
        """
        ids = op.get_bind().execute(sa.text("SELECT id FROM note WHERE id > 100 ORDER BY id"))
        for (id_,) in ids.all():
            op.execute(note.update().where(note.c.id == id_).values(text=f"read {id_}"))
        """,
        recorded=NEITHER,
    ),
    Shape(
        "inspects",
        """
        if "absent" not in sa.inspect(op.get_bind()).get_table_names():
            op.create_table("absent", sa.Column("id", sa.Integer))
        """,
        recorded=NEITHER,
    ),
    Shape(
        "counts",
        """
        changed = op.get_bind().execute(sa.text("UPDATE note SET text = 'n' WHERE id IN (10, 11)"))
        op.execute(f"INSERT INTO absent VALUES ({changed.rowcount})")
        """,
        recorded=NEITHER,
    ),
    Shape(
        "new_key",
        """
        table = sa.Table("made", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True))
        done = op.get_bind().execute(table.insert())
        op.execute(f"INSERT INTO absent VALUES ({done.inserted_primary_key[0]})")
        """,
        recorded=NEITHER,
    ),
    Shape(
        "session",
        """
        with Session(op.get_bind()) as session:
            session.execute(sa.text("UPDATE note SET text = 'by a session' WHERE id = 13"))
            found = session.execute(sa.text("SELECT count(*) FROM note")).scalar_one()
            session.execute(sa.text(f"INSERT INTO absent VALUES ({found})"))
            session.commit()
        """,
        recorded=NEITHER,
    ),
    Shape(
        "swallows_an_error",
        """
        bind = op.get_bind()
        try:
            with bind.begin_nested():
                bind.execute(sa.text("INSERT INTO nowhere VALUES (1)"))
        except sa.exc.DBAPIError:
            op.execute("INSERT INTO absent VALUES (-1)")
        """,
        recorded=NEITHER,
    ),
    Shape(
        "would_swallow_an_error",
        """
        try:
            op.execute("INSERT INTO absent VALUES (-4)")
        except sa.exc.DBAPIError:
            op.execute("INSERT INTO absent VALUES (-5)")
        """,
        recorded=NEITHER,
    ),
    Shape(
        "swallows_an_error_of_ddl",
        """
        for ddl in (lambda: op.drop_index("no_such_index", "note"),
                    lambda: op.execute("SELECT 1; SELECT * FROM nowhere")):
            try:
                with op.get_bind().begin_nested():
                    ddl()
            except sa.exc.DBAPIError:
                op.execute("INSERT INTO absent VALUES (-3)")
        """,
        recorded=NEITHER,
        engines=("postgresql",),
    ),
    Shape(
        "swallows_that_it_cannot_read",
        """
        found = None
        try:
            found = op.get_bind().scalar(sa.text("SELECT max(id) FROM note"))
        except:
            pass
        op.execute(f"INSERT INTO absent VALUES ({found})")
        """,
        recorded=NEITHER,
    ),
    Shape(
        "savepoint",
        """
        with op.get_bind().begin_nested():
            op.execute("INSERT INTO absent VALUES (-2)")
        """,
        recorded=NEITHER,
    ),
    Shape(
        "reads_json",
        """
        (found,) = op.get_bind().execute(sa.text("SELECT j FROM typed WHERE u IS NOT NULL")).one()
        is_postgresql = op.get_bind().dialect.name == "postgresql"
        assert type(found) is (dict if is_postgresql else str)
        """,
        recorded=NEITHER,
    ),
]
# What is another thing each time: it runs live, so no two runs are the same.
RANDOM = [
    Shape("uuid4", "op.execute(note.insert().values(text=str(uuid.uuid4())))", recorded=NEITHER),
    Shape(
        "now",
        "op.execute(note.insert().values(text=str(datetime.datetime.now())))",
        recorded=NEITHER,
    ),
]
