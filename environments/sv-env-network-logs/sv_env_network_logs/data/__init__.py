"""Real flow data: loaders of IoT-23, CIC-IDS-2017 and UNSW-NB15 in their native layouts."""

from sv_env_network_logs.data.labels import ATTEMPTED, Attempted
from sv_env_network_logs.data.mask import GROUPS, check_mask, mask_example, mask_flow
from sv_env_network_logs.data.sources import open_dataset
from sv_env_network_logs.data.splits import SPLITS, Split, require_both_classes, select, take_split
from sv_env_network_logs.data.table import ABSENT, FlowTable, Provenance, SourceFile
from sv_env_network_logs.data.windows import Windows

__all__ = [
    "ABSENT",
    "ATTEMPTED",
    "GROUPS",
    "SPLITS",
    "Attempted",
    "FlowTable",
    "Provenance",
    "SourceFile",
    "Split",
    "Windows",
    "check_mask",
    "mask_example",
    "mask_flow",
    "open_dataset",
    "require_both_classes",
    "select",
    "take_split",
]
