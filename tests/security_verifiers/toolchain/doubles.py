"""Stand-ins for go, uv, apt-get and sudo that do as an environment variable tells them."""

from pathlib import Path

from security_verifiers.toolchain.install import Outcome
from security_verifiers.toolchain.pins import Pins

PACKAGE = "example.test/gadget/cmd/gadget"
CHECKSUM = "h1:" + "A" * 43 + "="

GO = """\
#!/bin/sh
if [ "$1" = env ]; then
    [ "$FAKE_GO_VERSION" = none ] && exit 1
    echo "go${FAKE_GO_VERSION:-1.26.8}"
    exit 0
fi
echo "$GOTOOLCHAIN $GOFLAGS $2" >>"$FAKE_LOG"
mkdir -p "$GOBIN" "$GOMODCACHE" "$GOCACHE"
touch "$GOMODCACHE/fetched"
case "$FAKE_GO" in
fail) echo "main.go:1: undefined: x" >&2; exit 1 ;;
full) echo "write /x: no space left on device" >&2; exit 1 ;;
offline) echo "dial tcp: lookup proxy.example: no such host" >&2; exit 1 ;;
refused) echo "reading https://proxy.example/x: 403 Forbidden" >&2; exit 1 ;;
hang) echo $$ >"$FAKE_PID"; exec sleep 60 ;;
nothing) exit 0 ;;
esac
sleep "${FAKE_SECONDS:-0}"
cp "$FAKE_PROGRAM" "$GOBIN/gadget"
chmod +x "$GOBIN/gadget"
"""

UV = """\
#!/bin/sh
echo "uv $1 $2" >>"$FAKE_LOG"
for last; do :; done
if [ "$1" = venv ]; then
    mkdir -p "$last/bin" && cp /bin/sh "$last/bin/python"
    exit 0
fi
case "$FAKE_UV" in
hash) echo "Hash mismatch for widget==2.0.0" >&2; exit 1 ;;
hang) exec sleep 60 ;;
go)
    place=$(dirname "$(dirname "$last")")/lib/python3.11/site-packages/go/bin
    mkdir -p "$place" && cp "$(dirname "$0")/go" "$place/go"
    exit 0
    ;;
esac
bin=$(dirname "$last")
printf '#!%s\\necho widget 2.0.0\\n' "$last" >"$bin/widget"
chmod +x "$bin/widget"
"""

PINS = {
    "toolchain": {"go": "1.26.6", "requirements": "go.txt"},
    "tools": {
        "gadget": {
            "kind": "go",
            "version": "1.5.0",
            "package": PACKAGE,
            "go": "1.25",
            "checksum": CHECKSUM,
            "needed_by": ["e2"],
        },
        "widget": {"kind": "pypi", "version": "2.0.0", "requirements": "widget.txt", "needed_by": ["e2"]},
    },
}


def pins() -> Pins:
    """A Go tool and a Python tool."""
    return Pins.model_validate(PINS)


def script(place: Path, text: str) -> Path:
    """An executable file."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text, encoding="utf-8")
    place.chmod(0o755)
    return place


def go_program(
    *,
    package: str = PACKAGE,
    version: str = "v1.5.0",
    checksum: str = CHECKSUM,
    go: str = "go1.26.8",
    shell: str = "echo gadget development",
    padding: int = 0,
) -> bytes:
    """A shell script that carries what Go's linker writes into a program."""
    module = f"mod\texample.test/gadget\t{version}\t{checksum}\n" if version else ""
    lines = f"path\t{package}\n{module}build\t-trimpath=true\n"
    text = b"\x01" * 16 + lines.encode() + b"\x02" * 16
    head = f"#!/bin/sh\n{shell}\nexit\n".encode()
    head += b"\x00" * (-len(head) % 16) + b"\x00" * 16 * padding
    header = b"\xff Go buildinf:" + bytes([8, 2]) + b"\x00" * 16
    return (
        head
        + header
        + varint(len(go))
        + go.encode()
        + varint(len(text))
        + text
        + b"\nmod\tafter\tv9.9.9\th1:end\n" * 40
    )


def varint(number: int) -> bytes:
    """A number seven bits a byte, lowest first."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


class Watcher:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.outcomes: list[Outcome] = []
        self.waited = 0

    def begin(self, name: str, version: str | None, doing: str) -> None:
        self.steps.append(f"{name}: {doing}")

    def end(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)

    def wait(self) -> None:
        self.waited += 1


class World:
    """A tools folder, a PATH with the stand-ins, and the variables that steer them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root, self.requirements = folder, folder / "tools", folder / "requirements"
        self.requirements.mkdir(parents=True)
        for name in ("widget.txt", "go.txt"):
            (self.requirements / name).write_text(f"{name}==2.0.0\n", encoding="utf-8")
        script(folder / "bin" / "go", GO)
        script(folder / "bin" / "uv", UV)
        (folder / "program").write_bytes(go_program())
        self.log = folder / "log"
        self.log.touch()
        self.env = {
            "PATH": f"{folder / 'bin'}:/usr/bin:/bin",
            "FAKE_LOG": str(self.log),
            "FAKE_PROGRAM": str(folder / "program"),
            "FAKE_PID": str(folder / "pid"),
        }

    def calls(self, word: str) -> int:
        """How many calls of the stand-ins had this word in them."""
        return sum(word in line for line in self.log.read_text(encoding="utf-8").splitlines())
