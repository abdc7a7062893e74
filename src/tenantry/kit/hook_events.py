"""The events that a target of notifications can have."""

from typing import Literal, get_args

RUN_STARTED, RUN_WAVE_ENDED, RUN_HOLDING = "run.started", "run.wave_ended", "run.holding"
RUN_FIRST_FAILURE, RUN_ENDED = "run.first_failure", "run.ended"
SERVER_AWAY, SERVER_BACK = "server.away", "server.back"
POST_PUBLISHED, POST_CHANGED = "post.published", "post.changed"
POST_UNPUBLISHED = "post.unpublished"
TEST = "hook.test"
"""The event of `tenantry hooks test`, which every target gets."""

FleetEvent = Literal[
    "run.started",
    "run.wave_ended",
    "run.holding",
    "run.first_failure",
    "run.ended",
    "server.away",
    "server.back",
]
PostEvent = Literal["post.published", "post.changed", "post.unpublished"]
Event = FleetEvent | PostEvent
FLEET_EVENTS: tuple[FleetEvent, ...] = get_args(FleetEvent)
POST_EVENTS: tuple[PostEvent, ...] = get_args(PostEvent)
