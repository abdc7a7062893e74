"""Fixtures of the tests with a pooler: those of the integration tests that migrate."""

from tests.integration.conftest import (
    _folder,
    _make_migrator,
    _new_tenant,
    _postgresql_tenant,
    _rig,
    _sqlite_tenant,
    _tenant_url,
)

__all__ = [
    "_folder",
    "_make_migrator",
    "_new_tenant",
    "_postgresql_tenant",
    "_rig",
    "_sqlite_tenant",
    "_tenant_url",
]
