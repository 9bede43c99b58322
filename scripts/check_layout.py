"""House rules that no linter knows: file length, and nothing in the tree that must not be published."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LONGEST_FILE = 400
LOCKED = re.compile(r"--(?:index-url|extra-index-url|find-links)|https?://")


def main() -> int:
    """Print each breach; 1 if there is one."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    breaches = []
    for name in listed.splitlines():
        path = ROOT / name
        if path.suffix == ".py" and path.is_file():
            lines = path.read_text(encoding="utf-8").count("\n")
            if lines > LONGEST_FILE:
                breaches.append(f"{name}: {lines} lines, at most {LONGEST_FILE}")
        if name.startswith("requirements/") and LOCKED.search(path.read_text(encoding="utf-8")):
            breaches.append(f"{name}: holds a download address")
        if path.name in ("uv.lock", ".env"):
            breaches.append(f"{name}: must not be committed")
    print("\n".join(breaches) or "ok")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
