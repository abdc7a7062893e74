"""Errors: those that end a revision, and those that it catches."""

from tests.corpus.shape import BOTH, POSTGRESQL, SQLITE, shape

_BEFORE = "op.execute(\"INSERT INTO note (text) VALUES ('before')\")\n"

SHAPES = [
    shape("raises", _BEFORE + "raise RuntimeError('on purpose')", fails=BOTH),
    shape("division_by_zero", _BEFORE + "1 / 0", fails=BOTH),
    shape("system_exit", _BEFORE + "raise SystemExit(1)", fails=BOTH),
    shape("system_exit_of_zero", _BEFORE + "raise SystemExit(0)", fails=BOTH),
    shape("no_such_operation", _BEFORE + "op.no_such_thing()", fails=BOTH),
    shape("syntax_error", _BEFORE + "op.execute('SELEC 1')", fails=BOTH),
    shape(
        "unique_violation", _BEFORE + "op.execute(person.insert().values(name='Ada'))", fails=BOTH
    ),
    shape(
        "not_null_violation",
        _BEFORE + "op.execute('INSERT INTO person (age) VALUES (1)')",
        fails=BOTH,
    ),
    shape(
        "foreign_key_violation",
        _BEFORE + "op.execute(\"INSERT INTO person (name, note_id) VALUES ('X', 999)\")",
        engines=POSTGRESQL,
        fails=POSTGRESQL,
    ),
    shape(
        "check_violation",
        _BEFORE + "op.execute(\"INSERT INTO person (name, age) VALUES ('X', -1)\")",
        setup="ALTER TABLE person ADD CONSTRAINT ck CHECK (age >= 0);",
        engines=POSTGRESQL,
        fails=POSTGRESQL,
    ),
    shape("value_too_long", "op.execute(note.insert().values(text='x' * 81))", fails=POSTGRESQL),
    shape(
        "wrong_type",
        'op.execute(person.insert().values(name="X", age="old"))',
        engines=POSTGRESQL,
        fails=POSTGRESQL,
    ),
    shape(
        "wrong_type_on_sqlite",
        'op.bulk_insert(person, [{"name": "X", "age": "old"}])',
        engines=SQLITE,
    ),
    shape(
        "too_large_for_a_small_integer",
        """
        small = sa.table("person", sa.column("name", sa.String), sa.column("age", sa.SmallInteger))
        op.bulk_insert(small, [{"name": "X", "age": 2**15}])
        """,
        fails=POSTGRESQL,
    ),
    shape("object_as_value", "op.execute(note.insert().values(text=object()))", fails=BOTH),
    shape("dict_as_text", 'op.execute(note.insert().values(text={"a": 1}))', fails=BOTH),
    shape("list_as_text", 'op.bulk_insert(note, [{"text": ["a", "b"]}])', fails=SQLITE),
    shape("integer_as_text", "op.execute(note.insert().values(text=5))"),
    shape("integer_as_text_in_bulk", 'op.bulk_insert(note, [{"text": 5}])'),
    shape("boolean_as_integer", 'op.bulk_insert(person, [{"name": "B", "age": True}])'),
    shape("boolean_as_text", 'op.bulk_insert(note, [{"text": True}])'),
    shape("string_as_integer", 'op.bulk_insert(person, [{"name": "S", "age": "7"}])'),
    shape("float_as_integer", 'op.bulk_insert(person, [{"name": "F", "age": 7.0}])'),
    shape("float_as_integer_rounded", 'op.bulk_insert(person, [{"name": "F", "age": 7.6}])'),
    shape(
        "decimal_as_integer",
        'op.execute(person.insert().values(name="D", age=decimal.Decimal("7")))',
        fails=SQLITE,
    ),
    shape(
        "date_as_text",
        'op.bulk_insert(note, [{"text": datetime.date(2024, 1, 1)}])',
        engines=POSTGRESQL,
    ),
    shape("uuid_as_text", 'op.bulk_insert(note, [{"text": uuid.UUID(int=1)}])', fails=SQLITE),
    shape(
        "subclass_of_string",
        """
        class Name(str):
            pass
        op.bulk_insert(note, [{"text": Name("subclass")}])
        op.execute(note.insert().values(text=Name("it's")))
        """,
    ),
    shape(
        "string_enum_as_text",
        """
        import enum
        class Kind(str, enum.Enum):
            A = "a"
        class Word(enum.StrEnum):
            B = "b"
        op.bulk_insert(note, [{"text": Kind.A}, {"text": Word.B}])
        op.execute(note.insert().values(text=Kind.A))
        op.execute(note.insert().values(text=Word.B))
        """,
    ),
    shape(
        "int_enum_as_integer",
        """
        import enum
        class Level(enum.IntEnum):
            LOW = 1
        op.bulk_insert(person, [{"name": "L", "age": Level.LOW}])
        op.execute(person.insert().values(name="M", age=Level.LOW))
        """,
    ),
    shape(
        "swallows_an_error",
        """
        try:
            op.execute("INSERT INTO nowhere VALUES (1)")
        except sa.exc.DBAPIError:
            pass
        """,
        engines=SQLITE,
    ),
    shape(
        "swallows_an_error_and_goes_on",
        """
        try:
            op.execute("INSERT INTO nowhere VALUES (1)")
        except sa.exc.DBAPIError:
            op.execute("INSERT INTO note (text) VALUES ('after')")
        """,
        engines=POSTGRESQL,
        fails=POSTGRESQL,
    ),
    shape(
        "swallows_an_error_and_ends",
        _BEFORE
        + """
try:
    op.execute("INSERT INTO nowhere VALUES (1)")
except sa.exc.DBAPIError:
    pass
""",
        engines=POSTGRESQL,
        fails=POSTGRESQL,
    ),
    shape(
        "swallows_no_error",
        """
        try:
            op.create_table("item", sa.Column("id", sa.Integer))
        except Exception:
            pass
        """,
    ),
    shape(
        "drops_what_may_not_be_there",
        """
        try:
            op.drop_index("ix_none", "note")
        except sa.exc.OperationalError:
            see("was not there")
        op.execute("INSERT INTO note (text) VALUES ('after')")
        """,
        engines=SQLITE,
    ),
    shape(
        "suppress",
        """
        with contextlib.suppress(Exception):
            op.add_column("note", sa.Column("text", sa.String))
        op.execute("INSERT INTO note (text) VALUES ('after')")
        """,
        engines=SQLITE,
    ),
    shape(
        "bare_except",
        """
        found = "?"
        try:
            found = op.get_bind().scalar(sa.text("SELECT count(*) FROM note"))
        except:
            pass
        see(found)
        """,
    ),
    shape(
        "finally",
        """
        try:
            op.execute("INSERT INTO note (text) VALUES ('tried')")
        finally:
            op.execute("INSERT INTO note (text) VALUES ('finally')")
        """,
    ),
    shape(
        "swallowing_context_manager",
        """
        class Swallow:
            def __enter__(self): return self
            def __exit__(self, *error): return True
        with Swallow():
            op.execute("INSERT INTO nowhere VALUES (1)")
        op.execute("INSERT INTO note (text) VALUES ('after')")
        """,
        engines=SQLITE,
    ),
    shape(
        "warnings_as_errors",
        """
        import warnings
        warnings.warn("take note", UserWarning)
        op.execute("INSERT INTO note (text) VALUES ('warned')")
        """,
    ),
]
