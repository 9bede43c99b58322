"""No row of one split is a copy, or nearly one, of another split's."""

import re

import pytest
import yaml

from sv_env_config_verification.synth.recipe import Draft, draft
from sv_shared.errors import UsageError
from sv_shared.splits import SEED_RANGES, SPLITS, require_seed

ROWS = 140
PAIRS = (("train", "dev"), ("train", "test"), ("dev", "test"))


@pytest.fixture(scope="module")
def drafts() -> dict[str, list[Draft]]:
    return {split: draft(ROWS, seed=SEED_RANGES[split][3], split=split) for split in SPLITS}


def skeleton(one: Draft) -> str:
    """Keys, switches and truth, names and numbers struck out; made by other means than the recipe's key."""
    if one.row.format == "terraform":
        text = "\n".join(one.row.files[name] for name in sorted(one.row.files))
        text = re.sub(r"(?m)^\s*#.*\n", "", text)
        return re.sub(
            r'"[^"]*"|\d+|[a-z]+_[a-z_]+\.[a-z_.]+', "", re.sub(r"(?m)^(resource|data) .*$", r"\1", text)
        )
    shapes = []
    for name in sorted(one.row.files):
        for document in yaml.safe_load_all(one.row.files[name]):
            shapes.append(str(_keys(document)))
    return "\n".join(shapes)


def _keys(value: object) -> object:
    if isinstance(value, dict):
        return {
            key: value["name"] if _is_setting(key, value) else _keys(inner) for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_keys(item) for item in value]
    return value if isinstance(value, bool) else "x"


def _is_setting(key: str, value: dict) -> bool:
    return key == "name" and str(value["name"]).isupper()


def shingles(one: Draft) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", "\n".join(one.row.files.values()))
    return {tuple(words[start : start + 5]) for start in range(len(words) - 4)}


def test_splits_have_no_skeleton_in_common(drafts: dict[str, list[Draft]]) -> None:
    seen = {split: {skeleton(one) for one in drafts[split]} for split in SPLITS}
    for one, other in PAIRS:
        assert not seen[one] & seen[other]


def test_without_the_partition_there_would_be_some(drafts: dict[str, list[Draft]]) -> None:
    """Skeletons do repeat within a split, so that their absence across splits says something."""
    keys = [skeleton(one) for split in SPLITS for one in drafts[split]]
    assert len(keys) - len(set(keys)) >= 2


def test_texts_of_two_splits_are_not_alike(drafts: dict[str, list[Draft]]) -> None:
    sets = {split: [shingles(one) for one in drafts[split][:60]] for split in SPLITS}
    for one, other in PAIRS:
        highest = max(len(a & b) / len(a | b) for a in sets[one] for b in sets[other])
        assert highest < 0.8


def test_every_split_sees_every_template(drafts: dict[str, list[Draft]]) -> None:
    families = [{name for one in drafts[split] for name in one.families} for split in SPLITS]
    assert families[0] == families[1] == families[2]
    assert len(families[0]) == 20


@pytest.mark.parametrize("split", SPLITS)
def test_seeds_of_other_splits_are_refused(split: str) -> None:
    for other in SPLITS:
        if other != split:
            with pytest.raises(UsageError, match=f"belongs to the {other} split"):
                require_seed(SEED_RANGES[other][0], split)
    with pytest.raises(UsageError, match="belongs to no split"):
        require_seed(1_999_999, split)
    with pytest.raises(UsageError, match="unknown split"):
        require_seed(0, "validation")
