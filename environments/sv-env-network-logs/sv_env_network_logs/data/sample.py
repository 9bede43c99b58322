"""A made-up Zeek log of any length, to measure the loader with."""

import random
from pathlib import Path

from sv_env_network_logs.data.sources import open_dataset
from sv_env_network_logs.data.zeek import FUSED
from sv_shared.environment import LoaderSample

_NAMES = (
    "ts uid id.orig_h id.orig_p id.resp_h id.resp_p proto service duration orig_bytes resp_bytes conn_state "
    "local_orig local_resp missed_bytes history orig_pkts orig_ip_bytes resp_pkts resp_ip_bytes"
)
_TYPES = (
    "time string addr port addr port enum string interval count count string bool bool count string "
    "count count count count"
)
_TALK = "http\t0.{bits:.6}\t149\t{size}\tSF\t-\t-\t0\tShADadfF\t9\t525\t7\t{size}\t-   Benign   -\n"
_SCAN = "-\t-\t-\t-\tS0\t-\t-\t0\tS\t3\t180\t0\t0\t-   Malicious   PartOfAHorizontalPortScan\n"


def write_zeek_log(folder: Path, rows: int) -> Path:
    """Writes a conn.log.labeled of IoT-23's layout: about half scans, nearly every address another one.

    Args:
        folder: where it is written.
        rows: how many; the same number gives the same file.
    """
    draw = random.Random(rows)
    path = folder / "conn.log.labeled"
    with path.open("w", encoding="ascii") as file:
        file.write(
            "#separator \\x09\n#set_separator\t,\n#empty_field\t(empty)\n#unset_field\t-\n#path\tconn\n"
        )
        file.write("\t".join(["#fields", *_NAMES.split(), FUSED[0]]) + "\n")
        file.write("\t".join(["#types", *_TYPES.split(), "set[string]   string   string"]) + "\n")
        for i in range(rows):
            bits = draw.getrandbits(64)
            host, port, *to = 1 + bits % 250, 1024 + bits % 60_000, *bits.to_bytes(8, "big")[:4]
            address = ".".join(map(str, to))
            file.write(f"{1.5e9 + i / 10:.6f}\tC{bits:016x}\t192.168.1.{host}\t{port}\t{address}\t80\ttcp\t")
            file.write(_SCAN if bits & 1 << 40 else _TALK.format(bits=str(bits), size=bits % 90_000))
    return path


def zeek_sample() -> LoaderSample:
    """The loader of native Zeek logs, with a log to feed it."""
    return LoaderSample("Zeek conn.log.labeled", write_zeek_log, lambda path: len(open_dataset(path)))
