"""Every package that a release installs has a licence that is known and accepted."""

import pytest
from tools import licences


class TestLockedPackage:
    @pytest.mark.parametrize("name", sorted(licences.locked()))
    def test_has_a_licence_that_is_accepted(self, name: str):
        expression = licences.licence_of(name)

        assert expression != licences.UNKNOWN
        assert licences.parts_of(expression) <= licences.ACCEPTED

    def test_without_a_known_licence_is_noticed(self):
        assert licences.licence_of("a-package-that-nobody-has") == licences.UNKNOWN
