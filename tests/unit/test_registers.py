"""The checker of histories: which ones are linearizable, and the part that it prints."""

import itertools
from pathlib import Path

import pytest

from harness import registers
from harness.registers import History, Operation, Result, counterexample, is_linearizable

OK, ABSENT, FAILED, UNKNOWN = Result.OK, Result.ABSENT, Result.FAILED, Result.UNKNOWN


def made(began: float, ended: float, value: str = "a") -> Operation:
    return Operation("create", value, began, ended, OK)


def wrote(began: float, ended: float, value: str, result: Result = OK) -> Operation:
    return Operation("update", value, began, ended, result)


def deleted(began: float, ended: float, result: Result = OK) -> Operation:
    return Operation("delete", None, began, ended, result)


def read(began: float, ended: float, value: str) -> Operation:
    return Operation("read", value, began, ended, OK)


def absent(began: float, ended: float) -> Operation:
    return Operation("read", None, began, ended, ABSENT)


LINEARIZABLE = {
    "one after the other": [made(0, 1), wrote(2, 3, "b"), read(4, 5, "b"), deleted(6, 7)],
    "two writes at the same time, in either order": [
        made(0, 1),
        wrote(2, 6, "b"),
        wrote(3, 5, "c"),
        read(7, 8, "b"),
    ],
    "a read during a write, before and after it": [
        made(0, 1),
        wrote(2, 9, "b"),
        read(3, 4, "a"),
        read(5, 6, "b"),
    ],
    "an unknown write that is seen later": [
        made(0, 1),
        wrote(2, 3, "b", UNKNOWN),
        read(4, 5, "a"),
        read(6, 7, "b"),
    ],
    "an unknown write that takes effect after a later one": [
        made(0, 1),
        wrote(2, 3, "b", UNKNOWN),
        wrote(4, 5, "c"),
        read(6, 7, "c"),
        read(8, 9, "b"),
    ],
    "an unknown write that is never seen": [made(0, 1), wrote(2, 3, "b", UNKNOWN), read(4, 5, "a")],
    "an unknown deletion, seen later": [
        made(0, 1),
        deleted(2, 3, UNKNOWN),
        read(4, 5, "a"),
        absent(6, 7),
    ],
    "an unknown deletion that did not happen": [
        made(0, 1),
        deleted(2, 3, UNKNOWN),
        wrote(4, 5, "b"),
        read(6, 7, "b"),
    ],
    "a write to a deleted post is refused": [made(0, 1), deleted(2, 3), wrote(4, 5, "b", ABSENT)],
    "a failed write has no effect": [made(0, 1), wrote(2, 3, "b", FAILED), read(4, 5, "a")],
    "a read without a result says nothing": [
        made(0, 1),
        Operation("read", None, 2, 3, UNKNOWN),
        read(4, 5, "a"),
    ],
}
NOT_LINEARIZABLE = {
    "a stale read": [made(0, 1), wrote(2, 3, "b"), read(4, 5, "a")],
    "a lost update": [made(0, 1), wrote(2, 3, "b"), read(4, 5, "b"), read(6, 7, "a")],
    "a deleted post that comes back": [made(0, 1), deleted(2, 3), absent(4, 5), read(6, 7, "a")],
    "a write to a deleted post": [made(0, 1), deleted(2, 3), wrote(4, 5, "b")],
    "two deletions": [made(0, 1), deleted(2, 3), deleted(4, 5)],
    "a post that is lost": [made(0, 1), absent(2, 3)],
    "an unknown write that goes and comes": [
        made(0, 1),
        wrote(2, 3, "b", UNKNOWN),
        read(4, 5, "b"),
        read(6, 7, "a"),
    ],
    "an unknown write that takes effect twice": [
        made(0, 1),
        wrote(2, 3, "b", UNKNOWN),
        read(4, 5, "b"),
        wrote(6, 7, "c"),
        read(8, 9, "c"),
        read(10, 11, "b"),
    ],
    "a failed write that is read": [made(0, 1), wrote(2, 3, "b", FAILED), read(4, 5, "b")],
    "a write that is read before it begins": [made(0, 1), read(2, 3, "b"), wrote(4, 5, "b")],
    "two readers that see two writes in different orders": [
        made(0, 1),
        wrote(2, 9, "b"),
        wrote(2, 9, "c"),
        read(3, 4, "b"),
        read(5, 6, "c"),
        read(7, 8, "b"),
    ],
}


