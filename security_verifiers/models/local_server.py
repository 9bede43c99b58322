"""The process that serves an embedded model: `python -m security_verifiers.models.local_server`.

It reads one JSON line of settings from its standard input, answers with one JSON line on its standard output,
and then lives for as long as the other end of its standard input is open. On Linux the kernel also kills it
with the thread that started it, which covers a parent that forked after opening the pipe.
"""

import ctypes
import json
import os
import signal
import sys
from typing import Any

_PR_SET_PDEATHSIG = 1  # prctl(2)


def main() -> None:
    """Serve until the parent is gone."""
    _die_with_parent()
    settings = json.loads(sys.stdin.buffer.readline())
    # The library may print; the answer line needs a stream of its own.
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    server = serve(settings)
    print(json.dumps({"address": server.listening_address}), file=answer, flush=True)
    sys.stdin.buffer.read()
    # The library's own shutdown waits for requests in flight, for which nobody waits any more.
    os._exit(0)


def serve(settings: dict[str, Any]) -> Any:
    """Start llama.cpp's server on a free loopback port, with the model loaded."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = settings["path"]
    params.model_alias = {settings["name"]}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [settings["key"]]
    params.n_parallel = settings["slots"]
    params.n_ctx = settings["slots"] * settings["context"]
    params.cpuparams.n_threads = settings["threads"]
    params.cpuparams_batch.n_threads = settings["threads"]
    # Flash attention, and the kernels for half-precision keys and values, round differently when one token is
    # evaluated alone; without them the logits are the same, bit for bit, whether or not the beginning of a
    # prompt came from the slot's cache.
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_BF16
    params.n_gpu_layers = 0  # the same arithmetic on every machine
    # The cache of idle prompts in memory grows to gigabytes and is of no use to prompts that come once.
    params.cache_ram_mib = 0
    params.ui = False
    params.endpoint_slots = False
    params.verbosity = 1
    return xllamacpp.Server(params)


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


if __name__ == "__main__":
    main()
