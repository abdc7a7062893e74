"""The resources on the wire: the exact members of each, and what each member may hold."""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

Check = Callable[[Any], bool]
Shape = Mapping[str, Check]

GUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z")


def is_guid(value: Any) -> bool:
    return isinstance(value, str) and GUID.fullmatch(value) is not None


def is_instant(value: Any) -> bool:
    return isinstance(value, str) and INSTANT.fullmatch(value) is not None


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_email(value: Any) -> bool:
    return isinstance(value, str) and "@" in value


def is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def is_labels(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(one, str) for one in value.values())


def one_of(*words: str) -> Check:
    return lambda value: value in words


def maybe(check: Check) -> Check:
    return lambda value: value is None or check(value)


def is_a(shape: Shape) -> Check:
    def check(value: Any) -> bool:
        must_be(value, shape)
        return True

    return check


def list_of(shape: Shape) -> Check:
    def check(value: Any) -> bool:
        assert isinstance(value, list)
        for one in value:
            must_be(one, shape)
        return True

    return check


def must_be(value: Any, shape: Shape) -> None:
    """Check that *value* has exactly the members of *shape*, and that each may be what it is."""
    assert isinstance(value, dict), value
    assert set(value) == set(shape)
    for member, check in shape.items():
        assert check(value[member]), f"{member}: {value[member]!r}"


def page_of(shape: Shape) -> Shape:
    return {
        "items": list_of(shape),
        "page": is_count,
        "pageSize": is_count,
        "totalCount": is_count,
        "totalPages": is_count,
    }


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


# Of tenant endpoints.
LOGIN_RESULT: Shape = {"token": is_text, "expiresAt": is_instant}
TENANT_USER_PROFILE: Shape = {
    "id": is_guid,
    "email": is_email,
    "fullName": is_text,
    "isActive": is_flag,
    "createdAt": is_instant,
}
TENANT_USER: Shape = {
    **TENANT_USER_PROFILE,
    "role": one_of("owner", "editor", "author", "reader"),
}
MIGRATION_DETAIL: Shape = {
    "customerId": is_guid,
    "customerName": is_text,
    "status": one_of("success", "failed"),
    "error": maybe(is_text),
}
MIGRATION_RESULT: Shape = {
    "total": is_count,
    "success": is_count,
    "failed": is_count,
    "details": list_of(MIGRATION_DETAIL),
}
MIGRATION_RUN_DETAIL: Shape = {
    "customerId": is_guid,
    "customerName": is_text,
    "databaseName": is_text,
    "status": one_of("Success", "Failed"),
    "appliedMigrations": maybe(is_text),
    "errorMessage": maybe(is_text),
    "startedAt": is_instant,
    "finishedAt": maybe(is_instant),
}
MIGRATION_RUN: Shape = {
    "id": is_guid,
    "startedAt": is_instant,
    "finishedAt": maybe(is_instant),
    "totalCount": is_count,
    "successCount": is_count,
    "failedCount": is_count,
    "triggeredBy": is_email,
    "details": list_of(MIGRATION_RUN_DETAIL),
}
IN_WORK: Shape = {
    "customerId": is_guid,
    "customerName": is_text,
    "server": is_text,
    "since": is_instant,
}
RUN_TENANT: Shape = {**MIGRATION_RUN_DETAIL, "isAttempted": is_flag, "cause": maybe(is_text)}
# Without `inWork` and `waitingFor`, which are there at times.
RUN: Shape = {
    **{name: of for name, of in MIGRATION_RUN.items() if name != "details"},
    "state": one_of(
        *("running", "holding", "stopping", "cancelling"),
        *("success", "failed", "stopped", "cancelled"),
    ),
    "notAttemptedCount": is_count,
    "label": maybe(is_text),
    "head": maybe(is_text),
    "waves": maybe(lambda value: all(is_count(one) for one in value)),
    "holds": maybe(lambda value: all(is_count(one) for one in value)),
    "maxFailures": maybe(is_count),
    "stopReason": maybe(is_text),
    "retryOf": maybe(is_guid),
    "planId": maybe(is_guid),
    "undoes": maybe(is_guid),
}

# Of admin endpoints.
MODULE: Shape = {"key": is_text, "name": is_text, "description": is_text}
POST_SUMMARY: Shape = {
    "id": is_guid,
    "title": is_text,
    "slug": is_text,
    "excerpt": is_text,
    "authorName": is_text,
    "tags": is_words,
    "publishedAt": is_instant,
    "updatedAt": is_instant,
}
POST: Shape = {**POST_SUMMARY, "content": is_text}
OWN_POST_SUMMARY: Shape = {
    **POST_SUMMARY,
    "authorId": maybe(is_guid),
    "createdAt": is_instant,
    "publishedAt": maybe(is_instant),
    "version": is_count,
    "hasDraft": is_flag,
    "publishAt": maybe(is_instant),
    "unpublishAt": maybe(is_instant),
}
OWN_POST: Shape = {**OWN_POST_SUMMARY, "content": is_text}
TENANT: Shape = {
    "id": is_guid,
    "name": is_text,
    "databaseName": is_text,
    "isActive": is_flag,
    "isReadOnly": is_flag,
    "createdAt": is_instant,
    "schemaRevision": maybe(is_text),
    "modules": is_words,
    "requestsPerMinute": is_count,
    "sizeBytesMax": is_count,
    "serverName": is_text,
    "failingRunId": maybe(is_guid),
    "driftedAt": maybe(is_instant),
    "labels": is_labels,
    "isAttached": is_flag,
}
CREATED_TENANT: Shape = {**TENANT, "apiKey": is_text, "owner": is_a(TENANT_USER_PROFILE)}
API_KEY: Shape = {
    "id": is_guid,
    "prefix": is_text,
    "createdAt": is_instant,
    "lastUsedAt": maybe(is_instant),
    "expiresAt": maybe(is_instant),
}
ISSUED_API_KEY: Shape = {**API_KEY, "key": is_text}
MCP_TOKEN: Shape = {
    "id": is_guid,
    "name": is_text,
    "prefix": is_text,
    "userId": maybe(is_guid),
    "scopes": is_words,
    "createdAt": is_instant,
    "expiresAt": is_instant,
    "lastUsedAt": maybe(is_instant),
}
LINK: Shape = {
    "id": is_guid,
    "userId": maybe(is_guid),
    "email": is_email,
    "role": maybe(is_text),
    "createdAt": is_instant,
    "expiresAt": is_instant,
}
ISSUED_LINK: Shape = {**LINK, "url": is_text}
OPEN_LINK: Shape = {
    "isInvitation": is_flag,
    "tenantName": is_text,
    "email": is_email,
    "fullName": maybe(is_text),
    "role": maybe(is_text),
    "expiresAt": is_instant,
}
CLIENT_CONFIGURATION: Shape = {"client": is_text, "place": is_text, "text": is_text}
ISSUED_MCP_TOKEN: Shape = {
    **MCP_TOKEN,
    "token": is_text,
    "clientConfigurations": list_of(CLIENT_CONFIGURATION),
}
