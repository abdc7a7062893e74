"""Rows that are written: literals, values of every type, many rows, expressions."""

from typing import Any

from tests.corpus.shape import NEITHER, POSTGRESQL, SQLITE, Shape, shape

_TYPED = """
typed = op.create_table(
    "typed", sa.Column("id", sa.Integer), sa.Column("v", {type}),
)
"""


def _typed(name: str, type_: str, *values: str, **more: Any) -> Shape:
    rows = ", ".join(f'{{"id": {number}, "v": {value}}}' for number, value in enumerate(values))
    body = f"{_TYPED.format(type=type_)}\nop.bulk_insert(typed, [{rows}])"
    return shape(name, body, **more)


def _executed(name: str, type_: str, *values: str, **more: Any) -> Shape:
    lines = "\n".join(
        f"op.execute(typed.insert().values(id={number}, v={value}))"
        for number, value in enumerate(values)
    )
    return shape(name, f"{_TYPED.format(type=type_)}\n{lines}", **more)


SHAPES = [
    shape("insert_text", "op.execute(\"INSERT INTO note (text) VALUES ('a'), ('b')\")"),
    shape("insert_construct", 'op.execute(note.insert().values(id=10, text="ten"))'),
    shape(
        "insert_many_values",
        'op.execute(note.insert().values([{"text": "x"}, {"text": None}, {"text": "y"}]))',
    ),
    shape("update_construct", 'op.execute(note.update().where(note.c.id > 1).values(text="u"))'),
    shape(
        "update_case",
        """
        op.execute(note.update().values(text=sa.case((note.c.id == 1, "first"), else_="other")))
        """,
    ),
    shape("delete_construct", "op.execute(person.delete().where(person.c.age.is_(None)))"),
    shape("update_in", 'op.execute(note.update().where(note.c.id.in_([1, 3])).values(text="in"))'),
    shape(
        "update_in_nothing", 'op.execute(note.update().where(note.c.id.in_([])).values(text="x"))'
    ),
    shape(
        "insert_from_select",
        """
        chosen = sa.select(person.c.name).where(person.c.age > 3)
        op.execute(note.insert().from_select(["text"], chosen))
        """,
    ),
    shape(
        "update_from_subquery",
        """
        name = sa.select(person.c.name).where(person.c.note_id == note.c.id).scalar_subquery()
        op.execute(note.update().values(text=name))
        """,
    ),
    shape(
        "correlated_functions",
        """
        op.execute(note.update().values(text=sa.func.coalesce(sa.func.upper(note.c.text), "none")))
        op.execute(person.update().values(age=person.c.age + 1))
        op.execute(note.update().where(note.c.text.like("%N%")).values(text=note.c.text + "!"))
        """,
    ),
    shape(
        "text_with_bindparams",
        """
        op.execute(sa.text("INSERT INTO note (text) VALUES (:v)").bindparams(v="it's %s :x"))
        op.execute(sa.text("UPDATE note SET text = :v WHERE id = :id").bindparams(
            sa.bindparam("v", "w", sa.String), sa.bindparam("id", 1, sa.Integer)))
        """,
    ),
    shape(
        "text_with_expanding_parameter",
        """
        op.execute(sa.text("UPDATE note SET text = 'e' WHERE id IN :ids").bindparams(
            sa.bindparam("ids", [1, 2], expanding=True)))
        """,
    ),
    shape(
        "untyped_parameter",
        """
        op.execute(sa.text("INSERT INTO note (text) VALUES (:v)").bindparams(v=None))
        op.execute(sa.text("INSERT INTO seen (text) VALUES (:v)").bindparams(v="5"))
        op.execute(sa.text("UPDATE person SET age = :v").bindparams(v=5))
        """,
    ),
    shape(
        "parameter_that_the_server_types",
        """
        op.execute(sa.text("INSERT INTO seen (text) SELECT 'n' WHERE :a = 5").bindparams(a=5))
        op.execute(sa.text("INSERT INTO seen (text) VALUES (concat('a', CAST(:b AS text)))")
                   .bindparams(b="b"))
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "bulk_insert", 'op.bulk_insert(note, [{"id": 10, "text": "a"}, {"id": 11, "text": None}])'
    ),
    shape(
        "bulk_insert_one_by_one",
        'op.bulk_insert(note, [{"id": 10, "text": "a"}, {"id": 11, "text": "b"}], multiinsert=False)',
    ),
    shape("bulk_insert_nothing", "op.bulk_insert(note, [])"),
    shape(
        "bulk_insert_many",
        'op.bulk_insert(note, [{"text": f"row {n}"} for n in range(1500)])',
    ),
    shape(
        "bulk_insert_literals",
        """
        op.bulk_insert(note, [{"text": op.inline_literal("lit'eral %s :x")}], multiinsert=False)
        """,
    ),
    shape(
        "bulk_insert_different_keys",
        """
        op.bulk_insert(person, [{"name": "C", "age": 1}, {"name": "D"}])
        """,
        fails=POSTGRESQL | SQLITE,
    ),
    shape(
        "bulk_insert_extra_keys",
        'op.bulk_insert(note, [{"text": "a", "no_such": 1}])',
    ),
    shape(
        "inline_literal",
        """
        op.execute(note.update().where(note.c.id == op.inline_literal(1)).values(
            {"text": op.inline_literal("in 'line' 100%")}))
        """,
    ),
    shape(
        "upsert",
        """
        op.execute("INSERT INTO note (id, text) VALUES (1, 'up'), (50, 'new') "
                   "ON CONFLICT (id) DO UPDATE SET text = excluded.text")
        """,
    ),
    shape(
        "upsert_construct",
        """
        insert = postgresql.insert(person).values(name="Ada", age=99)
        op.execute(insert.on_conflict_do_update(
            index_elements=["name"], set_={"age": insert.excluded.age}))
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "with_query",
        """
        op.execute("WITH gone AS (DELETE FROM person WHERE name = 'Bob' RETURNING name) "
                   "INSERT INTO seen (text) SELECT name FROM gone")
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "generate_series",
        "op.execute(\"INSERT INTO note (text) SELECT 'n' || i FROM generate_series(1, 50) AS i\")",
        engines=POSTGRESQL,
    ),
    shape(
        "python_side_defaults",
        """
        table = op.create_table(
            "counted", sa.Column("id", sa.Integer, primary_key=True),
            sa.Column("text", sa.String, default="by Python"),
            sa.Column("n", sa.Integer, default=sa.func.length("four")),
            sa.Column("stamp", sa.Integer, default=lambda: 5, onupdate=6),
        )
        op.execute(table.insert().values(id=1))
        op.bulk_insert(table, [{"id": 2}, {"id": 3}])
        op.get_bind().execute(table.insert(), [{"id": 4}, {"id": 5}])
        op.execute(table.update().where(table.c.id == 5).values(text="again"))
        """,
    ),
    shape(
        "python_side_counter",
        """
        import itertools
        count = itertools.count(100)
        table = op.create_table(
            "counted", sa.Column("id", sa.Integer, primary_key=True, default=lambda: next(count)),
            sa.Column("text", sa.String))
        op.bulk_insert(table, [{"text": "a"}, {"text": "b"}])
        op.execute(table.insert().values(text="c"))
        """,
    ),
    shape(
        "sequence_default",
        """
        op.execute("CREATE SEQUENCE numbers START 7")
        table = op.create_table(
            "counted", sa.Column("id", sa.Integer, sa.Sequence("numbers"), primary_key=True),
            sa.Column("text", sa.Text))
        op.execute(table.insert().values(text="a"))
        op.bulk_insert(table, [{"text": "b"}, {"text": "c"}])
        done = op.get_bind().execute(table.insert().values(text="d"))
        see(done.inserted_primary_key[0])
        """,
        engines=POSTGRESQL,
    ),
    _typed("none_of_every_type", "sa.Integer", "None", "1"),
    _typed("booleans", "sa.Boolean", "True", "False", "None"),
    _typed("integers", "sa.BigInteger", "0", "-5", "2**53 + 1", "-(2**63)"),
    _typed("floats", "sa.Float", "0.1", "1e300", "-0.0", "3.0", "1/3"),
    _typed("float_infinity", "sa.Float", "float('inf')", "float('-inf')"),
    _typed("float_nan", "sa.Float", "float('nan')", engines=POSTGRESQL),
    _typed(
        "numerics",
        "sa.Numeric(20, 6)",
        "decimal.Decimal('1.10')",
        "decimal.Decimal('1E+3')",
        "5",
        "decimal.Decimal('-0.000001')",
    ),
    _typed("numerics_as_floats", "sa.Numeric(20, 6)", "1.1", "2.675"),
    _typed("numeric_without_scale", "sa.Numeric", "decimal.Decimal('1.10')", "2.5"),
    _typed("strings", "sa.String", "'a'", "''", "'ü€😀'", "'tab\\there'", "'line\\nbreak'"),
    _typed("strings_that_look_like_sql", "sa.String", '"\'; DROP TABLE note; --"', "'$1 ? %s :x'"),
    _typed("backslashes", "sa.String", "'\\\\'", "'a\\\\nb'", "'\\\\\\''"),
    _typed("bytes", "sa.LargeBinary", "b'\\x00\\xff'", "b''", 'b"it\'s"', "bytearray(b'ab')"),
    _typed("memoryview", "sa.LargeBinary", "memoryview(b'view')"),
    _typed("dates", "sa.Date", "datetime.date(2024, 2, 29)", "datetime.date(1, 1, 1)"),
    _typed(
        "naive_datetimes",
        "sa.DateTime",
        "datetime.datetime(2024, 2, 29, 12, 30)",
        "datetime.datetime(2024, 2, 29, 12, 30, 1, 5)",
    ),
    _typed(
        "naive_datetimes_with_zone",
        "sa.DateTime(timezone=True)",
        "datetime.datetime(2024, 7, 1, 12)",
    ),
    _typed(
        "aware_datetimes",
        "sa.DateTime(timezone=True)",
        "datetime.datetime(2024, 7, 1, 12, tzinfo=datetime.timezone.utc)",
        "datetime.datetime(2024, 7, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=5.5)))",
    ),
    _typed(
        "aware_datetimes_without_zone",
        "sa.DateTime",
        "datetime.datetime(2024, 7, 1, 12, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))",
    ),
    _typed("times", "sa.Time", "datetime.time(1, 2, 3)", "datetime.time(23, 59, 59, 999999)"),
    _typed("intervals", "sa.Interval", "datetime.timedelta(days=1, seconds=5, microseconds=7)"),
    _typed(
        "negative_interval",
        "sa.Interval",
        "datetime.timedelta(days=-3, seconds=5)",
        engines=POSTGRESQL,
    ),
    _typed("uuids", "sa.Uuid", "uuid.UUID(int=5)", "None"),
    _typed("uuids_as_strings", "sa.Uuid(as_uuid=False)", "'00000000-0000-0000-0000-000000000005'"),
    _typed("json", "sa.JSON", '{"b": 1, "a": [1, None, "ü%:x"]}', "[1, 2.5]", "'text'", "None"),
    _typed("json_null", "sa.JSON", "sa.JSON.NULL", "sa.null()", engines=SQLITE),
    _typed("json_strings", "sa.JSON", "'it\\'s'", "'back\\\\slash'", "True", "5"),
    _typed("jsonb", "postgresql.JSONB", '{"b": {"c": [1]}, "a": None}', "[]", engines=POSTGRESQL),
    _typed(
        "arrays", "postgresql.ARRAY(sa.Text)", "['a', 'b,c', '\"', None]", "[]", engines=POSTGRESQL
    ),
    _typed(
        "integer_arrays", "postgresql.ARRAY(sa.Integer)", "[1, 2]", "(3, 4)", engines=POSTGRESQL
    ),
    _typed(
        "nested_arrays",
        "postgresql.ARRAY(sa.Integer, dimensions=2)",
        "[[1, 2], [3, 4]]",
        engines=POSTGRESQL,
    ),
    _typed(
        "json_arrays", "postgresql.ARRAY(postgresql.JSONB)", '[{"a": 1}, {}]', engines=POSTGRESQL
    ),
    _typed("hstore_text", "postgresql.TSVECTOR", "'a b c'", engines=POSTGRESQL),
    _typed("inet", "postgresql.INET", "'10.0.0.1/8'", engines=POSTGRESQL),
    _typed("money_and_bits", "postgresql.BIT(3)", "'101'", engines=POSTGRESQL),
    _typed(
        "ranges",
        "postgresql.INT4RANGE",
        "postgresql.Range(1, 5)",
        "postgresql.Range(empty=True)",
        engines=POSTGRESQL,
    ),
    _typed("citext_and_xml", "sa.Text", "'<a/>'", engines=POSTGRESQL),
    _typed("pickle", "sa.PickleType", '{"a": (1, 2)}'),
    _typed("dates_as_strings", "sa.Date", "'2024-02-29'", engines=POSTGRESQL, fails=SQLITE),
    _typed(
        "datetimes_as_strings",
        "sa.DateTime(timezone=True)",
        "'2024-02-29 10:00:00+02'",
        engines=POSTGRESQL,
        fails=SQLITE,
    ),
    _typed("numbers_as_strings", "sa.Integer", "'5'"),
    _typed("booleans_as_strings", "sa.Boolean", "'true'", fails=POSTGRESQL | SQLITE),
    _executed("executed_dates", "sa.Date", "datetime.date(2024, 2, 29)", "None"),
    _executed(
        "executed_dates_as_strings", "sa.Date", "'2024-02-29'", engines=POSTGRESQL, fails=SQLITE
    ),
    _executed("executed_datetimes", "sa.DateTime", "datetime.datetime(2024, 2, 29, 12)"),
    _executed(
        "executed_datetimes_with_zone",
        "sa.DateTime(timezone=True)",
        "datetime.datetime(2024, 7, 1, 12)",
        "datetime.datetime(2024, 7, 1, 12, tzinfo=datetime.timezone.utc)",
    ),
    _executed("executed_json", "sa.JSON", '{"a": ["it\'s", 1.5, None]}', "[]"),
    _executed("executed_json_none", "sa.JSON", "None"),
    _executed("executed_bytes", "sa.LargeBinary", "b'\\x00\\xff'"),
    _executed("executed_numerics", "sa.Numeric(20, 6)", "decimal.Decimal('1.10')", "2"),
    _executed("executed_intervals", "sa.Interval", "datetime.timedelta(days=1, seconds=5)"),
    _executed("executed_uuids", "sa.Uuid", "uuid.UUID(int=5)"),
    _executed("executed_booleans", "sa.Boolean", "True", "None"),
    _executed(
        "executed_arrays",
        "postgresql.ARRAY(sa.Text)",
        "['a', \"it's\", None]",
        "[]",
        engines=POSTGRESQL,
    ),
    _executed("executed_jsonb", "postgresql.JSONB", '{"a": "%s :x"}', engines=POSTGRESQL),
    _executed("executed_enum_class", "sa.Enum('a', 'b', name='letters')", "'a'"),
    shape(
        "naive_datetime_untyped",
        """
        op.execute("ALTER TABLE note ADD COLUMN at timestamptz")
        op.execute("SET LOCAL TIME ZONE 'Asia/Tokyo'")
        op.execute(sa.text("UPDATE note SET at = :at").bindparams(
            at=datetime.datetime(2024, 1, 1, 12)))
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "date_string_untyped",
        """
        op.execute("ALTER TABLE note ADD COLUMN day date")
        op.execute(sa.text("UPDATE note SET day = :day").bindparams(day="2024-01-01"))
        op.get_bind().execute(sa.text("UPDATE note SET day = :day WHERE id = 1"),
                              {"day": "2023-01-01"})
        """,
        engines=POSTGRESQL,
        fails=POSTGRESQL,
    ),
    shape(
        "custom_type",
        """
        class Shout(sa.types.TypeDecorator):
            impl = sa.String
            cache_ok = True
            def process_bind_param(self, value, dialect):
                return None if value is None else value.upper() + "!"
            def process_literal_param(self, value, dialect):
                return "literal " + value
        table = sa.table("note", sa.column("text", Shout))
        op.bulk_insert(table, [{"text": "bulk"}])
        op.execute(table.insert().values(text="quiet"))
        """,
    ),
    shape(
        "custom_type_as_variant",
        """
        class Shout(sa.types.TypeDecorator):
            impl = sa.String
            cache_ok = True
            def process_bind_param(self, value, dialect):
                return None if value is None else value.upper() + "!"
            def process_literal_param(self, value, dialect):
                return "literal " + value
        loud = sa.String().with_variant(Shout(), "postgresql", "sqlite")
        table = sa.table("note", sa.column("text", loud))
        op.bulk_insert(table, [{"text": "bulk"}])
        op.execute(table.insert().values(text="quiet"))
        """,
    ),
    shape(
        "mutable_rows",
        """
        row = {"text": ""}
        for word in ("a", "b", "c"):
            row["text"] = word
            op.bulk_insert(note, [row])
        """,
    ),
    shape(
        "mutable_value",
        """
        op.execute("ALTER TABLE note ADD COLUMN tags text[]")
        tags = sa.table("note", sa.column("id"), sa.column("tags", postgresql.ARRAY(sa.Text)))
        words = []
        for number in (1, 2, 3):
            words.append(f"w{number}")
            op.execute(tags.update().where(tags.c.id == number).values(tags=words))
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "mutable_bytes",
        """
        table = op.create_table("blob", sa.Column("id", sa.Integer), sa.Column("b", sa.LargeBinary))
        data = bytearray(b"aa")
        for number in range(3):
            data[0] = 97 + number
            op.get_bind().execute(table.insert(), {"id": number, "b": data})
        """,
    ),
    shape(
        "mutable_json",
        """
        table = op.create_table("doc", sa.Column("id", sa.Integer), sa.Column("j", sa.JSON))
        document = {"n": 0}
        for number in range(3):
            document["n"] = number
            op.bulk_insert(table, [{"id": number, "j": document}])
            op.get_bind().execute(table.insert(), {"id": number + 10, "j": document})
        """,
    ),
    shape(
        "mutable_driver_parameters",
        """
        row = ["a"]
        mark = "?" if op.get_bind().dialect.name == "sqlite" else "%s"
        for word in ("x", "y"):
            row[0] = word
            op.get_bind().exec_driver_sql(f"INSERT INTO seen (text) VALUES ({mark})", tuple(row))
        """,
    ),
    shape(
        "copy",
        """
        cursor = op.get_bind().connection.cursor()
        with cursor.copy("COPY note (id, text) FROM STDIN") as copy:
            copy.write_row((70, "copied"))
            copy.write("71\\tby hand\\n")
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "copy_without_data",
        """
        op.execute("COPY note (id, text) FROM STDIN;\\n70\\tby hand\\n")
        """,
        engines=NEITHER,
        fails=POSTGRESQL,
    ),
    shape(
        "copy_to",
        """
        cursor = op.get_bind().connection.cursor()
        with cursor.copy("COPY (SELECT text FROM note ORDER BY id) TO STDOUT") as copy:
            rows = [bytes(row) for row in copy]
        see(rows)
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "large_objects",
        """
        op.execute("SELECT lo_from_bytea(0, 'abc')")
        """,
        engines=POSTGRESQL,
    ),
]
