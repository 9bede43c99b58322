"""From an entry of the portfolio to a model that can be called."""

from collections.abc import Mapping

from security_verifiers.models import anthropic, endpoint
from security_verifiers.models.base import Model
from security_verifiers.models.entries import ModelEntry
from security_verifiers.models.limits import Limiters
from security_verifiers.models.local import LocalLlama, Progress
from security_verifiers.models.retries import RetryPolicy
from security_verifiers.models.timing import REAL, Timing
from security_verifiers.models.transport import Target, Transport
from sv_shared.errors import ModelError


def connect(
    entry: ModelEntry,
    env: Mapping[str, str],
    limiters: Limiters,
    *,
    policy: RetryPolicy = RetryPolicy(),  # noqa: B008 - frozen
    progress: Progress = lambda text: None,
    timing: Timing = REAL,
) -> Model:
    """The model behind an entry, not started yet.

    Args:
        entry: from `Portfolio.resolve`.
        env: environment variables; the key and the address are read here and nowhere else.
        limiters: one for the whole command, so that models of one key share its limits.
        policy: when a failed request is sent again.
        progress: told what starting waits for.
        timing: clocks, waiting and chance of the retries (the limiters have their own).

    Raises:
        ModelError: the key is missing or can't be a header; names its variable.
    """
    if entry.endpoint.provider == "local-llama":
        return LocalLlama(entry, limiters.of(entry), progress)
    url, key = entry.base_url(env), entry.key(env)
    variable = entry.endpoint.key_variable
    if variable and key is None and entry.endpoint.key_required:
        raise ModelError(
            f"{entry.id} needs a key and {variable} is not set",
            where=entry.endpoint_id,
            hint=f"export {variable}=... or put it into .env",
        )
    if key is not None and not key.isprintable():
        raise ModelError(
            f"{variable} holds a line break or another control character", where=entry.endpoint_id
        )
    if url is None:
        raise ModelError(f"{entry.id} has no address", where=entry.endpoint_id)
    speaks_anthropic = entry.endpoint.provider == "anthropic"
    target = Target(
        model_id=entry.id,
        base_url=url,
        base_url_variable=entry.endpoint.base_url_variable,
        key_variable=variable,
        key=key,
        key_header=anthropic.api_key if speaks_anthropic else endpoint.bearer,
        timeout_s=entry.endpoint.timeout_s,
    )
    transport = Transport(target, limiters.of(entry), policy, timing)
    client = anthropic.Messages if speaks_anthropic else endpoint.ChatEndpoint
    return client(entry, entry.info(env), transport)
