"""Histories: lines, merges, branches, dependencies, squashed revisions."""

from tests.corpus.shape import BOTH, POSTGRESQL, Rev, shape

_SEE_HEADS = "see(op.get_context().get_current_heads())"


def _note(text: str) -> str:
    return f"op.execute(\"INSERT INTO note (text) VALUES ('{text}')\")"


def _create(name: str) -> str:
    return f"op.create_table({name!r}, sa.Column('id', sa.Integer))"


SHAPES = [
    shape("line", _note("first"), _note("second"), _note("third")),
    shape(
        "line_that_fails_late", _note("first"), "op.execute('SELECT * FROM nowhere')", fails=BOTH
    ),
    shape("empty_revision", "pass", _note("after nothing")),
    shape("no_upgrade_body", '"""Nothing yet."""'),
    shape(
        "merge",
        Rev("a", _create("a")),
        Rev("b", _create("b"), "a"),
        Rev("c", _create("c"), "a"),
        Rev("d", "pass", ("b", "c")),
    ),
    shape(
        "merge_with_work",
        Rev("a", _note("a")),
        Rev("b", _note("b"), "a"),
        Rev("c", 'see(op.get_bind().scalar(sa.text("SELECT count(*) FROM note")))', "a"),
        Rev("d", _note("d"), ("b", "c")),
        Rev("e", _note("e"), "d"),
    ),
    shape(
        "heads_of_a_merge",
        Rev("z", _SEE_HEADS),
        Rev("y", _SEE_HEADS, "z"),
        Rev("b", _SEE_HEADS, "z"),
        Rev("x", _SEE_HEADS, "y"),
        Rev("c", _SEE_HEADS, "b"),
        Rev("m", _SEE_HEADS, ("x", "c")),
        Rev("n", _SEE_HEADS, "m"),
    ),
    shape(
        "heads_of_three_branches",
        Rev("a", _SEE_HEADS),
        Rev("b1", _SEE_HEADS, "a"),
        Rev("c1", _SEE_HEADS, "a"),
        Rev("d1", _SEE_HEADS, "a"),
        Rev("b2", _SEE_HEADS, "b1"),
        Rev("c2", _SEE_HEADS, "c1", more='depends_on = "b2"'),
        Rev("b3", _SEE_HEADS, "b2"),
        Rev("m", _SEE_HEADS, ("b3", "c2")),
        Rev("n", _SEE_HEADS, ("m", "d1")),
    ),
    shape(
        "heads_with_depends_on",
        Rev("q", _SEE_HEADS),
        Rev("x", _SEE_HEADS),
        Rev("y", _SEE_HEADS, "x", more='depends_on = "q"'),
        Rev("b", _SEE_HEADS, "q"),
        Rev("m", _SEE_HEADS, ("b", "y")),
    ),
    shape(
        "merge_of_merges",
        Rev("a", _note("a")),
        Rev("b", _note("b"), "a"),
        Rev("c", _note("c"), "a"),
        Rev("d", _note("d"), ("b", "c")),
        Rev("e", _note("e"), "a"),
        Rev("f", _note("f"), ("d", "e")),
    ),
    shape(
        "merge_with_block_in_second_branch",
        Rev("a", _note("a")),
        Rev("b", _note("b"), "a"),
        Rev(
            "c",
            """
            with op.get_context().autocommit_block():
                op.create_index("ix", "note", ["text"], postgresql_concurrently=True)
            """,
            "a",
        ),
        Rev("d", _note("d"), ("b", "c")),
        engines=POSTGRESQL,
    ),
    shape(
        "merge_with_block_in_both_branches",
        Rev("a", _note("a")),
        *(
            Rev(
                name,
                f"""
                with op.get_context().autocommit_block():
                    op.create_index("ix_{name}", "note", ["text"], postgresql_concurrently=True)
                """,
                "a",
            )
            for name in ("b", "c")
        ),
        Rev("d", _note("d"), ("b", "c")),
        engines=POSTGRESQL,
    ),
    shape(
        "two_bases",
        Rev("a", _create("a")),
        Rev("b", _create("b")),
        Rev("c", "pass", ("a", "b")),
    ),
    shape(
        "depends_on",
        Rev("a", _note("a")),
        Rev("b", _create("b"), "a"),
        Rev("c", "op.execute('INSERT INTO b VALUES (1)')", "a", 'depends_on = "b"'),
        Rev("d", "pass", ("b", "c")),
    ),
    shape(
        "branch_labels",
        Rev("a", _note("a"), None, 'branch_labels = ("main",)'),
        Rev("b", _note("b"), "a"),
    ),
    shape("two_heads", Rev("a", "pass"), Rev("b", "pass", "a"), Rev("c", "pass", "a"), fails=BOTH),
    shape("missing_revision", Rev("b", "pass", "a"), fails=BOTH),
    shape("typed_identifiers", Rev("a", _note("a"), None, "down_revision: str | None = None")),
    shape(
        "odd_revision_ids",
        Rev("2024_01_01_ü.x", _note("a")),
        Rev("0002", _note("b"), "2024_01_01_ü.x"),
    ),
    shape(
        "subfolder_that_alembic_ignores",
        Rev("b", _note("b"), "a", below="2024"),
        Rev("a", _note("a")),
    ),
    shape(
        "subfolder_with_recursive_locations",
        Rev("a", _note("a")),
        Rev("b", _note("b"), "a", below="2024"),
        ini="recursive_version_locations = true\n",
    ),
    shape(
        "other_version_location",
        Rev("a", _note("a")),
        ini="version_locations = %(here)s/elsewhere\n",
        files={
            "elsewhere/a_other.py": """
                from alembic import op
                revision = "a"
                down_revision = None
                def upgrade():
                    op.execute("INSERT INTO note (text) VALUES ('elsewhere')")
            """
        },
    ),
    shape(
        "forty_revisions",
        *(f"op.execute(\"UPDATE note SET text = 'step {n}' WHERE id = 1\")" for n in range(40)),
    ),
    shape(
        "downgrade_only",
        Rev(
            "a",
            source="""
                revision = "a"
                down_revision = None
                def downgrade():
                    pass
            """,
        ),
        fails=BOTH,
    ),
    shape(
        "long_revision_id",
        Rev("a" * 33, _note("too long for VARCHAR(32)")),
        fails=POSTGRESQL,
    ),
]
