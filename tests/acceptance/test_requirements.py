"""The requirements of the first API clients, and the tests that cover each of them.

Each row of the table is one requirement (numbered by its section) and the tests of this folder
that fail if it is not met.
"""

import importlib
import inspect

import pytest

LOGIN = "test_tenant_login.TestLogin"
GUESSING = "test_tenant_login.TestGuessing"
PASSWORD = "test_change_password.TestChangePassword"
SESSIONS = "test_change_password.TestSessions"
BY_TOKEN = "test_change_password.TestChangePasswordByMcpToken"
SHOW = "test_profile.TestShowProfile"
PROFILE = "test_profile.TestUpdateProfile"
ADMIN_LOGIN = "test_admin_login.TestAdminLogin"
ADMIN = "test_admin_login.TestAdminLevel"
MODULES = "test_modules.TestModules"
POSTS = "test_public_blog.TestListPosts"
POST = "test_public_blog.TestShowPost"
CREATE = "test_tenants.TestCreateTenant"
TENANT = "test_tenants.TestUpdateTenant"
KEYS = "test_api_keys.TestIssueKey"
ISSUE = "test_mcp_tokens.TestIssueAsAdmin"
MCP = "test_mcp_tokens.TestMcpToken"
RUN = "test_migrate_all.TestMigrateAll"
BROKEN = "test_migrate_all.TestBrokenTenants"
OWN = "test_migrate_all.TestOwnMigrations"
WATCHED = "test_migrate_all.TestWithoutCaller"
LIST = "test_migration_history.TestListRuns"
RECORD = "test_migration_history.TestShowRun"
SERVICE = "test_service"

