"""URLs of PostgreSQL: every parameter of libpq works with both drivers, or is rejected by name."""

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tenantry.db.urls import with_database
from tenantry.kit.postgres_urls import (
    ENCODING,
    KEEPALIVE,
    SUPPORTED,
    BadPostgresUrl,
    parse,
)

OF_LIBPQ = {one.keyword.decode() for one in psycopg.pq.Conninfo.get_defaults()}
# Every character that has a meaning in a URL, and others.
PASSWORD = "a%@:/?#[]&=+ ;,'\"\\üñ|<>$!~*"
QUOTED = "a%25%40%3A%2F%3F%23%5B%5D%26%3D%2B%20%3B%2C%27%22%5C%C3%BC%C3%B1%7C%3C%3E%24%21%7E%2A"


class TestParse:
    @pytest.mark.parametrize(
        "url",
        [
            f"postgresql://tenantry:{QUOTED}@db.example.com:5433/x",
            f"postgres://db.example.com/x?user=tenantry&password={QUOTED}&port=5433",
            "postgresql://tenantry@a:1,b:2,c/x?target_session_attrs=primary",
            "postgresql://a,b/x?port=1,2&target_session_attrs=any",
            "postgresql://tenantry@[::1]:5433,[fe80::2]/x?target_session_attrs=read-write",
            "postgresql://tenantry@%2Fvar%2Frun%2Fpostgresql:5433/x",
            "postgresql:///x?host=/var/run/postgresql&port=5433",
            "postgresql:///x",
            "postgresql://h/%C3%BC%20%2F",
            "postgresql://h/x?sslmode=verify-full&sslrootcert=/etc/root.crt&sslcert=/a&sslkey=/b",
            "postgresql://h/x?connect_timeout=3&application_name=app&channel_binding=prefer",
            "postgresql://h/x?gssencmode=disable&options=-c%20search_path%3Dapp&passfile=/p",
        ],
    )
    def test_finds_what_libpq_finds(self, url: str):
        ours, theirs = parse(url).for_libpq(), conninfo_to_dict(url)

        if ours.get("port"):  # libpq leaves its default out
            theirs["port"] = ",".join(
                one or "5432" for one in str(theirs.get("port", "5432")).split(",")
            )
        assert ours == theirs | KEEPALIVE | ENCODING

    def test_gives_both_drivers_the_same_password(self):
        parsed = parse(f"postgresql://tenantry:{QUOTED}@h/x")

        assert parsed.for_asyncpg()["password"] == parsed.for_libpq()["password"] == PASSWORD

    def test_gives_both_drivers_the_settings_of_the_server(self):
        parsed = parse("postgresql://h/x?search_path=app%20one&options=-c%20jit%3Doff")

        assert parsed.server_settings() == {"search_path": "app one", "options": "-c jit=off"}
        assert parsed.for_libpq()["options"] == "-c jit=off -c search_path=app\\ one"

    def test_wants_a_primary_of_several_hosts(self):
        assert parse("postgresql://a,b/x").for_asyncpg()["target_session_attrs"] == "read-write"
        assert parse("postgresql://a/x").for_asyncpg()["target_session_attrs"] is None


class TestParameters:
    def test_that_are_supported_are_those_of_libpq(self):
        assert SUPPORTED <= OF_LIBPQ

    @pytest.mark.parametrize("name", sorted(OF_LIBPQ - SUPPORTED))
    def test_that_one_driver_lacks_are_rejected_by_name(self, name: str):
        with pytest.raises(BadPostgresUrl, match=name):
            parse(f"postgresql://u:hunter2@h/x?{name}=1")

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("channel_binding", "require"),
            ("gssencmode", "require"),
            ("target_session_attrs", "standby"),
            ("target_session_attrs", "prefer-standby"),
            ("target_session_attrs", "read-only"),
            ("client_encoding", "latin1"),
            ("connect_timeout", "soon"),
            ("sslrootcert", "system"),
        ],
    )
    def test_with_an_unsupported_value_are_rejected_by_name(self, name: str, value: str):
        with pytest.raises(BadPostgresUrl, match=name) as caught:
            parse(f"postgresql://u:hunter2@h/x?{name}={value}")

        assert "hunter2" not in str(caught.value)

    @pytest.mark.parametrize(
        "url",
        [
            "postgresql://u:p@ss@h/x",
            "postgresql://u:p/ss@h/x",
            "postgresql://u:p@s/s@h/x",
            "postgresql://h:0/x",
            "postgresql://h:65536/x",
            "postgresql://h:x/x",
            "postgresql://a,b/x?port=1,2,3",
            "postgresql://[::1/x",
            "postgresql://[h]/x",
            "postgresql://h/x#y",
            "postgresql://h/x y",
            "postgresql://h/x?sslmode",
            "postgresql://u:%00@h/x",
            "postgresql://u%00:p@h/x",
            "postgresql://u:p@h/x%00",
            "postgresql://u:p@h/x?application_name=a%00b",
        ],
    )
    def test_and_places_that_are_malformed_are_rejected(self, url: str):
        with pytest.raises(BadPostgresUrl):
            parse(url)


class TestWithDatabase:
    @pytest.mark.parametrize(
        ("url", "expected"),
        [
            (
                "postgresql://u:p@a:1,b:2/x?sslmode=require",
                "postgresql://u:p@a:1,b:2/y?sslmode=require",
            ),
            ("postgresql:///x?host=/run", "postgresql:///y?host=/run"),
            ("postgresql://h", "postgresql://h/y"),
        ],
    )
    def test_keeps_the_rest(self, url: str, expected: str):
        assert with_database(url, "y") == expected

    def test_takes_any_name(self):
        assert parse(with_database("postgresql://h/x", "a/b ?#%ü")).database == "a/b ?#%ü"
