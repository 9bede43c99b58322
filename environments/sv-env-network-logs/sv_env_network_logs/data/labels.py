"""Labels: what each dataset's own label words say about a flow.

Every reader maps the texts of one row's label columns to a `Verdict`, or raises ValueError for a word that it
does not know: an unknown label is never guessed.
"""

import re
from dataclasses import dataclass
from typing import Literal

Attempted = Literal["benign", "malicious", "drop"]
ATTEMPTED: tuple[Attempted, ...] = ("benign", "malicious", "drop")
"""What to do with "X - Attempted" rows of the corrected CIC-IDS-2017 releases: flows of an attack tool that
reached no effect on the victim. Their authors advise counting them as benign (Engelen, Rimmer and Joosen,
"Troubleshooting an Intrusion Detection Dataset: the CICIDS2017 Case Study", WTMC 2021; Liu et al., CNS 2022),
which is the default."""


@dataclass(frozen=True)
class Verdict:
    """What a row's label says.

    Attributes:
        malicious: the class.
        detail: the source's finer name, "" where it has none.
        skip: a reason to leave the row out, counted by that name; "" keeps it.
        complete: the words are in the dataset's closed list, so they can't be the stump of a longer one.
    """

    malicious: bool
    detail: str = ""
    skip: str = ""
    complete: bool = True


_PARTS = {
    part.casefold(): part
    for part in (
        "Attack", "C&C", "DDoS", "FileDownload", "HeartBeat", "Mirai", "Okiru", "PartOfAHorizontalPortScan",
        "PortScan", "HorizontalPortScan", "Torii",
    )
}  # fmt: skip
_CLASSES = {"benign": False, "normal": False, "malicious": True}
_NONE = ("", "-", "(empty)")


def iot23(texts: tuple[str, ...], attempted: Attempted = "benign") -> Verdict:
    """IoT-23: a class and a detail in two columns, or one column with either of them, in any case.

    A detail is one or several known parts joined by "-" ("C&C-HeartBeat-FileDownload"); newer Stratosphere
    releases have free details beside an explicit class, and those are kept as they stand.
    """
    words = [text.strip() for text in texts]
    if len(words) == 1:
        words = re.split(r"\s{2,}|\s(?=\S+$)", words[0], maxsplit=1)
    name, detail = words[0], words[1] if len(words) > 1 else "-"
    parts = _known_parts(detail)
    if name.casefold() not in _CLASSES:
        if detail in _NONE and (fine := _known_parts(name)):
            return Verdict(True, fine)
        raise ValueError(f"holds {' '.join(texts)[:60]!r}, which is not a label of IoT-23")
    malicious = _CLASSES[name.casefold()]
    if not malicious and (parts or detail.casefold() == "malicious"):
        raise ValueError(f"calls a {detail!r} flow {name!r}")
    if malicious and detail.casefold() in ("benign", "normal"):
        raise ValueError(f"calls a {detail!r} flow {name!r}")
    if detail in _NONE:
        return Verdict(malicious, complete=not malicious or detail != "")
    return Verdict(malicious, parts or detail, complete=bool(parts))


def _known_parts(detail: str) -> str:
    """The detail in IoT-23's own spelling, or "" where one of its parts is not known."""
    parts = [_PARTS.get(part.casefold(), "") for part in detail.split("-")]
    return "-".join(parts) if all(parts) else ""


_CIC = {
    re.sub(r"[^a-z0-9]+", " ", name.casefold()): name
    for name in (
        "Bot", "Botnet", "DDoS", "DoS GoldenEye", "DoS Hulk", "DoS Slowhttptest", "DoS slowloris",
        "FTP-Patator", "Heartbleed", "Infiltration", "Infiltration - Portscan", "PortScan",
        "SSH-Patator", "Web Attack - Brute Force", "Web Attack - Sql Injection", "Web Attack - XSS",
    )
}  # fmt: skip


def cicids(texts: tuple[str, ...], attempted: Attempted = "benign") -> Verdict:
    """CIC-IDS-2017: BENIGN or an attack's name.

    The dash of "Web Attack - XSS" is damaged in every release in its own way, so names are compared by their
    ASCII letters and digits alone. " - Attempted" is read as `attempted` says.
    """
    text = texts[0].strip().casefold()
    name = re.sub(r"[^a-z0-9]+", " ", text).strip()
    if not (text.isascii() or text.startswith("web attack ")):
        raise ValueError(f"holds {texts[0][:60]!r}, which is not a label of CIC-IDS-2017")
    stem, tried, _ = name.partition(" attempted")
    if name == "benign":
        return Verdict(False)
    if name == "attempted relabel as benign":
        stem, tried, detail = name, "attempted", "Attempted"
    elif stem in _CIC and name in (stem, f"{stem} attempted"):
        detail = _CIC[stem] + (" - Attempted" if tried else "")
    else:
        raise ValueError(f"holds {texts[0][:60]!r}, which is not a label of CIC-IDS-2017")
    if tried and attempted == "drop":
        return Verdict(False, detail, skip="attempted")
    return Verdict(not tried or attempted == "malicious", detail)


_UNSW = {
    name.casefold(): name
    for name in (
        "Analysis", "Backdoor", "DoS", "Exploits", "Fuzzers", "Generic", "Reconnaissance",
        "Shellcode", "Worms",
    )
} | {"backdoors": "Backdoor"}  # fmt: skip


def unsw(texts: tuple[str, ...], attempted: Attempted = "benign") -> Verdict:
    """UNSW-NB15: attack_cat (Normal or blank for ordinary flows, "Backdoors" in the raw files), label 0/1."""
    category, flag = (text.strip() for text in texts)
    if flag not in ("0", "1"):
        raise ValueError(f"holds label {flag!r}, which is not 0 or 1")
    ordinary = category.casefold() in ("normal", "", "-")
    if not ordinary and category.casefold() not in _UNSW:
        raise ValueError(f"holds {category!r}, which is not an attack category of UNSW-NB15")
    if ordinary == (flag == "1"):
        raise ValueError(f"holds category {category!r} beside label {flag}")
    return Verdict(not ordinary, "" if ordinary else _UNSW[category.casefold()])
