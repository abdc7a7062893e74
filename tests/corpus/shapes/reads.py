"""Revisions that ask the database: rows, row counts, new keys, the inspector, cursors."""

from tests.corpus.shape import BOTH, POSTGRESQL, SQLITE, shape

_MARK = 'mark = "?" if op.get_bind().dialect.name == "sqlite" else "%s"\n'

SHAPES = [
    shape(
        "reads_rows",
        """
        for row in op.get_bind().execute(sa.text("SELECT id, text FROM note ORDER BY id")).fetchall():
            op.execute(note.update().where(note.c.id == row.id).values(text=f"{row.text} {row[0]}"))
        """,
    ),
    shape("reads_a_scalar", 'see(op.get_bind().scalar(sa.text("SELECT max(id) FROM note")))'),
    shape(
        "reads_mappings",
        "see([dict(r) for r in op.get_bind().execute(sa.select(note)).mappings()])",
    ),
    shape("reads_first", "see(op.get_bind().execute(sa.select(person.c.name)).first())"),
    shape(
        "reads_lazily",
        """
        result = op.get_bind().execute(sa.select(note.c.id).order_by(note.c.id))
        for (id_,) in result:
            op.execute(note.update().where(note.c.id == id_).values(text=str(id_ * 2)))
        """,
    ),
    shape(
        "reads_in_portions",
        """
        result = op.get_bind().execute(sa.select(note.c.id).order_by(note.c.id).execution_options(
            stream_results=True, max_row_buffer=2))
        see([len(part) for part in result.partitions(2)])
        """,
    ),
    shape("reads_nothing", 'see(op.get_bind().execute(sa.text("SELECT 1 WHERE 1 = 0")).scalar())'),
    shape(
        "reads_one_of_none",
        'op.get_bind().execute(sa.text("SELECT 1 WHERE 1 = 0")).one()',
        fails=BOTH,
    ),
    shape(
        "reads_keys",
        'see(list(op.get_bind().execute(sa.text("SELECT id AS a, text FROM note")).keys()))',
    ),
    shape(
        "reads_every_type",
        """
        see(op.get_bind().execute(sa.text(
            "SELECT true, 1.5::numeric, 1.5::float8, '2024-01-01'::date, '10:00'::time, "
            "'2024-01-01 10:00'::timestamp, '2024-01-01 10:00+00'::timestamptz, "
            "'1 day'::interval, '{1,2}'::int[], '{\\"a\\": 1}'::jsonb, '\\\\x00ff'::bytea, "
            "'00000000-0000-0000-0000-000000000005'::uuid, '10.0.0.1'::inet, null, 'x'::char(3)"
        )).one())
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "reads_typed",
        """
        op.execute("CREATE TABLE t (d DATE, j JSON, b BOOLEAN, n NUMERIC(5, 2))")
        table = sa.table("t", sa.column("d", sa.Date), sa.column("j", sa.JSON),
                         sa.column("b", sa.Boolean), sa.column("n", sa.Numeric(5, 2)))
        op.bulk_insert(table, [{"d": datetime.date(2024, 1, 1), "j": {"a": [1]}, "b": True,
                                "n": decimal.Decimal("1.50")}])
        see(op.get_bind().execute(sa.select(table)).one())
        """,
    ),
    shape(
        "row_count",
        """
        see(op.get_bind().execute(sa.text("UPDATE note SET text = 'n' WHERE id < 3")).rowcount)
        see(op.get_bind().execute(note.delete().where(note.c.id > 50)).rowcount)
        """,
    ),
    shape(
        "row_count_of_many",
        """
        done = op.get_bind().execute(
            sa.text("UPDATE note SET text = :t WHERE id = :i"), [{"t": "a", "i": 1}, {"t": "b", "i": 9}])
        see(done.rowcount)
        """,
    ),
    shape(
        "row_count_of_ddl",
        'see(op.get_bind().execute(sa.text("CREATE TABLE t (a int)")).rowcount)',
    ),
    shape(
        "new_key",
        """
        table = sa.Table("note", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True),
                         sa.Column("text", sa.String))
        done = op.get_bind().execute(table.insert().values(text="k"))
        op.execute(person.insert().values(name="Key", note_id=done.inserted_primary_key[0]))
        """,
    ),
    shape(
        "new_keys_of_many",
        """
        table = sa.Table("note", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True),
                         sa.Column("text", sa.String))
        done = op.get_bind().execute(
            table.insert().returning(table.c.id, sort_by_parameter_order=True),
            [{"text": "a"}, {"text": "b"}])
        see(done.all())
        """,
    ),
    shape(
        "last_row_id",
        "see(op.get_bind().execute(sa.text(\"INSERT INTO note (text) VALUES ('l')\")).lastrowid)",
        engines=SQLITE,
        fails=POSTGRESQL,
    ),
    shape(
        "last_row_id_is_of_the_revisions",
        "pass",
        "op.execute(\"INSERT INTO note (id, text) VALUES (77, 'n')\")",
        'op.execute("INSERT INTO seen (text) SELECT last_insert_rowid()")',
        engines=SQLITE,
    ),
    shape(
        "last_row_id_is_of_the_revisions_live",
        "see(1)",
        "op.get_bind().execute(sa.text(\"INSERT INTO note (id, text) VALUES (77, 'n')\"))",
        'see(op.get_bind().scalar(sa.text("SELECT last_insert_rowid()")))',
        engines=SQLITE,
    ),
    shape(
        "returning",
        """
        insert = note.insert().values(text="r").returning(note.c.id, note.c.text)
        see(op.get_bind().execute(insert).one())
        see(op.get_bind().execute(sa.text("DELETE FROM note WHERE id = 2 RETURNING text")).all())
        """,
    ),
    shape(
        "returns_rows",
        """
        see(op.get_bind().execute(sa.text("UPDATE note SET text = 'x'")).returns_rows)
        see(op.get_bind().execute(sa.text("SELECT 1")).returns_rows)
        """,
    ),
    shape("exists", "see(op.get_bind().scalar(sa.select(sa.exists().where(note.c.id == 2))))"),
    shape(
        "guard_by_inspector",
        """
        inspector = sa.inspect(op.get_bind())
        if "locale" not in [column["name"] for column in inspector.get_columns("person")]:
            op.add_column("person", sa.Column("locale", sa.String(5)))
        if not inspector.has_table("settings"):
            op.create_table("settings", sa.Column("key", sa.String(50), primary_key=True))
        """,
    ),
    shape(
        "inspector_sees_what_was_made",
        """
        op.create_table("made", sa.Column("id", sa.Integer, primary_key=True))
        see(sa.inspect(op.get_bind()).has_table("made"))
        see(sa.inspect(op.get_bind()).get_pk_constraint("made")["constrained_columns"])
        """,
    ),
    shape(
        "inspector_lists",
        """
        inspector = sa.inspect(op.get_bind())
        see(sorted(n for n in inspector.get_table_names() if not n.startswith("tenantry_")))
        see(inspector.get_indexes("person"), inspector.get_unique_constraints("person"))
        see(inspector.get_foreign_keys("person"), inspector.default_schema_name)
        see([str(c["type"]) for c in inspector.get_columns("person")], inspector.get_view_names())
        """,
    ),
    shape(
        "inspector_lists_every_table",
        "see(len(sa.inspect(op.get_bind()).get_table_names()) < 6)",
    ),
    shape(
        "inspector_of_postgresql",
        """
        op.execute("CREATE TYPE mood AS ENUM ('a', 'b')")
        inspector = sa.inspect(op.get_bind())
        see(inspector.get_enums(), inspector.get_schema_names())
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "inspector_of_the_context",
        """
        from sqlalchemy.engine.reflection import Inspector
        see(Inspector.from_engine(op.get_bind()).has_table("note"))
        """,
    ),
    shape(
        "reflection",
        """
        table = sa.Table("person", sa.MetaData(), autoload_with=op.get_bind())
        see([(c.name, str(c.type), c.nullable) for c in table.columns])
        op.get_bind().execute(table.insert().values(name="Reflected"))
        """,
    ),
    shape(
        "metadata_reflect",
        """
        metadata = sa.MetaData()
        metadata.reflect(bind=op.get_bind())
        see(sorted(name for name in metadata.tables if not name.startswith("tenantry_")))
        """,
    ),
    shape(
        "has_table_of_the_dialect",
        "see(op.get_bind().dialect.has_table(op.get_bind(), 'note'))",
    ),
    shape(
        "raw_cursor",
        f"""
        {_MARK}
        cursor = op.get_bind().connection.cursor()
        cursor.execute(f"INSERT INTO note (text) VALUES ({{mark}})", ("raw",))
        see(cursor.rowcount)
        cursor.execute("SELECT text FROM note ORDER BY id")
        see(cursor.fetchone(), cursor.fetchmany(2), cursor.fetchall())
        cursor.close()
        """.replace("        ", ""),
    ),
    shape(
        "raw_cursor_rowcount",
        """
        cursor = op.get_bind().connection.cursor()
        cursor.execute("UPDATE note SET text = 'x' WHERE id < 3")
        op.execute(f"INSERT INTO seen (text) VALUES ('{cursor.rowcount}')")
        """,
    ),
    shape(
        "raw_cursor_lastrowid",
        """
        cursor = op.get_bind().connection.cursor()
        cursor.execute("INSERT INTO note (text) VALUES ('x')")
        op.execute(f"INSERT INTO seen (text) VALUES ('{cursor.lastrowid}')")
        """,
        engines=SQLITE,
        fails=POSTGRESQL,
    ),
    shape(
        "raw_cursor_description",
        """
        cursor = op.get_bind().connection.cursor()
        cursor.execute("SELECT id AS a, text AS b FROM note")
        names = [column[0] for column in cursor.description]
        op.execute(f"INSERT INTO seen (text) VALUES ('{' '.join(names)}')")
        cursor.execute("UPDATE note SET text = 'x'")
        op.execute(f"INSERT INTO seen (text) VALUES ('{cursor.description}')")
        """,
    ),
    shape(
        "raw_executemany",
        """
        mark = "?" if op.get_bind().dialect.name == "sqlite" else "%s"
        cursor = op.get_bind().connection.cursor()
        cursor.executemany(f"INSERT INTO note (text) VALUES ({mark})", [("a",), ("b",), ("c",)])
        see(cursor.rowcount)
        """,
    ),
    shape(
        "raw_mutable_parameters",
        """
        mark = "?" if op.get_bind().dialect.name == "sqlite" else "%s"
        cursor = op.get_bind().connection.cursor()
        row = [None]
        for word in ("a", "b", "c"):
            row[0] = word
            cursor.execute(f"INSERT INTO note (text) VALUES ({mark})", row)
        """,
    ),
    shape(
        "raw_named_parameters",
        """
        cursor = op.get_bind().connection.cursor()
        cursor.execute("INSERT INTO note (text) VALUES (%(a)s)", {"a": "named"})
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "raw_named_parameters_of_sqlite",
        """
        cursor = op.get_bind().connection.cursor()
        cursor.execute("INSERT INTO note (text) VALUES (:a)", {"a": "named"})
        """,
        engines=SQLITE,
    ),
    shape(
        "raw_cursor_iterates",
        """
        cursor = op.get_bind().connection.cursor()
        cursor.execute("SELECT id FROM note ORDER BY id")
        see([id_ for (id_,) in cursor])
        """,
    ),
    shape(
        "raw_driver_connection",
        """
        raw = op.get_bind().connection.driver_connection
        see(type(raw).__module__.partition(".")[0])
        raw.execute("INSERT INTO note (text) VALUES ('driver')")
        """,
    ),
    shape(
        "raw_connection_attributes",
        """
        raw = op.get_bind().connection.dbapi_connection
        see(raw.total_changes >= 0, raw.in_transaction)
        raw.create_function("double", 1, lambda n: n * 2)
        op.execute("INSERT INTO seen (text) VALUES (double(21))")
        """,
        engines=SQLITE,
    ),
    shape(
        "raw_connection_info",
        """
        raw = op.get_bind().connection.driver_connection
        see(raw.info.encoding, raw.info.transaction_status.name, raw.autocommit)
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "exec_driver_sql",
        """
        see(op.get_bind().exec_driver_sql("SELECT count(*) FROM note").scalar())
        op.get_bind().exec_driver_sql("UPDATE note SET text = 'd'")
        """,
    ),
    shape(
        "exec_driver_sql_with_parameters",
        """
        mark = "?" if op.get_bind().dialect.name == "sqlite" else "%s"
        insert = f"INSERT INTO note (text) VALUES ({mark})"
        op.get_bind().exec_driver_sql(insert, ("one",))
        op.get_bind().exec_driver_sql(insert, [("two",), ("three",)])
        """,
    ),
    shape(
        "compiled_expression",
        """
        update = note.update().where(note.c.id == 1).values(text="compiled it's")
        text = str(update.compile(dialect=op.get_bind().dialect,
                                  compile_kwargs={"literal_binds": True}))
        see(text)
        op.execute(text)
        """,
    ),
    shape(
        "server_settings",
        'see(op.get_bind().scalar(sa.text("SHOW search_path")), '
        'op.get_bind().scalar(sa.text("SHOW statement_timeout")), '
        'op.get_bind().scalar(sa.text("SHOW idle_in_transaction_session_timeout")), '
        'op.get_bind().scalar(sa.text("SHOW transaction_isolation")), '
        'op.get_bind().scalar(sa.text("SHOW DateStyle")), '
        'op.get_bind().scalar(sa.text("SHOW client_encoding")), '
        'op.get_bind().scalar(sa.text("SHOW jit")))',
        engines=POSTGRESQL,
    ),
    shape(
        "lock_timeout_of_the_session",
        'see(op.get_bind().scalar(sa.text("SHOW lock_timeout")))',
        engines=POSTGRESQL,
    ),
    shape(
        "settings_of_sqlite",
        """
        for name in ("foreign_keys", "recursive_triggers", "defer_foreign_keys", "encoding",
                     "legacy_alter_table", "trusted_schema"):
            see(name, op.get_bind().exec_driver_sql(f"PRAGMA {name}").fetchall())
        """,
        engines=SQLITE,
    ),
    shape(
        "row_factory_and_text_factory",
        """
        raw = op.get_bind().connection.driver_connection
        see(raw.row_factory, raw.text_factory, raw.isolation_level)
        """,
        engines=SQLITE,
    ),
    shape(
        "sqlite_functions_of_sqlalchemy",
        "op.execute(\"UPDATE note SET text = 'matched' WHERE text REGEXP '^t'\")",
        engines=SQLITE,
    ),
    shape(
        "reads_what_an_earlier_revision_wrote",
        "op.execute(\"INSERT INTO note (text) VALUES ('early')\")",
        'see(op.get_bind().scalar(sa.text("SELECT count(*) FROM note")))',
        'op.execute("UPDATE note SET text = upper(text)")',
        'see(op.get_bind().execute(sa.text("SELECT text FROM note ORDER BY id")).scalars().all())',
    ),
    shape(
        "prepared_statement_goes_stale",
        """
        for _ in range(8):
            op.get_bind().execute(sa.text("SELECT * FROM note")).fetchall()
        """,
        'op.add_column("note", sa.Column("more", sa.Integer, server_default="1"))',
        """
        for _ in range(8):
            found = op.get_bind().execute(sa.text("SELECT * FROM note")).fetchall()
        see(found)
        """,
        'op.alter_column("note", "more", type_=sa.Text)',
        'see(op.get_bind().execute(sa.text("SELECT * FROM note")).fetchall())',
        engines=POSTGRESQL,
    ),
    shape(
        "prepared_statement_goes_stale_on_sqlite",
        "op.get_bind().execute(sa.text('SELECT * FROM note')).fetchall()",
        'op.add_column("note", sa.Column("more", sa.Integer, server_default="1"))',
        "see(op.get_bind().execute(sa.text('SELECT * FROM note')).fetchall())",
        engines=SQLITE,
    ),
    shape(
        "long_in_list",
        """
        ids = [id_ for (id_,) in op.get_bind().execute(sa.select(note.c.id))] + list(range(900))
        op.execute(note.update().where(note.c.id.in_(ids)).values(text="many"))
        """,
    ),
    shape(
        "batches_until_done",
        """
        while True:
            done = op.get_bind().execute(sa.text(
                "UPDATE note SET text = 'done' WHERE id IN "
                "(SELECT id FROM note WHERE text IS NULL OR text <> 'done' ORDER BY id LIMIT 1)"))
            if done.rowcount == 0:
                break
            see("batch")
        """,
    ),
    shape(
        "json_round_trip",
        """
        table = op.create_table("doc", sa.Column("id", sa.Integer), sa.Column("j", sa.JSON))
        op.bulk_insert(table, [{"id": 1, "j": {"a": 1, "tags": ["x"]}}])
        for row in op.get_bind().execute(sa.select(table)):
            row.j["tags"].append("ü")
            op.execute(table.update().where(table.c.id == row.id).values(j=row.j))
        """,
    ),
]
