"""What a revision can ask of Alembic: the context, the dialect, the current revision, options."""

from tests.corpus.shape import BOTH, POSTGRESQL, shape

SHAPES = [
    shape(
        "get_current_revision",
        "see(op.get_context().get_current_revision())",
        "pass",
        "see(op.get_context().get_current_revision(), op.get_context().get_current_heads())",
    ),
    shape(
        "reads_the_version_table",
        "pass",
        'see(op.get_bind().scalar(sa.text("SELECT version_num FROM alembic_version")))',
    ),
    shape(
        "writes_the_version_table",
        "pass",
        "op.execute(\"UPDATE alembic_version SET version_num = 'elsewhere'\")",
        "pass",
        fails=BOTH,
    ),
    shape("dialect_name", "op.execute(note.insert().values(text=op.get_context().dialect.name))"),
    shape(
        "dialect_of_bind",
        """
        if op.get_bind().dialect.name == "postgresql":
            op.execute("CREATE TABLE pg (id int)")
        else:
            op.execute("CREATE TABLE lite (id int)")
        """,
    ),
    shape("dialect_of_engine", "see(op.get_bind().engine.name, op.get_bind().engine.dialect.name)"),
    shape("driver_name", "see(op.get_bind().dialect.driver, op.get_bind().engine.driver)"),
    shape(
        "driver_name_recorded",
        "op.execute(note.insert().values(text=op.get_context().dialect.driver))",
    ),
    shape(
        "param_style", "op.execute(note.insert().values(text=op.get_context().dialect.paramstyle))"
    ),
    shape("server_version", "see(op.get_bind().dialect.server_version_info >= (3, 9))"),
    shape(
        "server_version_of_context",
        "op.execute(note.insert().values(text=str(op.get_context().dialect.server_version_info)))",
    ),
    shape(
        "dialect_flags",
        """
        dialect = op.get_context().dialect
        op.execute(note.insert().values(text=str([
            dialect.insert_returning, dialect.supports_comments, dialect.supports_native_boolean,
            dialect.max_identifier_length])))
        """,
    ),
    shape("default_schema_name", "see(op.get_bind().dialect.default_schema_name)"),
    shape(
        "default_schema_name_of_context",
        "op.execute(note.insert().values(text=str(op.get_context().dialect.default_schema_name)))",
    ),
    shape(
        "engine_url",
        """
        url = op.get_bind().engine.url
        see(url.get_backend_name(), bool(url.database), url.username)
        """,
    ),
    shape("engine_url_driver", "see(op.get_bind().engine.url.drivername)"),
    shape(
        "engine_url_recorded",
        """
        url = op.get_bind().engine.url
        op.execute(note.insert().values(text=str(bool(url.database))))
        """,
    ),
    shape("get_bind_twice", "see(op.get_bind() is op.get_bind(), op.get_bind().closed)"),
    shape(
        "bind_of_context",
        "see(op.get_context().bind is op.get_bind(), op.get_context().connection is not None)",
    ),
    shape(
        "bind_is_a_connection",
        "see(type(op.get_bind()).__name__, isinstance(op.get_bind(), sa.Connection))",
    ),
    shape("as_sql", "see(op.get_context().as_sql)"),
    shape(
        "as_sql_branches",
        """
        if op.get_context().as_sql:
            op.execute("INSERT INTO note (text) VALUES ('offline')")
        else:
            op.execute("INSERT INTO note (text) VALUES ('online')")
        """,
    ),
    shape(
        "as_sql_of_impl", "op.execute(note.insert().values(text=str(op.get_context().impl.as_sql)))"
    ),
    shape(
        "context_options",
        """
        options = op.get_context().opts
        op.execute(note.insert().values(text=str([
            options.get("transactional_ddl"), options.get("transaction_per_migration"),
            options.get("literal_binds"), options.get("as_sql"), options.get("target_metadata")])))
        """,
    ),
    shape(
        "impl_transactional_ddl",
        "op.execute(note.insert().values(text=str(op.get_context().impl.transactional_ddl)))",
    ),
    shape(
        "is_offline_mode",
        """
        if context.is_offline_mode():
            op.execute("INSERT INTO note (text) VALUES ('offline')")
        else:
            op.execute("INSERT INTO note (text) VALUES ('online')")
        """,
        head="from alembic import context",
    ),
    shape(
        "is_offline_mode_guards_a_read",
        """
        if not context.is_offline_mode():
            see(op.get_bind().scalar(sa.text("SELECT count(*) FROM note")))
        """,
        head="from alembic import context",
    ),
    shape(
        "x_argument",
        "see(context.get_x_argument(as_dictionary=True).get('tenant'))",
        head="from alembic import context",
    ),
    shape(
        "context_config",
        "see(context.config.get_main_option('own_option'))",
        head="from alembic import context",
        ini="own_option = 5\n",
    ),
    shape(
        "context_get_bind",
        "see(context.get_bind().scalar(sa.text('SELECT 1')))",
        head="from alembic import context",
    ),
    shape(
        "context_get_context",
        "see(context.get_context().dialect.name)",
        head="from alembic import context",
    ),
    shape(
        "context_execute",
        "context.execute(\"INSERT INTO note (text) VALUES ('by context')\")",
        head="from alembic import context",
    ),
    shape("context_tag", "see(context.get_tag_argument())", head="from alembic import context"),
    shape(
        "migration_context_of_its_own",
        """
        from alembic.migration import MigrationContext
        from alembic.operations import Operations
        own = Operations(MigrationContext.configure(op.get_bind()))
        own.create_table("own", sa.Column("id", sa.Integer))
        see(MigrationContext.configure(op.get_bind()).get_current_revision())
        """,
    ),
    shape(
        "version_table_of_context",
        "see(op.get_context().version_table, op.get_context().version_table_schema)",
    ),
    shape("script_directory", "see(op.get_context().script is None)"),
    shape(
        "config_of_context",
        "see(op.get_context().config.get_main_option('own_option'))",
        ini="own_option = 7\n",
    ),
    shape("has_offline_bind", "see(op.get_bind() is not None)"),
    shape("get_bind_info", "op.get_bind().info['a'] = 1\nsee(op.get_bind().info.get('a'))"),
    shape("get_bind_unused", "op.get_bind()\nop.execute(\"INSERT INTO note (text) VALUES ('x')\")"),
    shape(
        "schema_obj",
        """
        from alembic.operations.schemaobj import SchemaObjects
        table = SchemaObjects(op.get_context()).table("made", sa.Column("id", sa.Integer))
        op.execute(sa.schema.CreateTable(table))
        """,
    ),
    shape(
        "autogenerate_in_a_revision",
        """
        from alembic.autogenerate import compare_metadata
        differences = compare_metadata(op.get_context(), sa.MetaData())
        see(sorted(one[0] + " " + one[1].name for one in differences
                   if one[0] == "remove_table" and not one[1].name.startswith("tenantry_")))
        """,
    ),
    shape(
        "implementation_of_its_own",
        """
        from alembic.ddl import impl
        see(op.get_context().impl.__dialect__, isinstance(op.get_context().impl, impl.DefaultImpl))
        """,
    ),
    shape(
        "impl_execute",
        "op.get_context().impl._exec(sa.text(\"INSERT INTO note (text) VALUES ('impl')\"))",
    ),
    shape(
        "context_execute_of_migration",
        "op.get_context().execute(\"INSERT INTO note (text) VALUES ('c')\")",
    ),
    shape(
        "migration_context_connection",
        """
        op.get_context().connection.execute(sa.text("INSERT INTO note (text) VALUES ('connection')"))
        """,
    ),
    shape(
        "run_outside_upgrade_helpers",
        """
        import warnings
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            op.execute("INSERT INTO note (text) VALUES ('strict')")
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "bind_dialect_compiles",
        """
        text = str(sa.select(sa.func.now()).compile(dialect=op.get_bind().dialect))
        op.execute(seen.insert().values(text=text))
        """,
    ),
    shape(
        "get_bind_engine_dispose",
        "op.get_bind().engine.dispose()\nop.execute(\"INSERT INTO note (text) VALUES ('d')\")",
    ),
    shape("closes_the_connection", "op.get_bind().close()", fails=BOTH),
    shape(
        "closes_the_raw_connection",
        "op.get_bind().connection.close()",
        engines=POSTGRESQL,
        fails=POSTGRESQL,
    ),
    shape(
        "invalidates_the_connection",
        "op.get_bind().invalidate()",
        engines=POSTGRESQL,
        fails=POSTGRESQL,
    ),
    shape(
        "terminates_itself",
        "op.execute('SELECT pg_terminate_backend(pg_backend_pid())')",
        engines=POSTGRESQL,
        fails=POSTGRESQL,
    ),
]
