"""The documents do what they say: the pages that `docs/blocks.toml` names are run."""

from pathlib import Path

import pytest
from tools.doc_blocks import (
    Block,
    BlockFailed,
    Story,
    blocks,
    commands,
    compare,
    run,
    table,
    unexplained,
)

FLEET = "docs/howto/migrate-the-databases-you-already-have.md"
DOCUMENTED = (
    "3 of 3 are at the head (0.2 s).\nDetails: `show 01a21c8b-2339-73e9-881f-3fa0ceb4cffa`."
)
PRINTED = DOCUMENTED.replace("0.2", "11.7").replace("01a21c8b", "01b00000")


def output(text: str) -> Block:
    return Block("page.md", 1, "output", text)


def test_every_page_with_commands_is_run_or_says_why_not():
    assert unexplained() == []


@pytest.mark.slow
@pytest.mark.parametrize("story", [pytest.param(one, id=one.page) for one in table()[0].values()])
@pytest.mark.timeout(300)
def test_a_page_does_what_it_says(story: Story, tmp_path: Path):
    told = run(story, tmp_path)

    assert [one for one in told if one.endswith(" ran")]


def test_ids_and_durations_may_differ_and_ids_are_learned():
    learned = compare(output(DOCUMENTED), PRINTED)

    assert list(learned) == ["01a21c8b-2339-73e9-881f-3fa0ceb4cffa"]
    assert next(iter(learned.values())).startswith("01b00000")


@pytest.mark.parametrize(
    "printed",
    [
        PRINTED.replace("3 of 3", "2 of 3"),
        PRINTED.replace("Details", "More"),
        PRINTED + "\nA new line.",
        "",
    ],
)
def test_another_output_fails(printed: str):
    with pytest.raises(BlockFailed, match="documented"):
        compare(output(DOCUMENTED), printed)


def test_an_ellipsis_is_any_text():
    compare(output("first\n…\nlast tnk_Ab…"), "first\nsecond\nthird\nlast tnk_XyZ")


def test_a_page_whose_output_has_changed_fails(tmp_path: Path):
    story = Story(FLEET, stage="pip() { :; }; tenantry() { echo other; }")

    with pytest.raises(BlockFailed, match="3 new in the list"):
        run(story, tmp_path)


def test_a_command_that_fails_fails(tmp_path: Path):
    with pytest.raises(BlockFailed, match="exit status 3"):
        run(Story(FLEET, stage="pip() { return 3; }"), tmp_path)


def test_commands_are_what_the_shell_reads_at_once():
    assert commands("a \\\n  b\nc 'd\ne'\n") == ["a \\\n  b", "c 'd\ne'"]


def test_a_block_after_commands_is_their_output():
    kinds = [one.kind for one in blocks(Path(__file__).parents[2] / FLEET)]

    assert kinds[:5] == ["commands", "output", "commands", "commands", "text"]
