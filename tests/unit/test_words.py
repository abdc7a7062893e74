"""The count of words to avoid."""

import pytest
from tools.words import avoided, prose


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        ("Markdown", "# Page\n\nThe server tells it."),
        ("Python", '"""Page."""\n\n# The server tells it.'),
        ("Python", '"""Page.\n\nThe server tells it.\n"""'),
        ("Python", 'page = 1\n\nraise Error(f"The server tells {page}.")'),
        ("Python of tests", '"""Page."""\n\n# The server tells it.'),
        ("names of tests", "page = 1\n\ndef test_the_server_tells_it():"),
        ("JavaScript", 'let page = "http://1";\n\n// The server tells it.'),
        ("JavaScript", "let page;\n\nshow(`${page} tells it`);"),
    ],
)
def test_a_word_to_avoid_is_found_with_its_line(kind: str, source: str):
    found = [word for line, text in prose(kind, source) for word in avoided(line, text)]
    assert [(line, word) for line, word, _ in found] == [(3, "tells")]


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        ("Markdown", "Run `tells`.\n\n```\ntells\n```\n[page](tells.md)"),
        ("Python", 'page = "tells"'),
        ("Python of tests", 'page = "The server tells it."'),
        ("Python", "# A standalone server looks up the row."),
    ],
)
def test_code_and_technical_terms_are_not_counted(kind: str, source: str):
    assert [word for line, text in prose(kind, source) for word in avoided(line, text)] == []
