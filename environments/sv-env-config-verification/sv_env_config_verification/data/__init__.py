"""Real configuration files: loaders, labels, and how far the tools agree with other people's fixtures."""

from sv_env_config_verification.data.folders import load_manifests, load_terraform
from sv_env_config_verification.data.pairs import load_pairs
from sv_env_config_verification.data.samples import Collection, Refusal, Sample
from sv_env_config_verification.data.tool_labels import label_with_tools

__all__ = [
    "Collection",
    "Refusal",
    "Sample",
    "label_with_tools",
    "load_manifests",
    "load_pairs",
    "load_terraform",
]
