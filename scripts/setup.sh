#!/usr/bin/env bash
# Make .venv hold exactly the pinned packages of the named requirement files, and this project's own packages.
# Usage: scripts/setup.sh base|local|dev ...    Safe to run again: an unchanged set-up returns in well under a second.
set -euo pipefail
cd "$(dirname "$0")/.."
# Trust what this machine trusts: behind a proxy with a certificate of its own uv's bundled list is not enough.
[ -d /etc/ssl/certs ] && export UV_SYSTEM_CERTS=${UV_SYSTEM_CERTS:-true}
files=()
for name in "$@"; do files+=("requirements/$name.txt"); done
members=(sv_shared environments/*/ .)

stamp=.venv/.setup-stamp
key=$(cat .python-version "${files[@]}" pyproject.toml sv_shared/pyproject.toml environments/*/pyproject.toml | sha256sum | cut -d' ' -f1)
if [ -x .venv/bin/sv ] && [ -f "$stamp" ] && grep -qx "$* $key" "$stamp"; then exit 0; fi

uv=$(bash scripts/uv.sh)
if [ ! -x .venv/bin/python ]; then
    wanted=$(cat .python-version)
    if ! "$uv" venv --quiet --no-python-downloads --python "$wanted" .venv 2>/dev/null; then
        # The pin names the version that CI runs; any supported one works, and the choice is said aloud.
        echo "setup: Python $wanted is not installed; using $("${PYTHON:-python3}" --version) instead" >&2
        "$uv" venv --quiet --no-python-downloads --python "${PYTHON:-python3}" .venv
    fi
fi
.venv/bin/python - <<'PY'
import sys
if not (3, 11) <= sys.version_info[:2] < (3, 14):
    sys.exit(f"setup: Python {sys.version.split()[0]} is not supported; install 3.11, 3.12 or 3.13, remove .venv and run make again")
PY
echo "setup: installing $* into .venv" >&2
export VIRTUAL_ENV=$PWD/.venv
requirements=(); for file in "${files[@]}"; do requirements+=(-r "$file"); done
"$uv" pip install --quiet --require-hashes "${requirements[@]}"
"$uv" pip install --quiet --require-hashes -r requirements/build.txt
editable=(); for member in "${members[@]}"; do editable+=(-e "${member%/}"); done
"$uv" pip install --quiet --no-deps --no-build-isolation "${editable[@]}"
.venv/bin/python -m compileall -q sv_shared security_verifiers environments >/dev/null
echo "$* $key" >>"$stamp"
