"""Folders of plain SQL files: the history that they are, and the statements of each file."""

from pathlib import Path

import pytest

from tenantry.migration.dialects import SQLITE, postgresql
from tenantry.migration.live import DRIVER_DEFAULT
from tenantry.migration.recorder import Unrecorded, examine
from tenantry.migration.revision_template import write_draft
from tenantry.migration.sql_text import NotSplit, split
from tenantry.migration.streams import BadStream, NoRevisions, Stream, UnknownRevision
from tenantry.migration.undo import NoDowngrade, check_has_downgrade

POSTGRESQL = postgresql((17, 0), DRIVER_DEFAULT)
TRIGGER = """CREATE TRIGGER t AFTER INSERT ON a BEGIN
    UPDATE a SET b = CASE WHEN b THEN 1 ELSE 2 END;
    DELETE FROM c;
END"""
FUNCTION = "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; END"
DOLLARS = "CREATE FUNCTION g() RETURNS int LANGUAGE plpgsql AS $a$ BEGIN RETURN 1; END; $a$"


def stream_of(folder: Path, **files: str) -> Stream:
    """Return the stream of a folder of *files*, by name without ``.sql`` and the first ``n``."""
    for name, text in files.items():
        (folder / f"{name[1:].replace('__', '.')}.sql").write_text(text)
    return Stream("user", folder)


def reason(folder: Path, **files: str) -> str:
    with pytest.raises(BadStream) as caught:
        assert stream_of(folder, **files).revisions
    return caught.value.message


class TestSplitting:
    @pytest.mark.parametrize(
        "command",
        [
            TRIGGER,
            TRIGGER.replace("CREATE", "CREATE TEMP"),
            FUNCTION,
            DOLLARS,
            "INSERT INTO a VALUES ('x;', E'\\';', \"a;\", $$;$$)",
            "CREATE RULE r AS ON INSERT TO a DO ALSO (DELETE FROM b; DELETE FROM c)",
            "SELECT 1 /* ; /* ; */ ; */ + 2 -- ;\n + 3",
            'CREATE TABLE begin ("end" int, begin int)',
            "UPDATE a SET b = 'it''s'",
        ],
    )
    def test_a_command_ends_at_its_semicolon(self, command: str):
        text = f"-- first;\nSELECT 1;\n{command} -- last;\n;; /* ; */ SELECT ':a %s';"
        assert list(split(text)) == [
            (text.index("SELECT 1"), "SELECT 1"),
            (text.index(command), command),
            (text.index("SELECT ':a"), "SELECT ':a %s'"),
        ]

    @pytest.mark.parametrize(
        "text",
        ["SELECT 'a", 'SELECT "a', "/* /* */", "SELECT $$a", "SELECT (1", TRIGGER[:-4], "\\d"],
    )
    def test_what_is_not_closed_is_refused(self, text: str):
        with pytest.raises(NotSplit) as caught:
            list(split(f"SELECT 1;\n{text}"))
        assert caught.value.index >= len("SELECT 1;\n")


