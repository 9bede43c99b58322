"""IoT-23 after a data-frame library: the Hugging Face sets of 19kmunz and re-saved tables with split labels.

`19kmunz/iot-23-preprocessed` has 15 columns (no addresses, times or ids) and one train split over all
captures; `-allcolumns` has 21. Both have replaced every unset number by 0, so a 0 in duration, orig_bytes
or resp_bytes may mean "not recorded": it stays 0 here, since the two can't be told apart. They name no
captures, so each of them is one group: good for testing, not for splitting.

A re-saved table keeps all 23 columns with `label` and `detailed-label` apart and unset as an empty field.
"""

from pathlib import PurePath

from sv_env_network_logs.data.kinds import ROUND_COUNT, Marks
from sv_env_network_logs.data.labels import iot23
from sv_env_network_logs.data.schema import Schema
from sv_env_network_logs.data.zeek import DETAILS, LABEL, UNUSED, capture_of, conn_columns

_CONN = conn_columns(ROUND_COUNT)
_MARKS = Marks(frozenset({"", "-"}), frozenset({"(empty)"}))
_WITHOUT_HOSTS = {
    name: column for name, column in _CONN.items() if name not in ("ts", "id.orig_h", "id.resp_h")
}
_ZEROS = "the set has 0 for unset durations and byte counts; they can't be told from true zeros"


def _one_capture(_: PurePath) -> str:
    return "iot-23-preprocessed"


TABLE = Schema(
    name="iot23-table",
    columns=_CONN | UNUSED | {"label": LABEL} | dict.fromkeys(DETAILS, LABEL),
    required=frozenset(_CONN),
    verdict=iot23,
    labels=(("label",), DETAILS),
    capture=capture_of,
    marks=_MARKS,
    mixed=True,
)

PREPROCESSED = Schema(
    name="iot23-hf",
    columns=_WITHOUT_HOSTS | {"label": LABEL},
    required=frozenset(_WITHOUT_HOSTS),
    verdict=iot23,
    labels=(("label",),),
    capture=_one_capture,
    marks=_MARKS,
    notes=_ZEROS,
)

ALL_COLUMNS = Schema(
    name="iot23-hf-allcolumns",
    columns=_CONN | UNUSED | {"label": LABEL},
    required=frozenset(_CONN),
    verdict=iot23,
    labels=(("label",),),
    capture=_one_capture,
    marks=_MARKS,
    notes=_ZEROS,
)