class TestChecker:
    @pytest.mark.parametrize("name", LINEARIZABLE)
    def test_accepts(self, name: str):
        assert is_linearizable(LINEARIZABLE[name])

    @pytest.mark.parametrize("name", NOT_LINEARIZABLE)
    def test_rejects(self, name: str):
        assert not is_linearizable(NOT_LINEARIZABLE[name])

    def test_agrees_with_all_orders_tried_one_by_one(self):
        """A small history in all its variants; the other checker has no rule to be wrong about."""
        times = [(0, 3), (1, 4), (2, 6), (5, 7)]
        kinds = [
            wrote(0, 0, "b"),
            wrote(0, 0, "c", UNKNOWN),
            deleted(0, 0, UNKNOWN),
            read(0, 0, "a"),
            read(0, 0, "b"),
            read(0, 0, "c"),
            absent(0, 0),
        ]
        for chosen in itertools.product(kinds, repeat=len(times)):
            values = [one.value for one in chosen if one.kind == "update"]
            if len(set(values)) < len(values):
                continue
            history = [made(-2, -1)] + [
                Operation(one.kind, one.value, *at, one.result)
                for one, at in zip(chosen, times, strict=True)
            ]
            assert is_linearizable(history) == _any_order(history), history

    def test_decides_a_long_history_of_many_clients(self):
        """Also with unknown writes all over it, and the last result changed to a wrong one."""
        history = [made(0, 1, "v0")]
        for number in range(1, 60):
            at = number * 10
            history += [wrote(at, at + 9, f"v{number}"), wrote(at, at + 9, f"w{number}", UNKNOWN)]
            history += [wrote(at, at + 9, f"x{number}"), read(at + 1, at + 9, f"w{number}")]
            history += [read(at + 8.5, at + 9.5, f"x{number}")]
        assert is_linearizable(history)
        assert not is_linearizable([*history, read(700, 701, "v3")])

    def test_says_when_it_cannot_decide(self):
        with pytest.raises(registers.Undecided, match="more than 3 states"):
            is_linearizable(LINEARIZABLE["one after the other"], states_max=3)


class TestCounterexample:
    def test_is_as_small_as_it_can_be(self):
        noise = [wrote(10, 11, "x"), read(12, 13, "x"), wrote(14, 15, "y"), read(16, 17, "y")]
        stale = [wrote(20, 21, "z"), read(22, 23, "y")]

        found = counterexample([made(0, 1), *noise, *stale, read(24, 25, "z")])

        assert [str(one).split(maxsplit=3)[3] for one in found] == [
            "create a: ok",
            "update y: ok",
            "update z: ok",
            "read y: ok",
        ]

    @pytest.mark.parametrize("name", NOT_LINEARIZABLE)
    def test_fails_itself(self, name: str):
        assert not is_linearizable(counterexample(NOT_LINEARIZABLE[name]))


class TestFile:
    def test_is_checked_again(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        history, path = History(), tmp_path / "kept" / "history.jsonl"
        for one in NOT_LINEARIZABLE["a stale read"]:
            history.add("acme", "post-1", one)
        for one in LINEARIZABLE["one after the other"]:
            history.add("acme", "post-2", one)
        history.save(path)

        assert registers.main([str(path)]) == 1
        printed = capsys.readouterr().out
        assert "post post-1 of tenant acme is not linearizable" in printed
        assert printed.endswith("2 registers, 7 operations, 1 faults\n")

    def test_registers_are_checked_when_they_have_changed(self):
        history = History()
        for one in NOT_LINEARIZABLE["a stale read"]:
            history.add("acme", "post-1", one)

        assert len(history.check()) == 1
        assert history.check() == []


def _any_order(history: list[Operation]) -> bool:
    """Try each order of each choice of unknown operations."""
    unknown = [one for one in history if one.result is UNKNOWN]
    known = [one for one in history if one.result is not UNKNOWN]
    return any(
        _explained(order)
        for size in range(len(unknown) + 1)
        for some in itertools.combinations(unknown, size)
        for order in itertools.permutations([*known, *some])
    )


def _explained(order: tuple[Operation, ...]) -> bool:
    for at, one in enumerate(order):
        if any(later.returns_at < one.began for later in order[at + 1 :]):
            return False
    text: str | None = None
    for one in order:
        if one.result is ABSENT:
            if text is not None:
                return False
        elif one.kind == "read":
            if text != one.value:
                return False
        elif one.kind == "create":
            text = one.value
        elif text is None and one.result is OK:
            return False
        else:
            text = one.value if text is not None and one.kind == "update" else None
    return True
