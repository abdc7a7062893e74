"""Warnings about an ``env.py``, which is read and never executed."""

from importlib.resources import files
from pathlib import Path

import pytest

from tenantry.migration.environment import read_environment

CONFIGURE = "from alembic import context\ncontext.configure(connection=c, {})\n"


def names(folder: Path, text: str, version_table: str = "alembic_version") -> list[str]:
    (folder / "env.py").write_text(text)
    return [one.name for one in read_environment(folder, version_table)]


class TestReadEnvironment:
    @pytest.mark.parametrize("template", ["generic", "async", "pyproject"])
    def test_finds_nothing_in_what_alembic_generates(self, tmp_path: Path, template: str):
        text = files("alembic").joinpath("templates", template, "env.py").read_text()

        assert names(tmp_path, text) == []

    def test_finds_nothing_where_there_is_none(self, tmp_path: Path):
        assert read_environment(tmp_path, "alembic_version") == []

    @pytest.mark.parametrize(
        ("option", "name"),
        [
            ("version_table_schema='app'", "version_table_schema"),
            ("include_object=chosen", "include_object"),
            ("include_name=chosen", "include_name"),
            ("transaction_per_migration=True", "transaction_per_migration"),
            ("on_version_apply=notify", "on_version_apply"),
            ("target_metadata=Base.metadata", "target_metadata"),
            ("target_metadata=[a, b]", "target_metadata"),
            ("version_table='versions'", "version_table='versions'"),
            ("version_table=NAME", "version_table=NAME"),
            ("tenant='acme'", "tenant"),
            ("**options", "**options"),
        ],
    )
    def test_names_an_option(self, tmp_path: Path, option: str, name: str):
        assert names(tmp_path, CONFIGURE.format(option)) == [name]

    @pytest.mark.parametrize(
        "option",
        [
            *("render_as_batch=True", "compare_type=True", "process_revision_directives=p"),
            *("transaction_per_migration=False", "version_table='alembic_version'"),
            *("target_metadata=None", "include_object=None", "literal_binds=True"),
        ],
    )
    def test_ignores_what_changes_nothing(self, tmp_path: Path, option: str):
        assert names(tmp_path, CONFIGURE.format(option)) == []

    def test_knows_the_version_table_of_the_settings(self, tmp_path: Path):
        text = CONFIGURE.format("version_table='versions'")

        assert names(tmp_path, text, version_table="versions") == []

    @pytest.mark.parametrize(
        ("line", "name"),
        [
            ("c.execute(text('SET ROLE owner'))", "SET ROLE"),
            ("c.execute(text(f'set session role {role}'))", "SET ROLE"),
            ("c.execute(text('CREATE SCHEMA IF NOT EXISTS app'))", "CREATE SCHEMA"),
            ("c.execute(CreateSchema('app'))", "CreateSchema"),
            ("c.execute(text(f'SET search_path TO {schema}'))", "search_path"),
            (
                "engine = create_engine(url, connect_args={'options': '-c search_path=a'})",
                "search_path",
            ),
            ("c.execute(text('SET lock_timeout = 5'))", "a timeout"),
            ("c.execute(text('PRAGMA foreign_keys=ON'))", "PRAGMA"),
            ("@event.listens_for(Engine, 'connect')\ndef f(*_): pass", "listens_for"),
            ("event.listen(engine, 'connect', f)", "listen"),
            ("c = c.execution_options(schema_translate_map={None: 'a'})", "schema_translate_map"),
            ("context.run_migrations(tenant='a')", "run_migrations(…)"),
            ("context.get_x_argument(as_dictionary=True)", "get_x_argument"),
            ("sys.path.append('.')", "sys.path"),
            ("metadata = MetaData(naming_convention={})", "naming_convention"),
            ("@Operations.register_operation('x')\nclass X: pass", "register_operation"),
        ],
    )
    def test_names_a_statement(self, tmp_path: Path, line: str, name: str):
        assert names(tmp_path, f"import x\n{line}\n") == [name]

    def test_says_where_and_what_follows(self, tmp_path: Path):
        (tmp_path / "env.py").write_text(CONFIGURE.format("version_table_schema='app'"))

        (one,) = read_environment(tmp_path, "alembic_version")

        assert one.found == "Line 2: version_table_schema."
        assert "search_path" in one.consequence

    @pytest.mark.parametrize("text", ["def (:", "\0", "x = 1\n" * 300_000 + "("])
    def test_reports_a_file_that_cannot_be_read(self, tmp_path: Path, text: str):
        assert names(tmp_path, text) in (["it cannot be read as Python"], [])

    def test_executes_nothing(self, tmp_path: Path):
        assert names(tmp_path, "raise SystemExit('it was run')") == []
