"""The endpoints without credentials are listed by name, and there are no others."""

from tenantry.api.table import ENDPOINTS
from testkit.decision_table import OPEN_PATHS, asked_by, level_of

# A new one needs its name here and in docs/api-conventions.md.
OPEN_TODAY = {
    ("POST", "/api/admin/auth/login"),
    ("GET", "/livez"),
    ("GET", "/readyz"),
    ("GET", "/openapi.json"),
    ("GET", "/.well-known/jwks.json"),
}


class TestOpenPaths:
    def test_are_known_by_name(self):
        """The endpoints that ask for nothing are these, and no others."""
        found = {(one.method, one.path) for one in ENDPOINTS if not one.level.headers}

        assert found >= OPEN_TODAY
        assert {path for _, path in found - OPEN_TODAY} <= OPEN_PATHS - {p for _, p in OPEN_TODAY}

    def test_are_those_that_say_so(self):
        """Only the level "Open" reads no header."""
        for endpoint in ENDPOINTS:
            assert (endpoint.level.name == "Open") == (not endpoint.level.headers)


class TestEveryPath:
    def test_has_the_level_of_its_path(self):
        """The level of an endpoint is that of its path."""
        for endpoint in ENDPOINTS:
            level = endpoint.level.name.partition(",")[0]

            assert level == level_of(endpoint.path), endpoint.path

    def test_demands_the_scopes_and_modules_of_the_decision_table(self):
        """Scopes and modules are those of the decision table for the path."""
        for endpoint in ENDPOINTS:
            asked = asked_by(endpoint)

            assert (endpoint.scope, endpoint.module) == (asked.scope, asked.module), endpoint.path

    def test_is_there_once(self):
        """No endpoint hides another."""
        found = [(one.method, one.path) for one in ENDPOINTS]

        assert sorted(set(found)) == sorted(found)

    def test_demands_a_scope_wherever_a_token_can_act(self):
        """An endpoint that accepts McpTokens requires a scope: a new one is not open by default."""
        for endpoint in ENDPOINTS:
            asked = asked_by(endpoint)
            if asked.level in {"Tenant", "Public"} and not asked.is_own_tokens:
                assert endpoint.scope is not None, endpoint.path
