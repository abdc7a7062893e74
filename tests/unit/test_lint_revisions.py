"""The check of revisions without a database: what is recorded, chosen, and allowed by comments."""

from pathlib import Path
from textwrap import indent

import pytest

from tenantry.migration.dialects import SQLITE, postgresql
from tenantry.migration.lint_allows import FINDINGS_MAX
from tenantry.migration.lint_revisions import NoSuchRevision, check_for_dry_run, choose, lint
from tenantry.migration.streams import Stream

BOTH = ["postgresql", "sqlite"]
HEADER = """{docstring}
import sqlalchemy as sa
from alembic import op

revision = "{id}"
down_revision = {down!r}
{top}

def upgrade():
{upgrade}


def downgrade():
{downgrade}
"""
DROP = 'op.drop_table("posts")'
ALLOW = "# tenantry: allow drop-table because it is empty"


class Project:
    """An Alembic directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.versions = folder / "versions"
        self.versions.mkdir(parents=True)
        self._head: str | None = None

    def add(
        self, id_: str, upgrade: str, *, downgrade: str = "pass", top: str = "", docstring: str = ""
    ) -> Path:
        file = self.versions / f"{id_}_revision.py"
        text = HEADER.format(
            id=id_,
            down=self._head,
            upgrade=indent(upgrade, "    "),
            downgrade=indent(downgrade, "    "),
            top=top,
            docstring=docstring,
        )
        file.write_text(text, encoding="utf-8")
        self._head = id_
        return file

    def stream(self) -> Stream:
        return Stream("user", self.folder)

    def found(self, *texts: str, engines: list[str] = BOTH) -> list[tuple[str, str, str]]:
        """Return the revision, the rule and the source line of each finding."""
        chosen, are_together = choose(self.stream(), texts)
        found = []
        for revision, one, _ in lint(chosen, engines, are_together=are_together):
            lines = revision.path.read_text(encoding="utf-8").splitlines()
            line = "" if one.line is None else lines[one.line - 1].strip()
            found.append((revision.id, one.rule, line))
        return found

    def rules(self, *texts: str, engines: list[str] = BOTH) -> list[str]:
        return [rule for _, rule, _ in self.found(*texts, engines=engines)]


@pytest.fixture(name="project")
def _project(tmp_path: Path) -> Project:
    return Project(tmp_path / "migrations")


class TestFindings:
    def test_have_the_line_that_sends_the_statement(self, project: Project):
        project.add("a1", f'op.execute("SELECT 1")\n{DROP}')

        assert project.found() == [("a1", "drop-table", DROP)]

    def test_have_the_line_in_a_function_of_the_file(self, project: Project):
        project.add("a1", "remove()", top=f"\ndef remove():\n    {DROP}\n")

        assert project.found() == [("a1", "drop-table", DROP)]

    def test_name_the_engines_on_which_they_hold(self, project: Project):
        project.add("a1", f'op.create_index("ix", "posts", ["id"])\n{DROP}')

        chosen, _ = choose(project.stream(), [])

        assert [(one.rule, on) for _, one, on in lint(chosen, BOTH)] == [
            ("index-without-concurrently", ["postgresql"]),
            ("drop-table", BOTH),
        ]
        assert project.rules(engines=["sqlite"]) == ["drop-table"]

    @pytest.mark.parametrize(
        ("top", "call", "named"),
        [
            ("", "sa.create_engine('sqlite:///other.db').connect()", "create_engine"),
            ("import sqlite3", "sqlite3.connect('other.db')", "sqlite3"),
            ("from psycopg import connect", "connect('dbname=other')", "psycopg"),
        ],
    )
    def test_name_a_connection_that_a_revision_opens_itself(
        self, project: Project, top: str, call: str, named: str
    ):
        project.add("a1", call, top=top)
        project.add("a2", "pass", top="import psycopg.errors")

        assert project.rules() == ["own-connection", "runs-live", "runs-live"]
        chosen, _ = choose(project.stream(), ["a1"])
        assert f"({named})" in lint(chosen, BOTH)[0][1].message
        [finding] = check_for_dry_run(chosen[0], SQLITE, "alembic_version")
        assert finding.rule == "own-connection"

    def test_say_that_a_revision_runs_live_and_which_part_was_checked(self, project: Project):
        project.add("a1", f"{DROP}\nop.get_bind().execute(sa.text('SELECT 1'))")
        project.add("a2", "pass", top="import requests")

        assert project.rules() == ["runs-live", "drop-table", "runs-live"]
        chosen, _ = choose(project.stream(), ["a2"])
        [(_, finding, on)] = lint(chosen, BOTH)
        assert "because it imports requests" in finding.message
        assert on == BOTH

    def test_include_statements_of_an_autocommit_block(self, project: Project):
        project.add(
            "a1",
            "with op.get_context().autocommit_block():\n"
            '    op.create_index("ix", "posts", ["id"], postgresql_concurrently=True)\n'
            '    op.create_index("iy", "posts", ["id"])\n'
            'op.create_index("iz", "posts", ["id"], postgresql_concurrently=True)',
        )

        assert [(rule, line[17:19]) for _, rule, line in project.found()] == [
            ("index-without-concurrently", "iy"),
            ("not-in-transaction", "iz"),
        ]

    def test_are_about_an_upgrade_only(self, project: Project):
        project.add("a1", "pass", downgrade=f"{DROP}  {ALLOW}")

        assert project.rules() == []

    def test_do_not_depend_on_what_the_revision_prints(
        self, project: Project, capfd: pytest.CaptureFixture[str]
    ):
        project.add("a1", DROP)

        project.rules()

        assert capfd.readouterr() == ("", "")

    def test_are_one_for_equal_statements_of_a_line(self, project: Project):
        project.add("a1", f"for _ in range(2):\n    {DROP}")

        chosen, _ = choose(project.stream(), [])

        assert [(one.rule, on) for _, one, on in lint(chosen, BOTH)] == [("drop-table", BOTH)]

    def test_have_a_limit_after_what_is_allowed(self, project: Project):
        many = 'for one in range(99):\n    op.drop_table(f"a{one}")'
        project.add("a1", f"{many}\n{DROP}")
        project.add("a2", f"{many}  {ALLOW}\n{DROP}")

        found = project.found()

        assert [one[0] for one in found] == ["a1"] * FINDINGS_MAX + ["a2"]
        assert found[-1] == ("a2", "drop-table", DROP)


class TestChoose:
    @pytest.fixture(autouse=True)
    def _history(self, project: Project) -> None:
        project.add("a1", 'op.create_table("posts", sa.Column("id", sa.Integer))')
        project.add("a2", 'op.create_table("notes", sa.Column("id", sa.Integer))')
        project.add("b3", 'op.create_index("ix", "notes", ["id"])')

    @pytest.mark.parametrize(
        ("texts", "ids"),
        [
            ([], "a1 a2 b3"),
            (["a2"], "a2"),
            (["b"], "b3"),
            (["b3", "a1"], "a1 b3"),
            (["a1:"], "a2 b3"),
            ([":a2"], "a1 a2"),
            (["a1:a2"], "a2"),
            (["base:head"], "a1 a2 b3"),
            (["base:a1"], "a1"),
            (["b3:head"], ""),
            (["head:"], ""),
            (["head"], "b3"),
        ],
    )
    def test_takes_ids_and_ranges(self, project: Project, texts: list[str], ids: str):
        assert [one.id for one in choose(project.stream(), texts)[0]] == ids.split()

    def test_takes_the_file_of_a_revision(self, project: Project, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.chdir(project.folder)

        assert [one.id for one in choose(project.stream(), ["versions/a2_revision.py"])[0]] == [
            "a2"
        ]

    @pytest.mark.parametrize("text", ["a", "c", "versions/c.py", "c:", "a1:c"])
    def test_rejects_what_is_not_one_revision(self, project: Project, text: str):
        with pytest.raises(NoSuchRevision):
            choose(project.stream(), [text])

    @pytest.mark.parametrize("texts", [["a1:"], ["a2", "b3"]])
    def test_a_table_of_the_same_set_is_new(self, project: Project, texts: list[str]):
        assert project.rules(*texts) == []

    @pytest.mark.parametrize("texts", [[], ["base:head"], ["b3"], ["a1", "b3"]])
    def test_a_table_of_an_older_revision_is_not_new(self, project: Project, texts: list[str]):
        """Databases are not at the base, so each revision of a whole history is by itself."""
        assert project.rules(*texts) == ["index-without-concurrently"]


class TestAllow:
    @pytest.mark.parametrize(
        "upgrade",
        [
            f"{DROP}  {ALLOW}",
            f"{ALLOW}\n{DROP}",
            f"{ALLOW}\n# Nothing reads it.\n{DROP}",
            f'op.drop_table(\n    "posts",  {ALLOW}\n)',
            f'op.drop_table(\n    "posts",\n)  {ALLOW}',
            f"if True:\n    {DROP}  {ALLOW}",
            f'with op.batch_alter_table("a"):  # block\n    {ALLOW}\n    {DROP}',
        ],
    )
    def test_suppresses_a_finding_of_its_statement(self, project: Project, upgrade: str):
        project.add("a1", upgrade)

        assert project.rules() == []

    def test_suppresses_no_finding_of_another_statement(self, project: Project):
        project.add("a1", f'{DROP}  {ALLOW}\nop.drop_table("notes")')

        assert project.found() == [("a1", "drop-table", 'op.drop_table("notes")')]

    @pytest.mark.parametrize(
        ("top", "docstring"),
        [
            (ALLOW, ""),
            ("", f'"""Remove posts.\n\n{ALLOW[2:]}\n"""'),
            ("", f'"""{ALLOW[2:]}"""'),
            ("", ALLOW),
        ],
    )
    def test_suppresses_all_findings_of_the_file(self, project: Project, top: str, docstring: str):
        project.add("a1", f'{DROP}\nop.drop_table("notes")', top=top, docstring=docstring)

        assert project.rules() == []

    def test_suppresses_that_a_revision_runs_live(self, project: Project):
        project.add("a1", "pass", top="# tenantry: allow runs-live because rehearsed\nimport time")

        assert project.rules() == []

    @pytest.mark.parametrize(
        ("comment", "fault"),
        [
            ("# tenantry: allow drop-table", "it has no reason"),
            ("# tenantry: allow drop-table because", "it has no reason"),
            ("# tenantry: allow drop-table, it is empty", "no rule is named 'drop-table,'"),
            ("# tenantry: allow drops because it is empty", "no rule is named 'drops'"),
            ("# tenantry: allow bad-allow because it is empty", "no rule is named 'bad-allow'"),
            ("# tenantry: allow", "no rule is named ''"),
            (
                "# tenantry: allow drop-column because it is empty",
                "no finding of this rule is there",
            ),
        ],
    )
    def test_that_is_wrong_is_a_finding_and_suppresses_nothing(
        self, project: Project, comment: str, fault: str
    ):
        project.add("a1", f"{DROP}  {comment}")

        chosen, _ = choose(project.stream(), [])
        found = [one for _, one, _ in lint(chosen, BOTH)]

        assert [one.rule for one in found] == ["bad-allow", "drop-table"]
        assert found[0].line == found[1].line
        assert fault in found[0].message

    def test_is_used_if_it_is_about_one_of_the_engines(self, project: Project):
        line = 'op.create_index("ix", "posts", ["id"])'
        project.add("a1", f"{line}  # tenantry: allow index-without-concurrently because small")

        assert project.rules() == []
        assert project.rules(engines=["sqlite"]) == []

    def test_is_not_judged_in_a_revision_that_was_not_checked(self, project: Project):
        project.add("a1", f"op.get_bind().execute(sa.text('SELECT 1'))\n{DROP}  {ALLOW}")

        assert project.rules() == ["runs-live"]

    def test_holds_for_a_dry_run(self, project: Project):
        project.add("a1", f'{DROP}  {ALLOW}\nop.drop_table("notes")  # tenantry: allow drop-table')
        project.add("a2", f"{ALLOW}\npass")
        revisions = project.stream().revisions

        for dialect in (SQLITE, postgresql((18,))):
            found = [
                [
                    (one.rule, one.table)
                    for one in check_for_dry_run(each, dialect, "alembic_version")
                ]
                for each in revisions
            ]
            assert found == [[("drop-table", "notes"), ("bad-allow", None)], []]


class TestSqlFiles:
    def test_are_checked_with_their_lines_and_comments(self, tmp_path: Path):
        tmp_path.joinpath("0001_posts.sql").write_text("CREATE TABLE posts (id int);\n")
        file = tmp_path / "0002_drop.sql"
        file.write_text("-- why\n\nALTER TABLE posts DROP COLUMN a;\nDROP TABLE posts;\n")
        stream = Stream("user", tmp_path)

        found = [(one.rule, one.line) for _, one, _ in lint(stream.revisions, BOTH)]

        assert found == [("drop-column", 3), ("drop-table", 4)]

        file.write_text(
            "-- tenantry: allow drop-table because it is empty\nDROP TABLE posts;\n"
            "-- tenantry: allow drop-column because of a mistake\n"
        )
        found = [
            (one.rule, one.line) for _, one, _ in lint(Stream("user", tmp_path).revisions, BOTH)
        ]

        assert found == [("bad-allow", 3)]

    def test_are_chosen_by_their_number(self, tmp_path: Path):
        for number in ("20240101", "202401011"):
            tmp_path.joinpath(f"{number}_one.sql").write_text(f"CREATE TABLE t{number} (id int);\n")

        [found], _ = choose(Stream("user", tmp_path), ["20240101"])

        assert found.id == "20240101.1"
