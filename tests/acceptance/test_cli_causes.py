"""Why a command could not reach a database: on the terminal, without a secret."""

import pytest

from tests.acceptance.commands import OTHER_KEY, UNREACHABLE, Commands
from tests.tls_front import certificates


class TestTheReason:
    def test_that_the_key_of_a_client_cannot_be_read_is_shown(self, alone: Commands):
        """It was "cannot be reached", although no connection was tried."""
        key = alone.folder / "client.key"
        key.mkdir()
        certificate = certificates(alone.folder / "certificates", "127.0.0.1").server
        url = f"{UNREACHABLE}?sslcert={certificate}&sslkey={key}"

        ended = alone("tenant", "list", TENANTRY_CATALOG_URL=url, TENANTRY_SECRET_KEY=OTHER_KEY)

        assert ended.status == 3
        assert f"Is a directory ({key})" in ended.stderr
        assert "hunter2" not in ended.stderr

    @pytest.mark.parametrize("home", ["~", "/nowhere"], ids=["none", "missing"])
    def test_that_a_server_refuses_is_shown_without_a_home_and_with_unused_files(
        self, alone: Commands, home: str
    ):
        """The user of a container may have no home; files of TLS are not the cause."""
        url = f"{UNREACHABLE}?sslmode=disable&sslrootcert=/nowhere/root.crt"
        settings = {"TENANTRY_CATALOG_URL": url, "TENANTRY_SECRET_KEY": OTHER_KEY, "HOME": home}

        ended = alone("tenant", "list", **settings)

        assert ended.status == 3
        assert "The catalog cannot be read." in ended.stderr
        assert "Connection refused" in ended.stderr
        assert "root.crt" not in ended.stderr

    @pytest.mark.parametrize(
        ("url", "reason"),
        [
            (UNREACHABLE, "Connection refused"),
            (UNREACHABLE.replace("127.0.0.1", "nowhere.invalid"), "Name or service not known"),
            (f"{UNREACHABLE}?sslmode=verify-ca&sslrootcert=/nowhere/root.crt", "/nowhere/root.crt"),
        ],
    )
    def test_that_there_is_no_connection_is_shown(self, alone: Commands, url: str, reason: str):
        for name in ("TENANTRY_CATALOG_URL", "TENANTRY_TENANT_SERVER_URL"):
            ended = alone(
                *("tenant", "create", "Acme", "--owner-email", "ada@example.com", "--json"),
                password="a long enough password",
                **{name: url, "TENANTRY_SECRET_KEY": OTHER_KEY},
            )

            assert ended.status == 3
            assert reason in ended.stderr
            assert "hunter2" not in ended.stderr

    def test_that_the_database_of_a_tenant_is_missing_is_shown(self, tenantry: Commands):
        tenant = tenantry.create_tenant("Acme")
        tenantry.drop_database(tenant)

        ended = tenantry("user", "list", "Acme")

        assert ended.status == 3
        assert "does not exist" in ended.stderr
