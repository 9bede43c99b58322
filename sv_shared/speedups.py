"""Speed-ups of libraries, each behaviour-neutral and each with the measurement that justifies it.

docs/performance.md holds the figures.
"""

import functools
import logging

logger = logging.getLogger(__name__)


def memoise_default_factories() -> None:
    """Let pydantic look once, not once a field and object, whether a default factory takes an argument.

    `model_construct`, which verifiers calls for every message, asks this by `inspect.signature`, which parses
    the text signature of `list` or `dict` anew each time: a quarter of the CPU of a zero-latency rollout.
    The answer is a pure function of the factory. A pydantic without the function is left as it is.
    """
    from pydantic._internal import _fields

    ask = getattr(_fields, "takes_validated_data_argument", None)
    if ask is None:
        logger.info(
            "pydantic has no takes_validated_data_argument any more; rollouts run without this speed-up"
        )
    elif not hasattr(ask, "cache_info"):
        _fields.takes_validated_data_argument = functools.lru_cache(maxsize=None)(ask)  # type: ignore[assignment]
