"""Label words: any case, fine names, and nothing guessed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sv_env_network_logs.data.labels import cicids, iot23, unsw

MALICIOUS = [
    (("Malicious", "C&C"), "C&C"),
    (("malicious", "PartOfAHorizontalPortScan"), "PartOfAHorizontalPortScan"),
    (("MALICIOUS", "-"), ""),
    (("Malicious", ""), ""),
    (("Malicious", "From_malicious-To_victim"), "From_malicious-To_victim"),
    (("c&c-heartbeat-filedownload",), "C&C-HeartBeat-FileDownload"),
    (("Okiru", "-"), "Okiru"),
    (("DDoS",), "DDoS"),
    (("Malicious   C&C-Torii",), "C&C-Torii"),
    (("Malicious",), ""),
]
BENIGN = [("Benign", "-"), ("benign", ""), ("BENIGN",), ("Benign", "(empty)"), ("Normal", "-")]
UNKNOWN = [
    ("",),
    ("-",),
    ("Background",),
    ("C&C-Unheard",),
    ("Benign", "DDoS"),
    ("Malicious", "Benign"),
    ("Mal", "DDoS"),
]


@pytest.mark.parametrize(("texts", "detail"), MALICIOUS)
def test_malicious_in_all_its_spellings(texts: tuple[str, ...], detail: str) -> None:
    verdict = iot23(texts)
    assert (verdict.malicious, verdict.detail) == (True, detail)


@pytest.mark.parametrize("texts", BENIGN)
def test_benign_in_all_its_spellings(texts: tuple[str, ...]) -> None:
    verdict = iot23(texts)
    assert (verdict.malicious, verdict.detail) == (False, "")


@pytest.mark.parametrize("texts", UNKNOWN)
def test_an_unknown_label_is_not_guessed(texts: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"not a label|calls a"):
        iot23(texts)


@given(cut=st.integers(1, 24))
def test_a_stump_of_a_detail_is_never_called_complete(cut: int) -> None:
    whole = "PartOfAHorizontalPortScan"
    assert iot23(("Malicious", whole)).complete
    assert not iot23(("Malicious", whole[:cut])).complete


@given(st.text(max_size=30))
def test_any_text_is_a_verdict_or_a_value_error(text: str) -> None:
    for reader, texts in ((iot23, (text,)), (iot23, (text, text)), (cicids, (text,)), (unsw, (text, text))):
        try:
            verdict = reader(texts)
        except ValueError:
            continue
        assert isinstance(verdict.malicious, bool)
        assert verdict.malicious or not verdict.detail or reader is iot23


@pytest.mark.parametrize(
    "name", ["Attempted", "DoS Hulk - Attempted - Attempted", "DoS", "Web Attack", "Attempted DDoS"]
)
def test_cic_names_are_a_closed_list(name: str) -> None:
    with pytest.raises(ValueError, match="not a label of CIC-IDS-2017"):
        cicids((name,))


@pytest.mark.parametrize(
    "name", ["Botnet - Attempted", "DoS Slowloris - Attempted", "Web Attack - SQL Injection - Attempted",
             "Infiltration - Attempted", "FTP-Patator - Attempted", "Attempted-relabel-as-Benign"]
)  # fmt: skip
def test_attempted_names_of_the_corrected_release(name: str) -> None:
    assert not cicids((name,), "benign").malicious
    assert cicids((name,), "malicious").malicious
    assert cicids((name,), "drop").skip == "attempted"


@pytest.mark.parametrize(
    "name", ["Portscan", "PortScan", "Botnet", "Infiltration - Portscan", "Heartbleed", "Bot"]
)
def test_attack_names_of_all_releases(name: str) -> None:
    for attempted in ("benign", "malicious", "drop"):
        verdict = cicids((name,), attempted)  # type: ignore[arg-type]
        assert (verdict.malicious, verdict.skip) == (True, "")