# The answers that every test of its kind goes through: `ok`, `done`, `refused`, `must_be`.
REQUIREMENTS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    # 0. Preamble
    ("0.1", "three access levels", (f"{ADMIN}.test_is_for_admins",)),
    ("0.2", "... and a token instead", (f"{MCP}.test_opens_tenant_and_public_endpoints",)),
    (
        "0.3",
        "tenant endpoints: log in, change password, update profile",
        (f"{SERVICE}.TestDescription.test_lists_the_endpoints",),
    ),
    (
        "0.4",
        "admin endpoints: migrate all, read the history",
        (f"{SERVICE}.TestDescription.test_lists_the_endpoints",),
    ),
    (
        "0.5",
        "paths are relative to one base URL",
        (f"{SERVICE}.TestEnvelope.test_holds_for_what_is_not_there",),
    ),
    (
        "0.6",
        "bodies are JSON",
        (
            f"{LOGIN}.test_reads_a_body_without_a_content_type_as_json",
            f"{LOGIN}.test_refuses_a_bad_body",
        ),
    ),
    # 1. What the service does
    ("1.1", "many tenants", (f"{CREATE}.test_makes_a_database_of_its_own_at_the_head",)),
    (
        "1.2",
        "each with a database of its own",
        (f"{CREATE}.test_makes_a_database_of_its_own_at_the_head",),
    ),
    (
        "1.3",
        "... and a key of its own",
        (f"{LOGIN}.test_accepts_only_users_of_the_tenant_of_the_key",),
    ),
    ("1.4", "users log in", (f"{LOGIN}.test_returns_a_token_and_its_expiry",)),
    ("1.5", "... change passwords", (f"{PASSWORD}.test_confirms_with_a_message_and_no_data",)),
    ("1.6", "... update profiles", (f"{PROFILE}.test_returns_the_profile_as_it_then_is",)),
    (
        "1.7",
        "admins migrate every active tenant in one call",
        (
            f"{RUN}.test_returns_a_result_for_every_active_tenant",
            f"{RUN}.test_leaves_suspended_tenants_alone",
        ),
    ),
    ("1.8", "... and read a paginated history", (f"{LIST}.test_returns_pages_newest_first",)),
    ("1.9", "levels Admin, Tenant, Public", (f"{PASSWORD}.test_is_for_users_of_the_tenant",)),
    ("1.10", "McpToken for tenant and public", (f"{MCP}.test_opens_tenant_and_public_endpoints",)),
    ("1.11", "a login tells no modules", (f"{MODULES}.test_are_not_part_of_the_login",)),
    ("1.12", "a modules endpoint does", (f"{MODULES}.test_returns_the_active_ones",)),
    # 1. Response envelope
    (
        "1.13",
        "success is true or false",
        (
            f"{PASSWORD}.test_refuses_a_wrong_current_password",
            f"{SHOW}.test_returns_the_callers_own",
        ),
    ),
    ("1.14", "data is the payload", (f"{SHOW}.test_returns_the_callers_own",)),
    ("1.15", "data is null in errors", (f"{PROFILE}.test_refuses_an_address_that_is_in_use",)),
    (
        "1.16",
        "message in errors, and when a password was changed",
        (
            f"{PASSWORD}.test_confirms_with_a_message_and_no_data",
            f"{LIST}.test_refuses_a_bad_query",
        ),
    ),
    # 2. Resources
    (
        "2.1",
        "instants are ISO 8601 in UTC",
        (f"{KEYS}.test_returns_every_instant_in_utc", f"{LIST}.test_has_a_record_of_every_call"),
    ),
    ("2.2", "ids are GUIDs", (f"{RECORD}.test_returns_the_record",)),
    ("2.3", "LoginResult.token: a JWT", (f"{LOGIN}.test_signs_the_claims",)),
    ("2.4", "LoginResult.expiresAt: its expiry", (f"{LOGIN}.test_signs_the_claims",)),
    (
        "2.5",
        "TenantUserProfile: id, email, fullName, isActive, createdAt",
        (
            f"{PROFILE}.test_returns_the_profile_as_it_then_is",
            f"{SHOW}.test_returns_the_callers_own",
        ),
    ),
    (
        "2.6",
        "MigrationResultResponse: total, success, failed, details",
        (f"{RUN}.test_returns_a_result_for_every_active_tenant",),
    ),
    (
        "2.7",
        "MigrationDetailResponse: customerId, customerName",
        (f"{RUN}.test_returns_a_result_for_every_active_tenant",),
    ),
    ("2.8", "... status in lower case", (f"{LIST}.test_has_a_record_of_every_call",)),
    ("2.9", "... error: text or null", (f"{BROKEN}.test_fail_alone",)),
    (
        "2.10",
        "MigrationRunResponse: id, startedAt, counts, triggeredBy, details",
        (f"{LIST}.test_has_a_record_of_every_call",),
    ),
    ("2.11", "... finishedAt: null or the end", (f"{WATCHED}.test_a_run_can_be_watched_and_ends",)),
    ("2.12", "... triggeredBy: the admin's address", (f"{LIST}.test_keeps_the_names_of_then",)),
    (
        "2.13",
        "MigrationRunDetailResponse: customerId, customerName, databaseName",
        (f"{LIST}.test_has_a_record_of_every_call",),
    ),
    ("2.14", "... status capitalised", (f"{LIST}.test_has_a_record_of_every_call",)),
    (
        "2.15",
        "... appliedMigrations: names with commas",
        (f"{OWN}.test_are_applied_in_order_and_named",),
    ),
    ("2.16", "... errorMessage: text or null", (f"{BROKEN}.test_fail_alone",)),
    ("2.17", "... startedAt, finishedAt", (f"{LIST}.test_has_a_record_of_every_call",)),
    (
        "2.18",
        "appliedMigrations is null: nothing was pending",
        (
            f"{OWN}.test_are_applied_in_order_and_named",
            f"{OWN}.test_leave_a_tenant_where_it_was_when_one_fails",
            f"{LIST}.test_has_a_record_of_every_call",
        ),
    ),
    (
        "2.19",
        "page: items, page, pageSize, totalCount, totalPages",
        (f"{LIST}.test_is_empty_at_first", f"{LIST}.test_returns_pages_newest_first"),
    ),
    # 3. States
    (
        "3.1",
        "success/failed in the answer, Success/Failed in the history",
        (f"{LIST}.test_has_a_record_of_every_call", f"{BROKEN}.test_fail_alone"),
    ),
    (
        "3.2",
        "isActive of a user (transitions: settled)",
        (
            f"{SESSIONS}.test_end_when_the_user_is_switched_off",
            f"{LOGIN}.test_answers_every_failure_alike",
        ),
    ),
    # 4.1 Tenant authentication
    ("4.1", "bearer and key, except at login", (f"{PROFILE}.test_is_for_people_of_the_tenant",)),
    ("4.2", "login needs the key", (f"{LOGIN}.test_needs_the_key_of_a_tenant_and_nothing_else",)),
    (
        "4.3",
        "... and no bearer",
        (f"{LOGIN}.test_needs_the_key_of_a_tenant_and_nothing_else",),
    ),
    ("4.4", "login: email and password required", (f"{LOGIN}.test_refuses_a_bad_body",)),
    ("4.5", "login: 200, LoginResult", (f"{LOGIN}.test_returns_a_token_and_its_expiry",)),
    (
        "4.6",
        "change-password: bearer and key",
        (f"{PASSWORD}.test_is_for_users_of_the_tenant",),
    ),
    (
        "4.7",
        "change-password: currentPassword and newPassword required",
        (f"{PASSWORD}.test_refuses_a_bad_body",),
    ),
    (
        "4.8",
        "change-password: 200, message, no data",
        (f"{PASSWORD}.test_confirms_with_a_message_and_no_data",),
    ),
    (
        "4.9",
        "change-password: 400 for a wrong current password",
        (f"{PASSWORD}.test_refuses_a_wrong_current_password",),
    ),
    ("4.10", "change-password: 400 for a bad body", (f"{PASSWORD}.test_refuses_a_bad_body",)),
    ("4.11", "profile: bearer and key", (f"{PROFILE}.test_is_for_people_of_the_tenant",)),
    ("4.12", "profile: fullName and email required", (f"{PROFILE}.test_refuses_a_bad_body",)),
    (
        "4.13",
        "profile: 200, TenantUserProfile",
        (f"{PROFILE}.test_returns_the_profile_as_it_then_is",),
    ),
    (
        "4.14",
        "profile: 409 for an address in use",
        (
            f"{PROFILE}.test_refuses_an_address_that_is_in_use",
            f"{PROFILE}.test_gives_one_address_to_one_of_many",
            f"{PROFILE}.test_compares_addresses_in_one_canonical_form",
        ),
    ),
    (
        "4.15",
        "profile: 404 for no user",
        (f"{PROFILE}.test_is_404_for_a_user_who_was_deleted",),
    ),
    # 4.2 Migration management
    (
        "4.16",
        "an Admin's bearer",
        (f"{ADMIN}.test_is_for_admins",),
    ),
    (
        "4.17",
        "migrate-all: the databases of all active tenants",
        (
            f"{OWN}.test_are_applied_in_order_and_named",
            f"{RUN}.test_brings_a_tenant_that_is_behind_to_the_head",
            f"{RUN}.test_leaves_suspended_tenants_alone",
        ),
    ),
    (
        "4.18",
        "every run is recorded by itself",
        (
            f"{LIST}.test_has_a_record_of_every_call",
            f"{RUN}.test_goes_on_when_the_caller_goes_away",
        ),
    ),
    ("4.19", "no parameters and no body", (f"{RUN}.test_takes_any_empty_body",)),
    (
        "4.20",
        "200, MigrationResultResponse",
        (f"{RUN}.test_returns_a_result_for_every_active_tenant",),
    ),
    (
        "4.21",
        "a failed customer is a detail of a 200",
        (
            f"{BROKEN}.test_fail_alone",
            "test_migrate_all.TestBlockedTenant.test_fails_alone_and_in_time",
        ),
    ),
    (
        "4.22",
        "total = success + failed",
        (f"{BROKEN}.test_fail_alone", f"{OWN}.test_are_applied_once_by_four_calls_at_once"),
    ),
    (
        "4.23",
        "history: pages, one record for each call",
        (f"{LIST}.test_returns_pages_newest_first",),
    ),
    ("4.24", "page: default 1", (f"{LIST}.test_returns_pages_newest_first",)),
    ("4.25", "pageSize: default 10", (f"{LIST}.test_returns_pages_newest_first",)),
    ("4.26", "200, page of MigrationRunResponse", (f"{LIST}.test_has_a_record_of_every_call",)),
    ("4.27", "one run by its id", (f"{RECORD}.test_returns_the_record",)),
    ("4.28", "404 when there is no such run", (f"{RECORD}.test_is_404_for_what_is_not_there",)),
    # 4.3 Others
    (
        "4.29",
        "admin login: email and password as JSON, a bearer token",
        (
            f"{ADMIN_LOGIN}.test_returns_a_token_that_opens_admin_endpoints",
            f"{ADMIN_LOGIN}.test_refuses_a_bad_body",
        ),
    ),
    (
        "4.30",
        "public posts need the key alone (answer: settled)",
        (f"{POSTS}.test_needs_the_key_alone", f"{POST}.test_returns_the_content_too"),
    ),
    ("4.31", "modules of the tenant (path: settled)", (f"{MODULES}.test_returns_the_active_ones",)),
    # 5. Authentication
    (
        "5.1",
        "Admin: login, then a bearer",
        (
            f"{ADMIN_LOGIN}.test_returns_a_token_that_opens_admin_endpoints",
            f"{ADMIN}.test_ignores_keys",
        ),
    ),
    (
        "5.2",
        "Tenant: login with key, then bearer and key",
        (f"{LOGIN}.test_returns_what_opens_tenant_endpoints",),
    ),
    (
        "5.3",
        "Public: the key, no JWT",
        (f"{POSTS}.test_needs_the_key_alone", f"{POSTS}.test_refuses_a_client_without_a_valid_key"),
    ),
    (
        "5.4",
        "the key names the customer",
        (f"{LOGIN}.test_accepts_only_users_of_the_tenant_of_the_key",),
    ),
    (
        "5.5",
        "each customer has its own",
        (f"{CREATE}.test_makes_a_database_of_its_own_at_the_head",),
    ),
    (
        "5.6",
        "403 when token and key are of different tenants",
        (f"{PASSWORD}.test_is_for_users_of_the_tenant", f"{SHOW}.test_is_for_people_of_the_tenant"),
    ),
    (
        "5.7",
        "... or the user lacks authority",
        (f"{ADMIN}.test_is_for_admins", f"{SESSIONS}.test_end_when_the_user_is_switched_off"),
    ),
    (
        "5.8",
        "401 for a missing or invalid token",
        (f"{MODULES}.test_are_for_the_tenant", f"{ADMIN}.test_is_for_admins"),
    ),
    # 5. McpToken
    ("5.9", "instead of a JWT login", (f"{MCP}.test_opens_tenant_and_public_endpoints",)),
    ("5.10", "in the header X-Mcp-Token", (f"{MCP}.test_is_refused_when_sent_twice_or_elsewhere",)),
    (
        "5.11",
        "no password and no JWT exchange",
        (
            f"{MCP}.test_opens_tenant_and_public_endpoints",
            f"{BY_TOKEN}.test_needs_a_user_and_the_scope",
        ),
    ),
    ("5.12", "ends at its own expiry", (f"{MCP}.test_ends_at_its_own_date",)),
    (
        "5.13",
        "grants tenant and public endpoints",
        (
            f"{MCP}.test_opens_tenant_and_public_endpoints",
            f"{MCP}.test_opens_what_its_scopes_allow",
        ),
    ),
    (
        "5.14",
        "looked at first; without one the key is the fallback",
        (f"{MCP}.test_is_checked_first", f"{MCP}.test_agrees_with_the_key_of_the_same_request"),
    ),
    (
        "5.15",
        "how it is issued (settled)",
        (
            f"{ISSUE}.test_returns_a_token_this_once",
            "test_mcp_tokens.TestIssueAsUser.test_binds_the_token_to_the_caller",
        ),
    ),
    # 5. Claims
    ("5.16", "nameid: the user's id", (f"{LOGIN}.test_signs_the_claims",)),
    ("5.17", "email", (f"{LOGIN}.test_signs_the_claims",)),
    (
        "5.18",
        "role: Admin or TenantUser",
        (f"{LOGIN}.test_signs_the_claims", f"{ADMIN_LOGIN}.test_signs_the_claims"),
    ),
    (
        "5.19",
        "TenantId in tenants' tokens",
        (f"{LOGIN}.test_signs_the_claims", f"{ADMIN_LOGIN}.test_signs_the_claims"),
    ),
    (
        "5.20",
        "exp: the expiry",
        (f"{LOGIN}.test_signs_the_claims", f"{ADMIN_LOGIN}.test_signs_the_claims"),
    ),
    # 7. Errors (6: there are no events)
    (
        "7.1",
        "the envelope of errors",
        (f"{SERVICE}.TestEnvelope.test_holds_for_what_is_not_there",),
    ),
    (
        "7.2",
        "400: wrong current password, bad body",
        (
            f"{PASSWORD}.test_refuses_a_wrong_current_password",
            f"{PASSWORD}.test_refuses_a_bad_body",
            f"{PROFILE}.test_refuses_a_bad_body",
            f"{LOGIN}.test_refuses_a_bad_body",
        ),
    ),
    (
        "7.3",
        "401: all authenticated endpoints",
        (
            f"{PROFILE}.test_is_for_people_of_the_tenant",
            f"{ADMIN}.test_is_for_admins",
            f"{POSTS}.test_refuses_a_client_without_a_valid_key",
        ),
    ),
    (
        "7.4",
        "403: token and key differ, or no authority; no admin on admin endpoints",
        (f"{PASSWORD}.test_is_for_users_of_the_tenant", f"{ADMIN}.test_is_for_admins"),
    ),
    (
        "7.5",
        "404: no user (profile, change-password), no run",
        (
            f"{PROFILE}.test_is_404_for_a_user_who_was_deleted",
            f"{PASSWORD}.test_is_404_for_a_user_who_was_deleted",
            f"{RECORD}.test_is_404_for_what_is_not_there",
        ),
    ),
    ("7.6", "409: address in use", (f"{PROFILE}.test_refuses_an_address_that_is_in_use",)),
    (
        "7.7",
        "the texts of 401 and 403 are fixed",
        (
            f"{SERVICE}.TestEnvelope.test_distinguishes_the_kinds_of_401",
            f"{TENANT}.test_suspends_and_activates",
        ),
    ),
    # 8. Limits (settled; 9: there are no versions)
    (
        "8.1",
        "rate limits, sizes, password rules, lifetime (settled)",
        (
            f"{GUESSING}.test_requires_a_wait_after_five_failures",
            f"{LIST}.test_returns_pages_newest_first",
            f"{PASSWORD}.test_holds_new_passwords_to_the_rules",
            f"{LOGIN}.test_returns_a_token_and_its_expiry",
        ),
    ),
    ("8.2", "defaults: page 1, pageSize 10", (f"{LIST}.test_is_empty_at_first",)),
)
SECTIONS = {"0", "1", "2", "3", "4", "5", "7", "8"}


class TestRequirements:
    @pytest.mark.parametrize(
        ("number", "sentence", "tests"), REQUIREMENTS, ids=[row[0] for row in REQUIREMENTS]
    )
    def test_has_a_test_for(self, number: str, sentence: str, tests: tuple[str, ...]) -> None:
        """Each test that is named exists, is collected, and says what it is about."""
        assert sentence
        assert tests, number

        for name in tests:
            module, type_, function = name.split(".")
            found = importlib.import_module(f"tests.acceptance.{module}")
            test = getattr(getattr(found, type_), function)
            assert type_.startswith("Test")
            assert function.startswith("test_")
            assert inspect.getdoc(test)

    def test_is_covered_in_every_section(self) -> None:
        """Sections 6 and 9 are empty; no number is used twice."""
        numbers = [row[0] for row in REQUIREMENTS]

        assert {number.partition(".")[0] for number in numbers} == SECTIONS
        assert len(set(numbers)) == len(numbers)
