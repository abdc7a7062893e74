"""Settings are read once, and an invalid one stops the start."""

from pathlib import Path

import pytest

from tenantry.settings import BadSettings, Settings, read_settings

SECRET = "a secret key of more than 32 characters"


@pytest.fixture(autouse=True)
def _empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without the environment and the files of the developer."""
    import os  # noqa: PLC0415

    for name in list(os.environ):  # noqa: TID251 - it is emptied
        if name.upper().startswith("TENANTRY_") and not name.startswith("TENANTRY_TEST_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


class TestRead:
    def test_has_defaults_for_everything(self):
        settings = read_settings()

        assert settings.catalog == "sqlite:///data/catalog.db"
        assert settings.servers["default"].address == "sqlite:///data/tenants"
        assert (settings.token_minutes, settings.tenant_deadline_s) == (60, 900)
        assert settings.password_min_length == 8
        assert settings.lock_timeout_ms == 3000

    def test_takes_the_environment_and_then_the_file(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ):
        (tmp_path / ".env").write_text("TENANTRY_PORT=8001\nTENANTRY_TOKEN_MINUTES=5\n")
        monkeypatch.setenv("TENANTRY_PORT", "8002")

        settings = read_settings()

        assert (settings.port, settings.token_minutes) == (8002, 5)

    def test_prefers_the_command_line(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("TENANTRY_PORT", "8002")
        monkeypatch.setenv("TENANTRY_HOST", "192.0.2.1")

        settings = read_settings(port=8003, host=None)

        assert (settings.port, settings.host) == (8003, "192.0.2.1")

    def test_takes_an_empty_path_for_the_default(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ):
        """Without this rule, it is the working directory."""
        (tmp_path / ".env").write_text("TENANTRY_DATA_DIR=/srv\n")
        assert read_settings().data_dir == Path("/srv")
        for name in ("DATA_DIR", "TENANT_MIGRATIONS", "PG_TOOLS"):
            monkeypatch.setenv(f"TENANTRY_{name}", "")

        settings = read_settings()

        assert settings.data_dir == Path("data")
        assert (settings.tenant_migrations, settings.pg_tools) == (None, None)

    @pytest.mark.parametrize("name", ["TENANTRY_PROT", "tenantry_prot", "TENANTRY_"])
    def test_refuses_a_name_that_is_not_known(self, monkeypatch: pytest.MonkeyPatch, name: str):
        monkeypatch.setenv(name, "1")

        with pytest.raises(BadSettings, match=name):
            read_settings()

    def test_refuses_an_unknown_name_in_the_file(self, tmp_path: Path):
        (tmp_path / ".env").write_text("TENANTRY_PROT=8001\nOTHER=1\n")

        with pytest.raises(BadSettings, match="TENANTRY_PROT"):
            read_settings()

    def test_refuses_a_folder_in_place_of_the_file(self, tmp_path: Path):
        """Docker makes one of a file that is to be mounted, and is missing."""
        (tmp_path / ".env").mkdir()

        with pytest.raises(BadSettings, match=r"\.env cannot be read \(Is a directory\)"):
            read_settings()

    def test_refuses_a_link_to_a_file_that_does_not_exist(self, tmp_path: Path):
        (tmp_path / ".env").symlink_to("elsewhere")

        with pytest.raises(BadSettings, match=r"\.env is a link to a file that does not exist"):
            read_settings()

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("TENANTRY_PORT", "0"),
            ("TENANTRY_PORT", "http"),
            ("TENANTRY_TOKEN_MINUTES", "0"),
            ("TENANTRY_PASSWORD_MIN_LENGTH", "7"),
            ("TENANTRY_LOG_FORMAT", "xml"),
            ("TENANTRY_TENANT_VERSION_TABLE", "x; DROP TABLE y"),
            ("TENANTRY_TENANT_DEADLINE_S", "0"),
            ("TENANTRY_CATALOG_URL", "mysql://root:hunter2@h/x"),
            ("TENANTRY_SECRET_KEY", "hunter2"),
        ],
    )
    def test_names_what_is_wrong_and_never_its_value(
        self, monkeypatch: pytest.MonkeyPatch, name: str, value: str
    ):
        monkeypatch.setenv(name, value)

        with pytest.raises(BadSettings, match=name) as caught:
            read_settings()

        assert "hunter2" not in caught.value.message

    def test_wants_a_secret_key_for_a_catalog_on_postgresql(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("TENANTRY_CATALOG_URL", "postgresql://u:hunter2@h/x")

        with pytest.raises(BadSettings, match="TENANTRY_SECRET_KEY") as caught:
            read_settings()
        monkeypatch.setenv("TENANTRY_SECRET_KEY", SECRET)

        assert "hunter2" not in caught.value.message
        assert read_settings().catalog == "postgresql://u:hunter2@h/x"


URL = "postgresql://p/x"


class TestTenantServers:
    def test_may_have_an_admin_url(self):
        named = {"eu": {"url": "postgresql://p/x", "admin_url": "postgresql://d/x"}}
        servers = Settings(tenant_servers=named).servers

        assert (servers["eu"].address, servers["eu"].admin_address) == (
            "postgresql://p/x",
            "postgresql://d/x",
        )
        assert servers["default"].address == "sqlite:///data/tenants"

    def test_get_new_tenants_by_weight_and_by_default_only_the_default_one_does(self):
        weighed = {"eu": {"url": "postgresql://p/x", "weight": 3, "max_tenants": 5}, "us": URL}
        settings = Settings(tenant_servers=weighed)

        assert {name: one.weight for name, one in settings.servers.items()} == {
            "default": 0,
            "eu": 3,
            "us": 0,
        }
        assert Settings(tenant_servers={"us": URL}).servers["default"].weight == 1
        assert settings.servers["eu"].max_tenants == 5

    def test_may_have_their_own_concurrency_and_connections(self):
        own = {"url": URL, "concurrency": 2, "connections": 7}
        settings = Settings(tenant_servers={"eu": own}, migrate_concurrency=3)
        eu, default = settings.servers["eu"], settings.servers["default"]

        assert (settings.concurrency_of(eu), settings.connections_of(eu)) == (2, 7)
        assert (settings.concurrency_of(default), settings.connections_of(default)) == (3, 64)
        assert settings.migrations_max == 5

    def test_may_hold_the_default_server(self):
        settings = Settings(tenant_servers={"default": "postgresql://p/x"})

        assert settings.servers["default"].address == "postgresql://p/x"
        assert settings.servers["default"].admin_address == "postgresql://p/x"

    def test_hold_the_default_server_once(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("TENANTRY_TENANT_SERVERS", '{"default": "postgresql://p/x"}')
        monkeypatch.setenv("TENANTRY_TENANT_SERVER_URL", "postgresql://q/x")

        with pytest.raises(BadSettings, match="TENANTRY_TENANT_SERVER_URL must be empty"):
            read_settings()


class TestSettings:
    def test_show_no_secret(self):
        settings = Settings(
            catalog_url="postgresql://u:hunter2@h/x",
            tenant_server_url="postgresql://u:hunter3@h/x",
            secret_key=SECRET,
        )

        for text in (repr(settings), str(settings), settings.model_dump_json()):
            assert "hunter" not in text
            assert SECRET not in text
