"""Reading directories of revisions of other projects."""

import os
import py_compile
from collections.abc import Callable
from pathlib import Path

import pytest

import tenantry.tenant
from tenantry.catalog import runs
from tenantry.kit.context import system_context
from tenantry.migration.schema_state import BASE
from tenantry.migration.streams import (
    BadStream,
    NoRevisions,
    RevisionUnreadable,
    Stream,
    Streams,
    UnknownRevision,
)
from tenantry.services import open_services
from tenantry.settings import Settings
from testkit.revisions import AlembicFolder
from tests.conftest import provision

# As in production, where a warning is no error.
pytestmark = pytest.mark.filterwarnings("ignore")


WAIT_SECONDS_MAX = 600.0  # longer than the test may take
OWN = Path(tenantry.tenant.__file__).parent / "revisions"


def names(stream: Stream, after: str = BASE) -> list[str]:
    return [revision.name for revision in stream.after(after)]


class TestStream:
    def test_is_in_the_order_of_application_and_not_of_names(self, folder: AlembicFolder):
        folder.add("z_first", "pass")
        folder.add("m_second", "pass")
        folder.add("a_third", "pass")
        stream = Stream("user", folder.path)

        assert names(stream) == ["z_first", "m_second", "a_third"]
        assert names(stream, "z") == ["m_second", "a_third"]
        assert names(stream, "a") == []
        assert stream.head == "a"

    def test_whose_files_never_end_is_refused_with_the_file_and_the_line(
        self, folder: AlembicFolder
    ):
        """A thread cannot be stopped, so the folder is not read twice while it runs."""
        gate = folder.path / "gate"
        folder.add("a_one", "pass")
        folder.write(
            "b_endless",
            f"import pathlib\nwhile not pathlib.Path({str(gate)!r}).exists():\n    pass\n"
            "revision = 'b'\ndown_revision = 'a'\ndef upgrade():\n    pass\n",
        )
        try:
            with pytest.raises(
                RevisionUnreadable, match=r"b_endless\.py, line \d, was not imported within 4 s"
            ):
                _ = Stream("user", folder.path, load_seconds=4.0).head
            with pytest.raises(RevisionUnreadable, match=r"b_endless\.py"):
                _ = Stream("user", folder.path, load_seconds=WAIT_SECONDS_MAX).head
        finally:
            gate.touch()

    @pytest.mark.parametrize(
        ("below", "said"),
        [({"b": "zz"}, "KeyError: 'zz'"), ({"a": "b", "b": "a"}, "Cycle is detected")],
    )
    @pytest.mark.filterwarnings("ignore:Revision zz referenced")
    def test_with_a_broken_line_is_refused_with_the_revision(
        self, folder: AlembicFolder, below: dict[str, str], said: str
    ):
        for name in ("a", "b"):
            folder.write(
                f"{name}_some", f"revision = {name!r}\ndown_revision = {below.get(name)!r}\n"
            )

        with pytest.raises(RevisionUnreadable, match=said):
            _ = Stream("user", folder.path).head

    def test_is_read_although_a_full_disk_cut_off_the_caches_of_python(self, folder: AlembicFolder):
        folder.add("a_one", "pass")
        folder.add("b_two", "pass", below="2026")
        for file in folder.path.rglob("*.py"):
            cache = py_compile.compile(str(file), doraise=True)
            os.truncate(cache, Path(cache).stat().st_size // 2)

        assert names(Stream("user", folder.path)) == ["a_one", "b_two"]

    def test_reads_deeper_folders(self, folder: AlembicFolder):
        folder.add("a_one", "pass")
        folder.add("b_two", "pass", below="2026/spring")
        folder.add("c_three", "pass", below="2026")

        assert names(Stream("user", folder.path)) == ["a_one", "b_two", "c_three"]

    def test_can_end_before_any_revision_with_one_version(self, folder: AlembicFolder):
        folder.add("a_one", "pass")
        folder.add("b_left", "pass", down="a")
        folder.add("c_right", "pass", down="a")
        folder.write(
            "d_merge", "revision = 'd'\ndown_revision = ('b', 'c')\ndef upgrade():\n    pass\n"
        )
        whole = Stream("user", folder.path)
        for length in range(5):
            kept = {one.name for one in whole.revisions[:length]}

            shorter = whole.while_each(lambda one, kept=kept: one.name in kept)

            assert set(names(shorter)) <= kept
            assert [*shorter.revisions, *whole.after(shorter.head)] == list(whole.revisions)
            assert length == 3 or set(names(shorter)) == kept

    def test_goes_over_both_branches_of_a_merge(self, folder: AlembicFolder):
        folder.add("a_one", "pass")
        folder.add("b_left", "pass", down="a")
        folder.add("c_right", "pass", down="a")
        folder.write(
            "d_merge", "revision = 'd'\ndown_revision = ('b', 'c')\ndef upgrade():\n    pass\n"
        )
        stream = Stream("user", folder.path)

        assert set(names(stream)) == {"a_one", "b_left", "c_right", "d_merge"}
        assert names(stream)[-1] == "d_merge"
        assert names(stream, "b") == ["c_right", "d_merge"], "what the other branch brings"

    def test_does_not_know_a_foreign_version(self, folder: AlembicFolder):
        folder.add("a_one", "pass")

        with pytest.raises(UnknownRevision, match="'x9'"):
            Stream("user", folder.path).after("x9")

    def test_changes_its_fingerprint_when_a_revision_is_edited(self, folder: AlembicFolder):
        file = folder.add("a_one", "pass")
        before = Stream("user", folder.path).fingerprint
        same = Stream("user", folder.path).fingerprint
        file.write_text(file.read_text() + "\n# edited\n")

        assert same == before
        assert Stream("user", folder.path).fingerprint != before

    def test_changes_with_the_naming_convention(self, folder: AlembicFolder):
        folder.add("0001_a", "pass")
        before = Stream("user", folder.path)
        after = Stream("user", folder.path, {"uq": "uq_%(table_name)s"})

        assert before.fingerprint != after.fingerprint
        assert before.hashes() != after.hashes()

    def test_notices_a_file_that_is_added_later(self, folder: AlembicFolder):
        """A live revision may execute every SQL file of a folder."""
        folder.add("a_one", "pass")
        (folder.path / "a.sql").write_text("SELECT 1")
        streams = Streams(Stream("tenantry", OWN), Stream("user", folder.path))
        hashes, signature = streams.hashes(), streams.signature

        (folder.path / "b.sql").write_text("SELECT 2")

        assert streams.signature != signature
        assert streams.hashes().keys() - hashes.keys() == {"b.sql"}

    def test_changes_its_fingerprint_with_the_version_table(self, folder: AlembicFolder):
        folder.add("u1_one", "pass")
        user = Stream("user", folder.path)

        assert Streams(user, user, "a").fingerprint != Streams(user, user, "b").fingerprint


def _two_heads(folder: AlembicFolder) -> None:
    folder.add("b_left", "pass", down="a")
    folder.add("c_right", "pass", down="a")


def _twice_the_same_id(folder: AlembicFolder) -> None:
    folder.add("b_two", "pass")
    folder.write("other", "revision = 'b'\ndown_revision = 'a'\ndef upgrade():\n    pass\n")


def _missing_down_revision(folder: AlembicFolder) -> None:
    folder.add("b_two", "pass", down="missing")


def _no_down_revision(folder: AlembicFolder) -> None:
    folder.write("b_two", "revision = 'b'\ndef upgrade():\n    pass\n")


def _syntax_error(folder: AlembicFolder) -> None:
    folder.write("b_two", "revision = 'b'\ndown_revision = 'a'\ndef upgrade(:\n")


def _raises(folder: AlembicFolder) -> None:
    folder.write("b_two", "raise RuntimeError('secret in a message')\n")


def _circle(folder: AlembicFolder) -> None:
    folder.add("b_two", "pass", down="c")
    folder.add("c_three", "pass", down="b")


class TestBadStream:
    @pytest.mark.parametrize(
        "spoil",
        [
            _two_heads,
            _twice_the_same_id,
            _missing_down_revision,
            _no_down_revision,
            _syntax_error,
            _raises,
            _circle,
        ],
    )
    def test_is_reported_readably(
        self, folder: AlembicFolder, spoil: Callable[[AlembicFolder], None]
    ):
        folder.add("a_one", "pass")
        spoil(folder)

        with pytest.raises(BadStream) as caught:
            names(Stream("user", folder.path))

        assert "secret" not in caught.value.message
        assert len(caught.value.message) > 20

    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            ("import nowhere.at_all", "ModuleNotFoundError in b_two.py, line 2: No module named"),
            ("from alembic import nothing", "line 2: cannot import name 'nothing' from 'alembic'."),
            ("nothing()", "NameError in b_two.py, line 2: name 'nothing' is not defined."),
            ("len(1)", "TypeError in b_two.py, line 2: object of type 'int' has no len()."),
            ("raise ValueError('secret')", "ValueError in b_two.py, line 2."),
        ],
    )
    def test_of_python_names_file_line_and_text(
        self, folder: AlembicFolder, text: str, sentence: str
    ):
        folder.add("a_one", "pass")
        folder.write("b_two", f"revision = 'b'\n{text}\n")

        with pytest.raises(BadStream) as caught:
            names(Stream("user", folder.path))

        assert sentence in caught.value.message

    def test_without_a_folder_is_reported_readably(self, tmp_path: Path):
        with pytest.raises(BadStream, match="the folder does not exist"):
            _ = Stream("user", tmp_path / "nowhere").head

    def test_that_is_empty_is_reported_readably(self, folder: AlembicFolder):
        with pytest.raises(NoRevisions, match="their folder holds none"):
            _ = Stream("user", folder.path).head

    async def test_without_a_revision_keeps_the_service_from_starting(
        self, settings: Settings, folder: AlembicFolder
    ):
        empty = settings.model_copy(update={"tenant_migrations": folder.path})

        with pytest.raises(NoRevisions, match="TENANTRY_TENANT_MIGRATIONS"):
            async with open_services(empty):
                raise AssertionError

    async def test_that_became_empty_fails_every_tenant_of_a_run(
        self, settings: Settings, folder: AlembicFolder
    ):
        with_user = settings.model_copy(update={"tenant_migrations": folder.begin()})
        async with open_services(with_user) as services:
            await provision(services, "acme")
            (folder.path / "versions" / "begin.py").unlink()

            run_id = await services.fleet.plan(system_context("test"), triggered_by="ada")
            run = await services.fleet.wait(run_id)

            assert (run.success_count, run.failed_count) == (0, 1)
            [ended] = await runs.ended(services.catalog, run_id)
            assert "their folder holds none" in str(ended.error)

    def test_one_folder_too_deep_names_the_one_above(self, folder: AlembicFolder):
        folder.add("a_one", "pass")

        with pytest.raises(NoRevisions, match=rf"Use its parent folder: {folder.path}\.$"):
            _ = Stream("user", folder.path / "versions").head

    def test_one_folder_too_high_names_the_one_below(self, folder: AlembicFolder):
        folder.add("a_one", "pass")

        with pytest.raises(NoRevisions, match=rf"that contains it: {folder.path}\.$"):
            _ = Stream("user", folder.path.parent).head

    def test_that_is_no_alembic_directory_says_so(self, tmp_path: Path):
        with pytest.raises(NoRevisions, match=r"Use the Alembic directory that contains it\.$"):
            _ = Stream("user", tmp_path).head

    async def test_one_folder_too_deep_keeps_the_service_from_starting(
        self, settings: Settings, folder: AlembicFolder
    ):
        folder.add("a_one", "pass")
        too_deep = settings.model_copy(update={"tenant_migrations": folder.path / "versions"})

        with pytest.raises(NoRevisions, match="Use its parent folder"):
            async with open_services(too_deep):
                raise AssertionError
