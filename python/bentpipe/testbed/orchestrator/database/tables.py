"""All tables; who imports this module has the whole metadata."""

from bentpipe.testbed.orchestrator.database.base import Table
from bentpipe.testbed.orchestrator.database.calendar import (
    ALL_LANES,
    BookingRow,
    ExperimentRow,
    PlanRow,
    RunEndRow,
    RunRow,
)
from bentpipe.testbed.orchestrator.database.files import ImageRow, ProfileRow
from bentpipe.testbed.orchestrator.database.nodes import (
    BootRow,
    FiringRow,
    NodeRow,
    RunEventRow,
    TriggerRow,
)
from bentpipe.testbed.orchestrator.database.people import (
    AuditRow,
    IdempotencyRow,
    JoinTokenRow,
    LoginStateRow,
    TokenRow,
    UserRow,
)

__all__ = [
    "ALL_LANES",
    "AuditRow",
    "BookingRow",
    "BootRow",
    "ExperimentRow",
    "FiringRow",
    "IdempotencyRow",
    "ImageRow",
    "JoinTokenRow",
    "LoginStateRow",
    "NodeRow",
    "PlanRow",
    "ProfileRow",
    "RunEndRow",
    "RunEventRow",
    "RunRow",
    "Table",
    "TokenRow",
    "TriggerRow",
    "UserRow",
]