class TestHistories:
    def test_plain_files_are_ordered_by_their_numbers(self, tmp_path: Path):
        stream = stream_of(
            tmp_path,
            n0002_two="SELECT 2;",
            n0001_one="SELECT 1; SELECT ':x %';",
            n0001_one__down="SELECT -1;",
        )
        one, two = stream.revisions
        assert (one.id, one.name, two.id, stream.head) == ("0001", "0001_one", "0002", "0002")
        assert (one.down, two.down) == (frozenset(), {"0001"})
        assert examine(one, SQLITE) == (("SELECT 1", "SELECT ':x %'"), None)
        assert examine(one.undone("undone", ()), POSTGRESQL) == (("SELECT -1",), None)
        assert [one.id for one in stream.after("0001")] == ["0002"]

    @pytest.mark.parametrize("first", ["0004_early", "20240101_early", "0000_early"])
    def test_know_a_version_no_more_when_a_file_is_added_before(self, tmp_path: Path, first: str):
        later = {"n0005_a": "SELECT 1;", "n0006_b": "SELECT 1;"}
        if first.startswith("2"):
            later = {"n20240201_a": "SELECT 1;", "n20240301_b": "SELECT 1;"}
        if first.startswith("0000"):
            later = {"n0001_a": "SELECT 1;", "n0002_b": "SELECT 1;"}
        version = stream_of(tmp_path, **later).head
        stream = stream_of(tmp_path, **{f"n{first}": "SELECT 1;"})
        with pytest.raises(UnknownRevision, match="a file was added or removed before"):
            stream.after(version)

    def test_the_files_of_golang_migrate_are_read_as_they_are(self, tmp_path: Path):
        files = {f"n{n}_step__up": f"SELECT {n};" for n in range(1, 12)}
        stream = stream_of(tmp_path, n1_step__down="SELECT -1;", **files)
        assert [one.id for one in stream.revisions] == [str(n) for n in range(1, 12)]
        assert stream.revisions[0].name == "1_step"
        check_has_downgrade(stream.revisions[0])
        with pytest.raises(
            NoDowngrade, match=r"2_step\.up\.sql: what undoes it \(`2_step\.down\.sql`, or"
        ):
            check_has_downgrade(stream.revisions[1])

    def test_the_sections_of_dbmate_are_read_as_they_are(self, tmp_path: Path):
        stream = stream_of(
            tmp_path,
            n20240101120000_a="-- migrate:up\nSELECT 1;\n\n-- migrate:down\nSELECT -1;\n",
            n20240301120000_b="-- why\n-- migrate:up transaction:false\nSELECT 2;\n-- migrate:down",
        )
        first, second = stream.revisions
        assert examine(first, POSTGRESQL) == (("SELECT 1",), None)
        assert examine(first.undone("undone", ()), POSTGRESQL) == (("SELECT -1",), None)
        assert examine(second, POSTGRESQL)[0] is Unrecorded.AUTOCOMMIT
        assert examine(second, SQLITE) == (("SELECT 2",), None)
        with pytest.raises(NoDowngrade, match="or `-- migrate:down`\\) is missing or has no"):
            check_has_downgrade(second)

    def test_a_file_can_run_without_a_transaction(self, tmp_path: Path):
        text = "-- Slow.\n-- tenantry: no-transaction\nCREATE INDEX CONCURRENTLY i ON a (b);"
        [one] = stream_of(tmp_path, n1_index=text).revisions
        assert examine(one, POSTGRESQL)[0] is Unrecorded.AUTOCOMMIT

    def test_a_pragma_runs_live(self, tmp_path: Path):
        [one] = stream_of(tmp_path, n1_off="pragma foreign_keys = off; SELECT 1;").revisions
        assert examine(one, SQLITE) == (Unrecorded.LIVE, "sends a PRAGMA")

    def test_each_file_is_in_the_hashes(self, tmp_path: Path):
        def hashes(back: str) -> dict[str, str]:
            return stream_of(tmp_path, n1_a="SELECT 1;", n1_a__down=back).hashes()

        before, after = hashes("SELECT 2;"), hashes("SELECT 3;")
        assert "user:1_a" in before
        assert before["user:1_a"] != after["user:1_a"]

    def test_a_folder_with_versions_is_one_of_alembic(self, tmp_path: Path):
        (tmp_path / "versions").mkdir()
        stream_of(tmp_path, n1_a="SELECT 1;")
        with pytest.raises(NoRevisions):
            assert Stream("user", tmp_path).head


