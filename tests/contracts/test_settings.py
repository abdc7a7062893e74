"""Every setting says what it does, and a wrong one stops the start with one line."""

import json
from pathlib import Path
from uuid import UUID

import pytest

from tenantry.settings import BadSettings, Settings, read_settings

EVERY = sorted(Settings.model_fields)
# Where the default is empty, which in the environment is nothing.
SAMPLES = {
    "catalog_url": "postgresql://tenantry@db.example.com/catalog",
    "cors_origins": "https://www.example.com",
    "public_url": "https://cms.example.com",
    "secret_key": "0123456789abcdef" * 4,
    "tenant_server_url": "postgresql://tenantry@db.example.com/postgres",
    "tenant_servers": '{"second": "postgresql://tenantry@db2.example.com/postgres"}',
    "trusted_proxies": "10.0.0.1",
}
# What takes any text: a path, or a name that only the machine can look up.
ANY_TEXT = {
    "SECRET_KEY_OLD",
    "BACKUP_TARGET",
    "CORS_ORIGINS",
    "DATA_DIR",
    "HOST",
    "METRICS_HOST",
    "PG_TOOLS",
    "TENANT_MIGRATIONS",
}


def _hooks_of(**values: object) -> list[str]:
    """Return a setting with one target that is valid without *values*."""
    valid = {"url": "https://a.example.com/", "secret": f"whsec_{'QUJD' * 8}"}
    return [json.dumps({"ops": valid | values})]


