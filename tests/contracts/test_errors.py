"""Every error has a message, a code and a status."""

from collections import Counter
from http import HTTPStatus
from pathlib import Path

from tools import reference

from tenantry.access.login import LoginRefused
from tenantry.api.cors import PREFLIGHT_REFUSED
from tenantry.api.error_responses import (
    FIXED_MESSAGES,
    INTERNAL_CODE,
    STATUS,
    HttpError,
    category_of,
    failure,
)
from tenantry.kit import errors
from tenantry.kit.errors import TenantryError
from tests.contracts.each import for_each
from tests.contracts.sources import import_everything

import_everything()

CATEGORIES = {
    errors.Invalid: 400,
    errors.Unauthenticated: 401,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.Conflict: 409,
    errors.Unavailable: 503,
}


def everything_below(base: type[TenantryError]) -> list[type[TenantryError]]:
    return [one for below in base.__subclasses__() for one in (below, *everything_below(below))]


EVERY = sorted(
    {one for one in everything_below(TenantryError) if one.__module__.startswith("tenantry.")},
    key=lambda one: (one.__module__, one.__name__),
)


def raised(error: type[TenantryError]) -> TenantryError:
    """Return an instance, however it is made."""
    made = error.__new__(error)
    TenantryError.__init__(made)
    if isinstance(made, errors.Unavailable):
        made.retry_after_seconds = 1
    return made


# The errors that are answered over HTTP, and their codes.
CODES = {error: code for error in reference.error_types() if (code := reference.http_code(error))}
FIXED = {
    error: code
    for error, code in CODES.items()
    if not issubclass(error, HttpError) and category_of(error) in FIXED_MESSAGES
}
# Codes of earlier errors: no error may have them again.
UNUSED = {"block_between_branches", "not_for_databases"}
PUBLISHED = Path(__file__).with_name("error_codes.txt")


@for_each("error", EVERY, lambda one: f"{one.__module__}.{one.__name__}")
class TestError:
    def test_says_what_is_wrong(self, error: type[TenantryError]):
        """Its own docstring begins with a sentence, which is shown unless a message is given."""
        own = vars(error).get("__doc__")

        assert own, f"{error.__name__} has no docstring"
        assert own.splitlines()[0].endswith(".")
        assert raised(error).message == own.splitlines()[0]

    def test_has_one_category(self, error: type[TenantryError]):
        """It is of exactly one category, or it is about HTTP itself."""
        found = [one for one in (*CATEGORIES, HttpError) if issubclass(error, one)]

        assert len(found) == 1

    def test_has_a_status(self, error: type[TenantryError]):
        """It has the status of its category, unless the table names another."""
        answer = failure(raised(error), token_sent=False)

        assert answer.status in set(HTTPStatus)
        assert 400 <= answer.status < 600
        if not issubclass(error, HttpError):
            special = STATUS[category_of(error)]
            category = next(status for one, status in CATEGORIES.items() if issubclass(error, one))
            assert special in {category, 412, 429, 507}

    def test_has_a_unique_name(self, error: type[TenantryError]):
        """No other error has its name, because the log has only names."""
        assert [one.__name__ for one in EVERY].count(error.__name__) == 1


class TestCodes:
    def test_have_unique_codes(self):
        """No two errors have the same code, except those with a fixed message."""
        codes = Counter(code for error, code in CODES.items() if _has_own_message(error))

        assert [code for code, count in codes.items() if count > 1] == []

    def test_say_no_more_than_the_message(self):
        """All 401 have one code, but that of a login, and so have all 403."""
        found = {(STATUS[category_of(one)], code) for one, code in FIXED.items()}

        assert found == {(401, "unauthenticated"), (403, "forbidden")}
        assert CODES[LoginRefused] == "login_refused"

    def test_stay_what_they_are(self):
        """Clients rely on them: none is renamed or removed, and a new one is listed."""
        published = set(PUBLISHED.read_text(encoding="utf-8").split())
        current = set(CODES.values()) | {INTERNAL_CODE, PREFLIGHT_REFUSED}

        assert published - current >= UNUSED
        gone = sorted(published - current - UNUSED)
        assert not gone, f"clients know {gone}: give the classes their names back"
        new = sorted(current - published)
        assert not new, f"add {new} to {PUBLISHED.name}: from then on they stay as they are"


def _has_own_message(error: type[TenantryError]) -> bool:
    return error not in FIXED


class TestCategories:
    def test_all_have_a_status(self):
        """The table of the HTTP door holds every category."""
        assert {one: int(STATUS[one]) for one in CATEGORIES} == CATEGORIES

    def test_are_all_that_is_directly_below_the_base(self):
        """Nothing of ours is an error without a category, but what is about HTTP itself."""
        below = {
            one for one in TenantryError.__subclasses__() if one.__module__.startswith("tenantry.")
        }

        assert below == {*CATEGORIES, HttpError}
