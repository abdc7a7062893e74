"""The events that a target of notifications can have."""

from typing import Literal, get_args

RUN_STARTED, RUN_WAVE_ENDED, RUN_HOLDING = "run.started", "run.wave_ended", "run.holding"
RUN_FIRST_FAILURE, RUN_ENDED = "run.first_failure", "run.ended"
SERVER_AWAY, SERVER_BACK = "server.away", "server.back"
TEST = "hook.test"
"""The event of `tenantry hooks test`, which every target gets."""

Event = Literal[
    "run.started",
    "run.wave_ended",
    "run.holding",
    "run.first_failure",
    "run.ended",
    "server.away",
    "server.back",
]
EVENTS: tuple[Event, ...] = get_args(Event)
