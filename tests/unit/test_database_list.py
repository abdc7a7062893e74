"""Read the list of the databases of a fleet."""

import re
from pathlib import Path

import pytest

from tenantry.catalog.attached import BadList
from tenantry.fleet import database_list

ACME = "postgresql://app:hunter2@db1/acme"


@pytest.mark.parametrize(
    "other",
    [
        "postgres://app@db1/acme",
        "postgresql+psycopg://app@DB1:5432/acme",
        "postgresql:///acme?host=db1&user=app",
        f"{ACME}?sslmode=require",
    ],
)
def test_another_spelling_of_a_database_is_rejected(other: str):
    with pytest.raises(BadList, match="twice, first as postgresql://app@db1/acme"):
        database_list.of_urls([ACME, other])


@pytest.mark.parametrize("other", ["127.0.0.1", "[::1]:5432", "LOCALHOST"])
def test_the_names_of_this_machine_are_one(other: str):
    with pytest.raises(BadList, match="twice, first as postgresql://app@localhost/acme"):
        database_list.of_urls([ACME.replace("db1", "localhost"), ACME.replace("db1", other)])


def test_another_role_or_schema_of_a_database_is_another_entry():
    urls = [ACME, ACME.replace("app", "eve"), f"{ACME}?search_path=eu", f"{ACME}?options=-cx.y=1"]

    assert len(database_list.of_urls(urls)) == len(urls)


def test_a_place_shows_user_host_port_and_database_alone():
    urls = [
        "postgres://app:hunter2@DB1:5432/acme?sslmode=require",
        "postgresql:///globex?host=db2&port=6432&user=app&password=hunter2",
        "postgresql://app@[fd00::1]:6432,db2/hooli",
        "postgresql://app@db1/acme?options=-cx.token%3Dhunter2",
    ]
    shown = [one.place for one in database_list.of_urls(urls)]

    assert shown[:3] == [
        "postgresql://app@db1/acme",
        "postgresql://app@db2:6432/globex",
        "postgresql://app@[fd00::1]:6432,db2/hooli",
    ]
    assert re.fullmatch(r"postgresql://app@db1/acme#[0-9a-f]{16}", shown[3])


@pytest.mark.parametrize("name", ["template0", "template1"])
def test_a_template_of_the_server_is_refused(name: str):
    with pytest.raises(BadList, match=f"names {name}, of which the server copies"):
        database_list.of_urls([{"name": "acme", "url": f"postgresql://app@db1/{name}"}])


def test_the_database_of_the_server_is_refused_without_a_name_of_its_own():
    url = "postgresql://app@db1/postgres"
    for row in ({"url": url}, {"url": url, "name": "postgres"}):
        with pytest.raises(BadList, match="give it another one in the list"):
            database_list.of_urls([row])

    [named] = database_list.of_urls([{"url": url, "name": "acme"}])
    [file] = database_list.of_urls(["sqlite:///postgres"])

    assert (named.name, file.hint) == ("acme", "postgres")


@pytest.mark.parametrize("kind", ["spelling", "symlink", "hard link"])
def test_another_path_of_a_file_is_rejected(kind: str, tmp_path: Path):
    file, link = tmp_path / "a.db", tmp_path / "b.db"
    file.touch()
    if kind == "symlink":
        link.symlink_to(file)
    elif kind == "hard link":
        link.hardlink_to(file)
    else:
        link = tmp_path / ".." / tmp_path.name / "a.db"

    with pytest.raises(BadList, match="twice"):
        database_list.of_urls([f"sqlite:///{file}", f"sqlite:///{link}"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"url,plan\n{ACME},free,more\n", "more values than"),
        (f"url,password\n{ACME},hunter2\n", "password cannot be a label"),
        ("sqlite:///a\0.db\n", "NUL"),
        ("sqlite:///a\udcff.db\n", "broken Unicode"),
    ],
)
def test_a_wrong_line_is_named_without_what_is_secret(text: str, said: str):
    with pytest.raises(BadList, match=said) as raised:
        database_list.of_text(text)

    assert "Line" in raised.value.message
    assert "hunter2" not in raised.value.message


def test_a_password_in_upper_case_is_secret():
    [one] = database_list.of_urls(["postgresql://app@db1/acme?PASSWORD=hunter2"])

    assert "hunter2" not in one.place


def test_a_mark_of_the_byte_order_is_no_part_of_the_header():
    [one] = database_list.of_text(f"\ufeffname,url\nacme,{ACME}\n")

    assert one.name == "acme"


def test_a_name_from_a_path_has_no_control_characters(tmp_path: Path):
    [one] = database_list.of_urls([f"sqlite:///{tmp_path}/a\x1b[31m.db"])

    assert one.hint == "a [31m"


@pytest.mark.parametrize("given", [Path("app.db"), b"sqlite:///app.db", None])
def test_what_is_neither_a_url_nor_a_mapping_is_refused_with_a_sentence(given: object):
    with pytest.raises(BadList, match="must be a URL as text"):
        database_list.of_urls([given])  # type: ignore[list-item]


def test_two_columns_of_a_name_are_refused():
    with pytest.raises(BadList, match="column url twice"):
        database_list.of_text(f"url,url\n{ACME},postgresql://db1/other\n")
