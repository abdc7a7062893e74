"""The message about a copy that differs: of a backup, a move, a clone or an adopted copy."""

from tenantry.backup.dumps import CopyDiffers
from tenantry.db.copying.survey import Survey, explain_difference


class TestExplainDifference:
    def test_names_the_first_table_with_both_numbers(self):
        found = explain_difference(Survey({"a": 1, "c": 2}, "x"), Survey({"a": 1, "b": 3}, "x"))

        assert found == "The copy has 0 rows in b, and the original 3."

    def test_says_that_the_schema_differs(self):
        found = explain_difference(Survey({"a": 1}, "x"), Survey({"a": 1}, "y"))

        assert found == "The copy has other columns, indexes or constraints than the original."

    def test_is_without_it_of_every_copy(self):
        assert CopyDiffers().message == "The copy differs from the original; it was removed again."
