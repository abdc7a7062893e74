"""A clock of a test."""


class Clock:
    """Monotonic seconds that pass when the test says so: on a busy machine, many would pass."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds
