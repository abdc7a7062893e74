"""Which project a folder of revisions belongs to."""

import sys
from pathlib import Path

import pytest

from tenantry.migration.project import BadProject, Project, find_project

INI = "[alembic]\nscript_location = {}\npath_separator = os\n{}\n"


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    folder = tmp_path / "shop" / "migrations"
    (folder / "versions").mkdir(parents=True)
    return folder


class TestFindProject:
    @pytest.mark.parametrize("location", ["%(here)s/migrations", "migrations", "./migrations"])
    def test_finds_the_file_that_names_the_folder(self, folder: Path, location: str):
        ini = folder.parent / "alembic.ini"
        ini.write_text(INI.format(location, "prepend_sys_path = ."))

        found = find_project(folder)

        assert found == Project(
            ini, [folder / "versions"], is_recursive=False, import_paths=[folder.parent]
        )

    def test_finds_it_further_up(self, folder: Path):
        (folder.parents[1] / "alembic.ini").write_text(INI.format("shop/migrations", ""))

        assert find_project(folder).file == folder.parents[1] / "alembic.ini"

    def test_finds_a_folder_of_a_package(self, folder: Path):
        ini = INI.format("shop:migrations", "prepend_sys_path = .")
        (folder.parents[1] / "alembic.ini").write_text(ini)

        assert find_project(folder).file == folder.parents[1] / "alembic.ini"

    def test_finds_pyproject(self, folder: Path):
        (folder.parent / "pyproject.toml").write_text(
            "[tool.alembic]\nscript_location = '%(here)s/migrations'\n"
            "prepend_sys_path = ['.', 'src']\nrecursive_version_locations = true\n"
        )

        found = find_project(folder)

        assert found.is_recursive
        assert found.import_paths == [folder.parent, folder.parent / "src"]

    def test_passes_over_the_file_of_another_folder(self, folder: Path):
        (folder.parent / "alembic.ini").write_text(INI.format("%(here)s/others", ""))
        (folder.parent / "pyproject.toml").write_text("[tool.other]\n")

        found = find_project(folder)

        assert (found.file, found.is_recursive) == (None, True)

    def test_reads_where_the_revisions_are(self, folder: Path):
        more = "version_locations = %(here)s/a:%(here)s/b\nrecursive_version_locations = true"
        (folder.parent / "alembic.ini").write_text(INI.format("%(here)s/migrations", more))

        found = find_project(folder)

        assert found.version_locations == [folder.parent / "a", folder.parent / "b"]
        assert found.is_recursive

    @pytest.mark.parametrize("text", ["no section", "[alembic]\nscript_location = %(nowhere)s/x\n"])
    def test_refuses_what_cannot_be_read(self, folder: Path, text: str):
        (folder.parent / "alembic.ini").write_text(text)

        with pytest.raises(BadProject, match=r"alembic\.ini cannot be read"):
            find_project(folder)

    def test_lets_the_process_import_from_it_once(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr(sys, "path", ["/usr/lib/python"])
        project = Project(None, [], is_recursive=False, import_paths=[folder, folder.parent])

        project.add_import_paths()
        project.add_import_paths()

        assert sys.path == [str(folder), str(folder.parent), "/usr/lib/python"]