WRONG = {
    "AUDIT_DAYS": ["-1", "36501", "long"],
    "ERROR_RATE_SECONDS": ["0", "-1", "3601", "nan", "soon"],
    "JOB_CONCURRENCY": ["-1", "65", "many"],
    "DELETED_DAYS": ["-1", "36501", "soon"],
    "CATALOG_CONNECTIONS": ["0", "1001", "x"],
    "CONNECT_TIMEOUT_S": ["0", "-1", "61", "nan", "inf", "soon"],
    "LOGIN_ACCOUNT_HOURLY": ["0", "1000001", "x"],
    "LOGIN_ADDRESS_MINUTELY": ["0", "1000001", "x"],
    "LOGIN_TRIES": ["0", "101", "x"],
    "HOOKS": [
        "{",
        "[]",
        "[" * 100_000,
        json.dumps({f"h{number}": {"url": "https://a", "format": "slack"} for number in range(17)}),
        '{"Ops": {"url": "https://a.example.com", "format": "slack"}}',
        '{"ops": "https://a.example.com"}',
        '{"ops": {"url": "https://a.example.com"}}',
        '{"ops": {"format": "slack"}}',
        *_hooks_of(url="http://a.example.com"),
        *_hooks_of(url="http://10.0.0.1"),
        *_hooks_of(url="ftp://a.example.com"),
        *_hooks_of(url="https://ada:secret@a.example.com"),
        *_hooks_of(url="https://a.example.com:99999"),
        *_hooks_of(url="https://a.example.com/a b"),
        *_hooks_of(url="https://a.example.com/\r\nx: y"),
        *_hooks_of(url="https://a.example.com/#a"),
        *_hooks_of(url=f"https://a.example.com/{'a' * 2_048}"),
        *_hooks_of(secret="whsec_short"),
        *_hooks_of(secret="0123456789abcdef0123456789abcdef"),
        *_hooks_of(secret=f"whsec_{'QUJD' * 22}"),
        *_hooks_of(secret_file="/etc/hostname"),  # and a secret
        *_hooks_of(secret="", secret_file="/missing"),
        *_hooks_of(events=[]),
        *_hooks_of(events=["run.paused"]),
        *_hooks_of(events=["post.published"]),
        *_hooks_of(events=["run.ended"], tenants=[str(UUID(int=1))]),
        *_hooks_of(tenants=[]),
        *_hooks_of(tenants=["acme"]),
        *_hooks_of(tenants=[str(UUID(int=one)) for one in range(101)]),
        *_hooks_of(format="teams"),
        *_hooks_of(allow_http="perhaps", url="http://a.example.com"),
        *_hooks_of(headers={"authorization": "x"}),
    ],
    "FREE_SPACE_MARK": ["-1", "91%", "1.5GB", "5 percent", "2000TB"],
    "METRICS_PORT": ["-1", "65536", "x"],
    "MIGRATION_DRIVER": ["Psycopg", "psycopg 2", "a" * 33, "../x"],
    "PASSWORD_THREADS": ["0", "65", "x"],
    "PLAN_DAYS": ["0", "3651", "x"],
    "REQUIRE_IF_MATCH": ["0", "yes", "true"],
    "REQUIRE_PLAN": ["0", "yes", "Other"],
    "POST_VERSIONS": ["0", "1001", "x"],
    "PUBLIC_URL": ["cms.example.com", "ftp://cms.example.com", "https://cms.example.com/a"],
    "REQUESTS_PER_MINUTE": ["0", "59", "100000001", "x"],
    "SERVER_PATIENCE_S": ["0", "-1", "86401", "nan", "soon"],
    "WAVE_CHECK": [
        "sh -c 'exit 0",
        'check "wave',
        "https://ada:secret@a.example.com",
        "https:///check",
        "https://a.example.com:99999",
        "https://a.example.com/a b",
        "https://a.example.com/ä",
    ],
    "WAVE_CHECK_SECONDS": ["0", "-1", "3601", "nan", "soon"],
    "STATEMENT_TIMEOUT_S": ["0", "-1", "601", "nan", "soon"],
    "TENANT_CONNECTIONS": ["0", "10001", "x"],
    "TENANT_SIZE_MAX": ["-1", "1", "15MB", "1.5GB", "2000TB", "10%", "x"],
    "TENANT_SERVERS": [
        "{",
        "[]",
        "null",
        "x",
        "[" * 100_000,
        '{"EU": "postgresql://localhost"}',
        '{"eu": "localhost"}',
        '{"eu": 1}',
        '{"eu": {"admin_url": "postgresql://localhost"}}',
        '{"eu": {"url": "postgresql://localhost", "admin": "postgresql://localhost"}}',
        '{"eu": {"url": "postgresql://localhost", "admin_url": "localhost"}}',
        '{"eu": {"url": "postgresql://localhost", "weight": -1}}',
        '{"eu": {"url": "postgresql://localhost", "weight": 1001}}',
        '{"eu": {"url": "postgresql://localhost", "max_tenants": -1}}',
        '{"eu": {"url": "postgresql://localhost", "concurrency": 0}}',
        '{"eu": {"url": "postgresql://localhost", "connections": 0}}',
        '{"eu": "postgresql://localhost?gssencmode=require"}',
    ],
    "PORT": ["0", "65536", "-1", "x", "", "1.5"],
    "TOKEN_MINUTES": ["0", "x", "1e9"],
    "PASSWORD_MIN_LENGTH": ["7", "65", "eight"],
    "SECRET_KEY": ["short", "<the output of: openssl rand -hex 32>", "a" * 64],
    "CATALOG_URL": [
        "mysql://localhost/x",
        "catalog.db",
        "http://localhost",
        "postgresql://localhost/x?channel_binding=require",
    ],
    "TENANT_SERVER_URL": ["oracle://localhost", "localhost"],
    "LOG_FORMAT": ["yaml"],
    "LOG_LEVEL": ["loud"],
    "SQLITE_SYNCHRONOUS": ["OFF"],
    "TENANT_VERSION_TABLE": ["a b", 'x"; DROP TABLE y', "1x", "x" * 64],
    "TENANT_NAMING_CONVENTION": ["ix", '{"xy": "a"}', '{"ix": 1}', "[]"],
    "MIGRATE_CONCURRENCY": ["0", "-1", "many"],
    "LOCK_TIMEOUT_MS": ["0", "-1", "soon"],
    "CONNECTIONS": ["-1", "1000001", "many"],
    "CONNECTIONS_PER_ADDRESS": ["0", "-1", "1000001", "many"],
    "TRUSTED_PROXIES": [
        "*",
        "localhost",
        "10.0.0.1/8",
        "10.0.0.0/33",
        "10.0.0",
        "10.0.0.1,",
        "10.0.0.1 10.0.0.2",
        "10.0.0.1,proxy.example.com",
        "unix:",
    ],
    "TENANT_DEADLINE_S": ["0", "-1", "nan", "soon"],
}
SECRET = "hunter2-hunter2"


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty folder, and no setting from outside."""
    monkeypatch.chdir(tmp_path)
    for name in EVERY:
        monkeypatch.delenv(f"TENANTRY_{name.upper()}", raising=False)


def refusal() -> str:
    with pytest.raises(BadSettings) as caught:
        read_settings()
    return caught.value.message


class TestSetting:
    @pytest.mark.parametrize("name", EVERY)
    def test_says_what_it_does(self, name: str):
        """It has a description, which is a sentence."""
        description = Settings.model_fields[name].description

        assert description
        assert description.endswith(".")
        assert "\n" not in description

    @pytest.mark.parametrize("name", EVERY)
    def test_has_a_default(self, name: str):
        """Nothing must be set to begin."""
        assert not Settings.model_fields[name].is_required()

    @pytest.mark.parametrize("name", EVERY)
    def test_is_read_from_the_environment(self, name: str, monkeypatch: pytest.MonkeyPatch):
        """Its name in the environment is known."""
        default = Settings.model_fields[name].get_default(call_default_factory=True)
        text = SAMPLES.get(name) or str("x" if default is None else default)
        monkeypatch.setenv("TENANTRY_SECRET_KEY", SAMPLES["secret_key"])  # PostgreSQL wants one
        monkeypatch.setenv(f"TENANTRY_{name.upper()}", text)

        assert getattr(read_settings(), name) is not None


class TestReadSettings:
    @pytest.mark.parametrize(
        "name", ["TENANTRY_PROT", "TENANTRY_", "tenantry_prot", "Tenantry_Host2"]
    )
    def test_refuses_an_unknown_name(self, name: str, monkeypatch: pytest.MonkeyPatch):
        """A mistyped name stops the start, in one line that holds it."""
        monkeypatch.setenv(name, SECRET)

        message = refusal()

        assert name in message
        assert SECRET not in message
        assert "\n" not in message

    def test_refuses_metrics_on_the_port_of_the_api(self, monkeypatch: pytest.MonkeyPatch):
        """They answer without credentials, and to every path."""
        monkeypatch.setenv("TENANTRY_PORT", "8123")
        monkeypatch.setenv("TENANTRY_METRICS_PORT", "8123")
        monkeypatch.setenv("TENANTRY_METRICS_HOST", "127.0.0.2")

        assert "TENANTRY_METRICS_PORT" in refusal()

    def test_takes_networks_of_proxies(self, monkeypatch: pytest.MonkeyPatch):
        """Addresses and networks of both kinds, with spaces wherever."""
        monkeypatch.setenv("TENANTRY_TRUSTED_PROXIES", " 10.0.0.0/8 , ::1,192.0.2.1")

        settings = read_settings()

        assert settings.trusted_proxies == "10.0.0.0/8,::1,192.0.2.1"
        assert [str(one) for one in settings.proxy_networks] == [
            "10.0.0.0/8",
            "::1/128",
            "192.0.2.1/32",
        ]

    def test_refuses_an_unknown_name_in_the_file(self, tmp_path: Path):
        """``.env`` is read as strictly."""
        (tmp_path / ".env").write_text("TENANTRY_PROT=8000\n")

        assert "TENANTRY_PROT" in refusal()

    def test_reads_the_file(self, tmp_path: Path):
        """``.env`` counts, and other programs may have their names in it."""
        (tmp_path / ".env").write_text("TENANTRY_PORT=8123\nOTHER=1\n")

        assert read_settings().port == 8123

    def test_ignores_the_names_of_others(self, monkeypatch: pytest.MonkeyPatch):
        """Only names that begin with TENANTRY_ are read."""
        monkeypatch.setenv("TENANT_PROT", "1")
        monkeypatch.setenv("PORT", "1")

        assert read_settings().port == 8000

    @pytest.mark.parametrize("value", ['"data"', "'data'", '"', "'{}'"])
    @pytest.mark.parametrize("name", ["DATA_DIR", "CATALOG_URL", "SECRET_KEY", "TENANT_SERVERS"])
    def test_refuses_quotation_marks(self, name: str, value: str, monkeypatch: pytest.MonkeyPatch):
        """`docker run --env-file` keeps them: the data would be in a folder named `"`."""
        monkeypatch.setenv(f"TENANTRY_{name}", value)

        assert f"TENANTRY_{name} is in quotation marks" in refusal()

    @pytest.mark.parametrize(
        ("name", "value"), [(name, value) for name, values in WRONG.items() for value in values]
    )
    def test_refuses_a_wrong_value(self, name: str, value: str, monkeypatch: pytest.MonkeyPatch):
        """A wrong value stops the start, in one line that names the setting."""
        monkeypatch.setenv(f"TENANTRY_{name}", value)

        message = refusal()

        assert f"TENANTRY_{name}" in message
        assert "\n" not in message
        assert "pydantic" not in message

    @pytest.mark.parametrize("name", EVERY)
    def test_knows_a_wrong_value_of_each(self, name: str):
        """Each setting is bounded, or takes any text."""
        assert (name.upper() in WRONG) != (name.upper() in ANY_TEXT)

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (b"TENANTRY_HOST=\xff\n", "UTF-8"),
            (b"TENANTRY_PORT=8000\nTENANTRY_HOST='a\n", "Line 2"),
            (b"TENANTRY_PORT 8000\n", "Line 1"),
        ],
    )
    def test_refuses_a_file_that_cannot_be_read(self, content: bytes, said: str, tmp_path: Path):
        """In one line that says what to do; a line is never left out."""
        (tmp_path / ".env").write_bytes(content)

        message = refusal()

        assert ".env" in message
        assert said in message
        assert "\n" not in message

    @pytest.mark.parametrize("name", ["CATALOG_URL", "TENANT_SERVER_URL"])
    def test_never_shows_a_secret(self, name: str, monkeypatch: pytest.MonkeyPatch):
        """Not even a wrong URL is shown with its password."""
        monkeypatch.setenv(f"TENANTRY_{name}", f"mysql://user:{SECRET}@localhost/x")

        assert SECRET not in refusal()

    @pytest.mark.parametrize(
        ("name", "value", "said"),
        [
            ("HOOKS", *_hooks_of(url="http://a.example.com"), "HOOKS: ops: url must begin"),
            ("HOOKS", *_hooks_of(format="teams"), "HOOKS: ops.format: Input should be"),
            ("HOOKS", json.dumps({f"https://a/{SECRET}": {"url": "https://a"}}), "HOOKS: String"),
            ("HOOKS", *_hooks_of(**{f"https://a/{SECRET}": 1}), "HOOKS: ops: Extra inputs"),
            ("TENANT_SERVERS", '{"far": "mysql://a"}', "TENANT_SERVERS: far.url: must begin"),
        ],
    )
    def test_names_the_target_or_the_server_that_is_wrong(
        self, name: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch
    ):
        """But nothing that could be a secret in the wrong place."""
        monkeypatch.setenv(f"TENANTRY_{name}", value)

        message = refusal()

        assert f"TENANTRY_{said}" in message
        assert SECRET not in message

    def test_wants_a_secret_key_for_postgresql(self, monkeypatch: pytest.MonkeyPatch):
        """A catalog on PostgreSQL does not start without TENANTRY_SECRET_KEY."""
        monkeypatch.setenv("TENANTRY_CATALOG_URL", f"postgresql://user:{SECRET}@localhost/x")

        message = refusal()

        assert "TENANTRY_SECRET_KEY" in message
        assert SECRET not in message

    def test_shows_no_secret_of_good_settings(self, monkeypatch: pytest.MonkeyPatch):
        """Printed settings hide what is secret."""
        monkeypatch.setenv("TENANTRY_SECRET_KEY", SECRET * 3)
        monkeypatch.setenv("TENANTRY_CATALOG_URL", f"postgresql://user:{SECRET}@localhost/x")

        assert SECRET not in repr(read_settings())
