"""Every package that a release installs has a licence that is known and accepted."""

from tools import licences

from tests.contracts.each import for_each


class TestLockedPackage:
    @for_each("name", licences.locked)
    def test_has_a_licence_that_is_accepted(self, name: str):
        expression = licences.licence_of(name)

        assert expression != licences.UNKNOWN
        assert licences.parts_of(expression) <= licences.ACCEPTED

    def test_without_a_known_licence_is_noticed(self):
        assert licences.licence_of("a-package-that-nobody-has") == licences.UNKNOWN
