"""What one upgrade keeps from one revision to the next, whether they are recorded or live."""

from tests.corpus.shape import POSTGRESQL, VERSION_TABLE, Rev, shape


def _table(name: str, kind: str = 'sa.Enum("x", "y", name="kind")') -> str:
    return f'op.create_table("{name}", sa.Column("kind", {kind}))\n'


_LIVE = "op.get_bind().in_transaction()\n"
_BLOCK = 'with op.get_context().autocommit_block():\n    op.execute("VACUUM note")\n'
_DOMAIN = 'postgresql.DOMAIN("percent", sa.Integer, check="VALUE < 101")'
_AT_R1 = VERSION_TABLE + "INSERT INTO alembic_version VALUES ('r1');"

SHAPES = [
    shape("enum_in_two_revisions", *(_table("a"), _table("b"), _LIVE + _table("c"))),
    shape("enum_in_two_live_revisions", *(_LIVE + _table("a"), _LIVE + _table("b"), _table("c"))),
    shape("enum_in_column_and_table", _LIVE + _table("a"), _table("b") + _table("c")),
    shape("enum_on_both_sides_of_a_block", *(_table("a"), _BLOCK, _table("b")), engines=POSTGRESQL),
    shape("enum_in_revisions_with_blocks", *[_table(n) + _BLOCK for n in "ab"], engines=POSTGRESQL),
    shape("domain_in_two_revisions", *[_table(n, _DOMAIN) for n in "ab"], engines=POSTGRESQL),
    shape(
        "enum_in_two_schemas",
        _table("a"),
        _table("b", 'sa.Enum("x", name="kind", schema="app")'),
        setup="CREATE SCHEMA app;",
        engines=POSTGRESQL,
    ),
    shape(
        "enum_in_two_branches",
        Rev("a", _table("a")),
        Rev("b", _table("b"), "a"),
        Rev("c", _table("c"), "a"),
        Rev("d", _table("d"), ("b", "c")),
    ),
    shape(
        "enum_dropped_between_revisions",
        *(_table("a"), 'op.drop_table("a")\nop.execute("DROP TYPE kind")', _table("b")),
        engines=POSTGRESQL,
        fails=POSTGRESQL,
    ),
    shape(
        "enum_of_an_earlier_upgrade",
        *(_table("a"), _table("b")),
        setup="CREATE TYPE kind AS ENUM ('x', 'y');" + _AT_R1,
        engines=POSTGRESQL,
        fails=POSTGRESQL,
    ),
    shape(
        "enum_that_the_earlier_upgrade_has_not_created",
        *(_table("a"), _table("b"), _table("c")),
        setup=_AT_R1,
    ),
    shape(
        "memory_of_the_context",
        "op.get_context().mine = 5",
        "see(getattr(op.get_context(), 'mine', None))",
    ),
    shape(
        "memory_of_types_read",
        _table("a"),
        "see(sorted(op.get_context().impl.memo))",
    ),
    shape(
        "options_of_the_context_read_in_a_condition",
        "op.get_context().opts['mine'] = 5",
        "if op.get_context().opts.get('mine'):\n    " + _table("a"),
    ),
]
