#!/usr/bin/env bash
# Print the path of a uv binary; bootstrap a pinned one into the private folder .tools when none is on PATH.
set -euo pipefail
cd "$(dirname "$0")/.."
if command -v uv >/dev/null 2>&1; then
    command -v uv
    exit 0
fi
private=$PWD/.tools/uv
if [ ! -x "$private/bin/uv" ]; then
    echo "uv: not found on PATH, installing it into .tools/uv" >&2
    rm -rf "$private"
    "${PYTHON:-python3}" -m venv "$private" >&2 || {
        echo "setup: python3 -m venv failed. Install it (Debian: apt-get install python3-venv) and run make again." >&2
        exit 2
    }
    "$private/bin/python" -m pip install --quiet --require-hashes -r requirements/uv.txt >&2
fi
echo "$private/bin/uv"