class TestRefusals:
    @pytest.mark.parametrize(
        ("files", "said"),
        [
            ({"n0001_a": "SELECT 1;", "n1_b": "SELECT 1;"}, "1_b.sql, line 1: 0001_a.sql has the"),
            (
                {"n0001_a": "SELECT 1;", "n0003_c": "SELECT 1;"},
                "0003_c.sql, line 1: number 2 is missing",
            ),
            (
                {"n1_a": "SELECT 1;", "n2_b__up": "SELECT 1;"},
                "2_b.up.sql, line 1: 1_a.sql has anoth",
            ),
            (
                {"n1_a": "SELECT 1;", "n2_b": "-- migrate:up\nSELECT 1;"},
                "2_b.sql, line 1: 1_a.sql has another style",
            ),
            ({"n1_a": "SELECT 1;", "n2_b__down": "SELECT 1;"}, "2_b.down.sql, line 1: there is no"),
            ({"nschema": "SELECT 1;"}, "schema.sql, line 1: its name must be a number"),
            ({"n1_a": ""}, "1_a.sql, line 1: it has no statement"),
            ({"n1_a": "-- later\n;"}, "1_a.sql, line 1: it has no statement"),
            ({"n1_a": "-- migrate:up\n-- migrate:down"}, "1_a.sql, line 1: it has no statement"),
            (
                {"n1_a": "SELECT 1;\n\\copy a from 'b'"},
                "1_a.sql, line 2: commands of psql, such as",
            ),
            ({"n1_a": "\nCOPY a FROM stdin;\nit's\n\\."}, "1_a.sql, line 2: COPY with the rows"),
            ({"n1_a": "BEGIN;\nSELECT 1;\nCOMMIT;"}, "1_a.sql, line 1: Tenantry begins and ends"),
            ({"n1_a": "SELECT 1;\n\ncommit"}, "1_a.sql, line 3: Tenantry begins and ends the tran"),
            ({"n1_a": "SELECT 1;\nSELECT 'a"}, "1_a.sql, line 2: a literal, a comment, a parent"),
            ({"n1_a": "SELECT 1;\nSELECT (2;"}, "1_a.sql, line 2: a literal, a comment, a parent"),
            (
                {"n1_a": "-- tenantry: notransaction\nSELECT 1"},
                "1_a.sql, line 1: notransaction is not known",
            ),
            (
                {"n1_a": "SELECT 1;\n-- migrate:up\nSELECT 1"},
                "1_a.sql, line 2: it must have `-- migrate",
            ),
            ({"n1_a": "-- migrate:up x:y\nSELECT 1"}, "1_a.sql, line 1: x:y is not known"),
            (
                {"n1_a": "-- migrate:up\n-- migrate:up\n;"},
                "1_a.sql, line 2: it must have `-- migrate",
            ),
            ({"n1_a": "-- migrate:up\nSELECT 1;\nEND"}, "1_a.sql, line 3: Tenantry begins and"),
            (
                {"n1_a": "-- migrate:up\nSELECT 1", "n1_a__down": "SELECT 1"},
                "1_a.sql, line 1: it must have `-- migrate",
            ),
        ],
    )
    def test_names_the_file_and_the_line(self, tmp_path: Path, files: dict[str, str], said: str):
        assert f"The user revisions cannot be read: {said}" in reason(tmp_path, **files)

    def test_of_another_encoding(self, tmp_path: Path):
        (tmp_path / "1_a.sql").write_bytes(b"SELECT 1;\nSELECT '\xe4';")
        assert "1_a.sql, line 2: it is not encoded in UTF-8." in reason(tmp_path)

    def test_of_a_file_in_a_folder_below(self, tmp_path: Path):
        (tmp_path / "2024").mkdir()
        (tmp_path / "2024" / "2_b.sql").write_text("SELECT 1;")
        assert "2_b.sql, line 1: its name must be" in reason(tmp_path, n1_a="SELECT 1;")


class TestDrafts:
    @pytest.mark.parametrize(
        ("last", "text", "name"),
        [
            ("0009_nine.sql", "SELECT 1;", "0010_add_terms.sql"),
            ("9_nine.up.sql", "SELECT 1;", "10_add_terms.up.sql"),
        ],
    )
    def test_are_files_in_the_style_of_the_others(
        self, tmp_path: Path, last: str, text: str, name: str
    ):
        (tmp_path / last).write_text(text)
        draft = write_draft(tmp_path, "Add terms")
        assert (draft.path.name, draft.id) == (name, name.partition("_")[0])
        assert draft.name == f"{draft.id}_add_terms"
        assert f"{name}, line 1: it has no statement" in reason(tmp_path)

    def test_have_sections_and_the_time_where_the_others_have(self, tmp_path: Path):
        (tmp_path / "20240101120000_a.sql").write_text("-- migrate:up\nSELECT 1;")
        draft = write_draft(tmp_path, "Add terms")
        assert len(draft.id) == len("20240101120000")
        assert draft.id > "20260101000000"
        assert draft.path.read_text() == "-- migrate:up\n-- Add terms\n\n-- migrate:down\n"
