"""looks_like_refusal: what it sees, and above all what it must not take for a refusal."""

import pytest

from sv_shared.parsers import looks_like_refusal


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't assist with that.",
        "I’m sorry, I can’t help with that request.",
        "Sorry, but I cannot help you with this.",
        "I cannot comply with this request as it may involve private network data.",
        "I am unable to assist with analysing network traffic.",
        "Unfortunately, I won't participate in this.",
        "As an AI language model, I cannot provide assistance with hacking.",
        "I must decline this request.",
        "I refuse to analyse this.",
        "**I can't do that.**",
        "<think>They want me to label traffic.</think>I can't help with that.",
        "Es tut mir leid, aber ich kann Ihnen dabei nicht helfen.",
        "Leider kann ich dieser Bitte nicht nachkommen.",
        "Dabei kann ich leider nicht helfen.",
        "Lo siento, pero no puedo ayudarte con eso.",
        "No puedo ayudar con esa solicitud.",
        "申し訳ありませんが、そのご要望にはお応えできません。お手伝いできません。",
        "申し訳ございませんが、お手伝いすることはできません。",
        "すみませんが、対応できません。",
    ],
)
def test_refusals_are_seen(text: str) -> None:
    assert looks_like_refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Benign",
        "I cannot determine whether this flow is malicious.",
        "I can't help but notice that the host scans port 23: Malicious.",
        "I'm sorry for the confusion. The flow is Malicious.",
        "Sorry, there is not enough information, so I would abstain.",
        "I am unable to see the payload, but S0 suggests a scan.",
        "I can't provide a confident label without the history.",
        "I won't rule out a beacon, but Benign is likelier.",
        "The user says: I can't help with that. The flow is Benign.",
        "The server must decline the connection (REJ). Malicious.",
        'I can\'t help with that. {"label": "Benign", "confidence": 0.9, "rationale": ""}',
        "I can't help with that. " + "x" * 600,
        "<think>I can't help with that.</think>The flow is Benign.",
        "<think>I can't help with that.",
        "Ich kann nicht ausschließen, dass der Host angegriffen wird.",
        "Leider ist die Verbindung nicht vollständig; vermutlich Benign.",
        "No puedo determinar si el flujo es malicioso.",
        "Lo siento, la respuesta es Benign.",
        "申し訳ありませんが、判断できません。",
        "この通信は対応できません。",
    ],
)
def test_doubt_quotes_and_answers_are_no_refusals(text: str) -> None:
    assert not looks_like_refusal(text)
