"""Datasets on the Hugging Face hub, fetched when first asked for and kept in its cache."""

import re
from pathlib import Path

from sv_shared.errors import DataError

ID = re.compile(r"([\w.-]+/[\w.-]+?)(?:@([\w./-]+))?")
"""owner/name, with @revision where a release is pinned."""
PATTERNS = ("*.parquet", "*.csv", "*.tsv", "*.labeled", "*.gz")


def fetch_from_hub(repo: str, revision: str | None) -> Path:
    """A folder with the data files of a dataset repository.

    Args:
        repo: "owner/name".
        revision: branch, tag or commit; None for the newest.

    Raises:
        DataError: the hub can't be reached, knows no such dataset, or wants a login.
    """
    try:
        from huggingface_hub import errors, snapshot_download
    except ImportError as error:
        raise DataError(
            "fetching a dataset needs huggingface_hub, which is not installed",
            where=repo,
            hint="Install it, or give a local file or folder",
        ) from error
    import httpx

    try:
        folder = snapshot_download(
            repo, repo_type="dataset", revision=revision, allow_patterns=list(PATTERNS)
        )
    except (errors.HfHubHTTPError, errors.OfflineModeIsEnabled, errors.HFValidationError) as error:
        raise _unreachable(repo, error) from error
    except (httpx.HTTPError, OSError) as error:
        raise _unreachable(repo, error) from error
    return Path(folder)


def _unreachable(repo: str, error: Exception) -> DataError:
    reason = (str(error).strip().splitlines() or [""])[0]
    return DataError(
        f"there is no local file or folder of this name, and the hub does not give a dataset of it:"
        f" {type(error).__name__} {reason[:200]}",
        where=repo,
        hint="Check the name and the network, or give the path of a local copy",
    )
