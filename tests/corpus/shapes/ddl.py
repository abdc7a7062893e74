"""Tables, columns, indexes, constraints, comments, sequences, schemas."""

from tests.corpus.shape import POSTGRESQL, SQLITE, shape

_CREATE = """
op.create_table(
    "item",
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.String(40), nullable=False),
    sa.Column("note_id", sa.Integer, sa.ForeignKey("note.id", name="fk_note")),
)
"""

SHAPES = [
    shape("create_table", _CREATE),
    shape(
        "create_table_of_every_type",
        """
        op.create_table(
            "wide",
            sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
            sa.Column("a", sa.SmallInteger), sa.Column("b", sa.BigInteger), sa.Column("c", sa.Float),
            sa.Column("d", sa.Numeric(12, 3)), sa.Column("e", sa.Boolean), sa.Column("f", sa.Date),
            sa.Column("g", sa.DateTime), sa.Column("h", sa.DateTime(timezone=True)),
            sa.Column("i", sa.Time), sa.Column("j", sa.Interval), sa.Column("k", sa.LargeBinary),
            sa.Column("l", sa.JSON), sa.Column("m", sa.Uuid), sa.Column("n", sa.Unicode(9)),
            sa.Column("o", sa.UnicodeText), sa.Column("p", sa.Double), sa.Column("q", sa.CHAR(3)),
            sa.Column("r", sa.Enum("x", "y", name="wide_kind")),
            sa.Column("s", sa.Enum("x", "y", name="wide_text", native_enum=False)),
        )
        """,
    ),
    shape(
        "create_table_with_constraints",
        """
        op.create_table(
            "strict",
            sa.Column("id", sa.Integer), sa.Column("other", sa.Integer),
            sa.Column("text", sa.String(20), server_default="it's 100%"),
            sa.Column("at", sa.DateTime, server_default=sa.func.now()),
            sa.PrimaryKeyConstraint("id", "other", name="pk_strict"),
            sa.UniqueConstraint("other", "text", name="uq_strict"),
            sa.CheckConstraint("other > 0 AND text <> 'a:b'", name="ck_strict"),
            sa.ForeignKeyConstraint(["other"], ["person.id"], ondelete="CASCADE", name="fk_strict"),
        )
        """,
    ),
    shape(
        "create_table_with_unnamed_constraints",
        """
        op.create_table(
            "loose", sa.Column("id", sa.Integer, primary_key=True),
            sa.Column("text", sa.String, unique=True, index=True),
            sa.Column("note_id", sa.Integer, sa.ForeignKey("note.id")),
            sa.CheckConstraint("id > 0"),
        )
        """,
    ),
    shape(
        "create_table_if_not_exists",
        """
        op.create_table("note", sa.Column("id", sa.Integer), if_not_exists=True)
        op.create_table("fresh", sa.Column("id", sa.Integer), if_not_exists=True)
        """,
    ),
    shape("create_table_twice", _CREATE, _CREATE, fails=POSTGRESQL | SQLITE),
    shape("drop_table", 'op.drop_table("person")'),
    shape("drop_table_if_exists", 'op.drop_table("nowhere", if_exists=True)'),
    shape("drop_and_create_again", 'op.drop_table("person")', _CREATE.replace("item", "person")),
    shape("rename_table", 'op.rename_table("person", "people")'),
    shape("add_column", 'op.add_column("note", sa.Column("more", sa.String(10)))'),
    shape(
        "add_columns_with_defaults",
        """
        op.add_column("note", sa.Column("a", sa.String, server_default="x'y", nullable=False))
        op.add_column("note", sa.Column("b", sa.Integer, server_default=sa.text("7")))
        op.add_column("note", sa.Column("c", sa.Boolean, server_default=sa.true(), nullable=False))
        op.add_column("note", sa.Column("d", sa.Date, server_default="2024-02-29"))
        """,
    ),
    shape(
        "add_column_with_python_default",
        'op.add_column("note", sa.Column("kind", sa.String, default="never in the database"))',
    ),
    shape(
        "add_not_null_column_without_default",
        'op.add_column("note", sa.Column("must", sa.Integer, nullable=False))',
        fails=POSTGRESQL | SQLITE,
    ),
    shape(
        "add_column_with_foreign_key",
        """
        op.add_column("note", sa.Column("by", sa.Integer, sa.ForeignKey("person.id", name="fk_by")))
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "add_column_with_index",
        'op.add_column("note", sa.Column("more", sa.String(10), index=True, unique=True))',
    ),
    shape(
        "add_computed_column",
        """
        op.add_column("note", sa.Column("twice", sa.Integer, sa.Computed("id * 2", persisted=True)))
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "add_column_if_not_exists",
        """
        op.add_column("note", sa.Column("text", sa.String), if_not_exists=True)
        op.add_column("note", sa.Column("more", sa.String), if_not_exists=True)
        """,
        engines=POSTGRESQL,
    ),
    shape("drop_column", 'op.drop_column("person", "age")'),
    shape("drop_indexed_column", 'op.drop_column("person", "name")', fails=SQLITE),
    shape("rename_column", 'op.alter_column("person", "age", new_column_name="years")'),
    shape(
        "alter_column",
        """
        op.alter_column("note", "text", type_=sa.Text, existing_type=sa.String(80), nullable=True,
                        server_default=sa.text("'%'"), comment="why 100% :x")
        """,
        engines=POSTGRESQL,
        fails=SQLITE,
    ),
    shape(
        "alter_column_type_with_using",
        """
        op.alter_column("note", "text", type_=sa.Integer, postgresql_using="length(text)")
        op.alter_column("person", "age", server_default=None, nullable=False,
                        existing_type=sa.Integer, existing_nullable=True)
        """,
        engines=POSTGRESQL,
        fails=POSTGRESQL,
    ),
    shape(
        "alter_column_using",
        'op.alter_column("note", "text", type_=sa.Integer, postgresql_using="length(text)")',
        engines=POSTGRESQL,
    ),
    shape(
        "drop_default",
        """
        op.alter_column("note", "text", server_default="a")
        op.alter_column("note", "text", server_default=None)
        """,
        engines=POSTGRESQL,
    ),
    shape("create_index", 'op.create_index("ix_note_text", "note", ["text"], unique=True)'),
    shape(
        "create_index_on_expression",
        """
        op.create_index("ix_lower", "note", [sa.text("lower(text)")])
        op.create_index("ix_part", "note", ["id"], postgresql_where=sa.text("id > 1"),
                        sqlite_where=sa.text("id > 1"))
        op.create_index("ix_desc", "person", [sa.text("age DESC")], unique=False)
        op.create_index("ix_once", "person", ["age"], if_not_exists=True)
        """,
    ),
    shape(
        "create_index_of_postgresql",
        """
        op.create_index("ix_inc", "person", ["age"], postgresql_include=["name"])
        op.create_index("ix_hash", "note", ["text"], postgresql_using="hash")
        op.create_index("ix_ops", "note", ["text"], postgresql_ops={"text": "varchar_pattern_ops"})
        op.create_index("ix_fill", "note", ["id"], postgresql_with={"fillfactor": 50})
        op.create_index("ix_nulls", "person", ["age"], unique=True, postgresql_nulls_not_distinct=True)
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "drop_index",
        """
        op.create_index("ix_note_text", "note", ["text"])
        op.drop_index("ix_note_text", table_name="note")
        op.drop_index("ix_none", table_name="note", if_exists=True)
        """,
    ),
    shape("drop_missing_index", 'op.drop_index("ix_none", "note")', fails=POSTGRESQL | SQLITE),
    shape(
        "constraints",
        """
        op.create_check_constraint("ck_age", "person", sa.column("age") >= 0)
        op.create_unique_constraint("uq_text", "note", ["text"])
        op.execute("UPDATE person SET age = id")
        op.create_foreign_key("fk_self", "person", "person", ["age"], ["id"], ondelete="SET NULL",
                              deferrable=True, initially="DEFERRED")
        op.drop_constraint("fk_self", "person", type_="foreignkey")
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "constraint_not_valid",
        """
        op.create_check_constraint("ck_age", "person", "age > 100", postgresql_not_valid=True)
        op.execute("ALTER TABLE note ADD CONSTRAINT ck CHECK (id > 0) NOT VALID")
        op.execute("ALTER TABLE note VALIDATE CONSTRAINT ck")
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "constraint_without_batch",
        'op.create_check_constraint("ck_age", "person", "age > 0")',
        engines=SQLITE,
        fails=SQLITE,
    ),
    shape(
        "exclude_constraint",
        """
        op.create_table("booking", sa.Column("id", sa.Integer),
                        sa.Column("during", postgresql.TSRANGE))
        op.create_exclude_constraint("ex_booking", "booking", ("during", "&&"), using="gist")
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "comments",
        """
        op.create_table_comment("note", "100% of :notes, it's \\\\ all")
        op.alter_column("note", "text", comment="a 'quoted' comment")
        op.create_table("said", sa.Column("id", sa.Integer, comment="the %s"), comment="a; b")
        op.drop_table_comment("said")
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "sequences",
        """
        op.execute(sa.schema.CreateSequence(sa.Sequence("numbers", start=5, increment=3)))
        op.create_table("numbered", sa.Column(
            "id", sa.Integer, sa.Sequence("numbers"), server_default=sa.text("nextval('numbers')")))
        op.execute("INSERT INTO numbered DEFAULT VALUES")
        op.execute("ALTER SEQUENCE numbers OWNED BY numbered.id")
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "setval",
        """
        op.execute("INSERT INTO note (id, text) VALUES (100, 'far')")
        op.execute("SELECT setval('note_id_seq', (SELECT max(id) FROM note))")
        op.execute("INSERT INTO note (text) VALUES ('next')")
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "alter_sequence_restart",
        """
        op.execute("ALTER SEQUENCE note_id_seq RESTART WITH 50")
        op.execute("INSERT INTO note (text) VALUES ('fifty')")
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "identity",
        """
        op.create_table("own", sa.Column("id", sa.BigInteger, sa.Identity(always=True, start=10),
                                          primary_key=True), sa.Column("text", sa.Text))
        own = sa.table("own", sa.column("text"))
        op.bulk_insert(own, [{"text": "a"}, {"text": "b"}])
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "create_schema",
        """
        op.execute("CREATE SCHEMA app")
        op.create_table("inner", sa.Column("id", sa.Integer, primary_key=True), schema="app")
        op.add_column("inner", sa.Column("text", sa.String), schema="app")
        op.create_index("ix_inner", "inner", ["text"], schema="app")
        op.execute("INSERT INTO app.inner (text) VALUES ('in')")
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "create_schema_construct",
        'op.execute(sa.schema.CreateSchema("app", if_not_exists=True))',
        engines=POSTGRESQL,
    ),
    shape(
        "partitions",
        """
        op.create_table("log", sa.Column("day", sa.Date, nullable=False),
                        sa.Column("text", sa.Text), postgresql_partition_by="RANGE (day)")
        op.execute("CREATE TABLE log_24 PARTITION OF log "
                   "FOR VALUES FROM ('2024-01-01') TO ('2025-01-01')")
        op.execute("INSERT INTO log VALUES ('2024-05-05', 'x')")
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "table_options",
        """
        op.create_table("kept", sa.Column("id", sa.Integer, primary_key=True),
                        prefixes=["UNLOGGED"], postgresql_with={"fillfactor": 70})
        """,
        engines=POSTGRESQL,
        since="2.1",
    ),
    shape(
        "table_options_of_sqlite",
        """
        op.create_table("kept", sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
                        sqlite_autoincrement=True)
        op.create_table("bare", sa.Column("id", sa.Text, primary_key=True),
                        sqlite_with_rowid=False, sqlite_strict=True)
        op.execute("INSERT INTO kept (id) VALUES (41)")
        op.execute("INSERT INTO kept DEFAULT VALUES")
        """,
        engines=SQLITE,
    ),
    shape(
        "temporary_table",
        """
        op.execute("CREATE TEMPORARY TABLE brief AS SELECT id FROM note")
        op.execute("INSERT INTO seen (text) SELECT count(*) || ' notes' FROM brief")
        op.execute("DROP TABLE brief")
        """,
    ),
    shape(
        "temporary_table_left",
        "op.execute('CREATE TEMPORARY TABLE brief AS SELECT id FROM note')",
        "op.execute(\"INSERT INTO seen (text) SELECT 'n' || count(*) FROM brief\")",
    ),
    shape(
        "odd_names",
        """
        op.create_table("Order", sa.Column("select", sa.Integer), sa.Column("has space", sa.Text),
                        sa.Column('quo"te', sa.Text), sa.Column("per%cent", sa.Text),
                        sa.Column("col:on", sa.Text), sa.Column("Größe", sa.Integer))
        op.create_index("Ix Order", "Order", ["has space"])
        op.execute('INSERT INTO "Order" ("select", "has space") VALUES (1, \\'a\\')')
        """,
    ),
    shape(
        "unquoted_atomic",
        """
        op.execute("CREATE TABLE reactor (atomic integer, begin_at integer);"
                   "INSERT INTO reactor (atomic) VALUES (1);"
                   "INSERT INTO reactor (atomic) VALUES (2)")
        op.execute("UPDATE reactor SET atomic = 3 WHERE atomic = 2")
        """,
        engines=POSTGRESQL,
        fails=SQLITE,
    ),
    shape(
        "column_named_atomic",
        """
        op.execute("CREATE TABLE reactor (begin_at integer, atomic integer, ended integer)")
        op.execute("INSERT INTO reactor (begin_at, atomic, ended) VALUES (1, 2, 3)")
        """,
    ),
    shape(
        "grants",
        """
        op.execute("GRANT SELECT ON note TO PUBLIC")
        op.execute("REVOKE ALL ON person FROM PUBLIC")
        op.execute("ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO PUBLIC")
        op.create_table("open", sa.Column("id", sa.Integer))
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "row_security",
        """
        op.execute("ALTER TABLE note ENABLE ROW LEVEL SECURITY")
        op.execute("ALTER TABLE note FORCE ROW LEVEL SECURITY")
        op.execute("CREATE POLICY mine ON note USING (text = current_setting('app.me', true))")
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "statistics_and_publication",
        """
        op.execute("CREATE STATISTICS s (dependencies) ON name, age FROM person")
        op.execute("CREATE PUBLICATION p FOR TABLE note")
        op.execute("ALTER TABLE note REPLICA IDENTITY FULL")
        op.execute("ALTER TABLE note ALTER COLUMN text SET STATISTICS 300")
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "alter_database",
        """
        name = op.get_bind().scalar(sa.text("SELECT current_database()"))
        op.execute(f'ALTER DATABASE "{name}" SET work_mem = \\'5MB\\'')
        op.execute(f'COMMENT ON DATABASE "{name}" IS \\'mine\\'')
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "truncate",
        """
        op.execute("TRUNCATE note RESTART IDENTITY CASCADE")
        op.execute("INSERT INTO note (text) VALUES ('first again')")
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "metadata_create_all",
        """
        metadata = sa.MetaData()
        sa.Table("made", metadata, sa.Column("id", sa.Integer, primary_key=True))
        sa.Table("note", metadata, sa.Column("id", sa.Integer, primary_key=True))
        metadata.create_all(op.get_bind())
        """,
    ),
    shape(
        "metadata_create_all_unchecked",
        """
        metadata = sa.MetaData()
        sa.Table("made", metadata, sa.Column("id", sa.Integer, primary_key=True))
        metadata.create_all(op.get_bind(), checkfirst=False)
        """,
    ),
    shape(
        "table_create_and_drop",
        """
        table = sa.Table("made", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True))
        table.create(op.get_bind())
        sa.Table("person", sa.MetaData()).drop(op.get_bind(), checkfirst=True)
        """,
    ),
    shape(
        "ddl_constructs",
        """
        table = sa.Table("made", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True),
                         sa.Column("n", sa.Integer))
        op.execute(sa.schema.CreateTable(table))
        op.execute(sa.schema.CreateIndex(sa.Index("ix_made", table.c.n)))
        op.execute(sa.DDL("CREATE INDEX ix_%(name)s ON note (id)", context={"name": "x"}))
        """,
    ),
    shape(
        "naming_convention_of_f",
        """
        op.create_table("item", sa.Column("id", sa.Integer), sa.Column("n", sa.Integer),
                        sa.PrimaryKeyConstraint("id", name=op.f("pk_item")),
                        sa.UniqueConstraint("n", name=op.f("uq_item_n")))
        op.create_index(op.f("ix_item_n"), "item", ["n"], unique=False)
        """,
    ),
    shape(
        "naming_convention_of_metadata",
        """
        convention = {"pk": "pk_%(table_name)s", "uq": "uq_%(table_name)s_%(column_0_name)s",
                      "ck": "ck_%(table_name)s_%(constraint_name)s"}
        metadata = sa.MetaData(naming_convention=convention)
        sa.Table("item", metadata, sa.Column("id", sa.Integer, primary_key=True),
                 sa.Column("n", sa.Integer, unique=True), sa.CheckConstraint("n > 0", name="n"))
        metadata.create_all(op.get_bind())
        """,
    ),
    shape(
        "naming_convention_of_env_py",
        'op.create_table("item", sa.Column("n", sa.Integer, unique=True))',
        metadata='MetaData(naming_convention={"uq": "uq_%(table_name)s_%(column_0_name)s"})',
    ),
    shape(
        "long_names",
        """
        name = "a_very_long_name_" * 5
        op.create_table("wordy", sa.Column("id", sa.Integer), sa.Column("n", sa.Integer))
        op.create_index(name[:60], "wordy", ["n"])
        """,
    ),
    shape(
        "pragma_foreign_keys_on",
        """
        op.execute("PRAGMA foreign_keys=ON")
        op.execute("INSERT INTO person (name, note_id) VALUES ('Cleo', 99)")
        """,
        engines=SQLITE,
        fails=SQLITE,
    ),
    shape(
        "pragma_foreign_keys_off",
        """
        op.execute("PRAGMA foreign_keys=OFF")
        op.execute("DELETE FROM note WHERE id = 1")
        op.execute("PRAGMA foreign_keys=ON")
        """,
        engines=SQLITE,
    ),
    shape(
        "pragma_user_version",
        "op.execute('PRAGMA user_version = 7')",
        engines=SQLITE,
    ),
    shape(
        "foreign_keys_are_not_enforced",
        "op.execute('DELETE FROM note WHERE id = 1')",
        engines=SQLITE,
    ),
]
