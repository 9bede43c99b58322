#!/usr/bin/env bash
# Format, lint, types, import layers, docs' promises, audits, regression gate. Stops at the first that fails and says which.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=.venv/bin
step() { # NAME COMMAND...
    local name=$1
    shift
    printf '%-14s' "$name"
    if output=$("$@" 2>&1); then echo ok; else
        echo "FAILED: $*"
        echo "$output"
        exit 1
    fi
}
step format "$bin/ruff" format --check .
step lint "$bin/ruff" check .
step types "$bin/mypy"
step layers "$bin/lint-imports"
step layout "$bin/python" scripts/check_layout.py
for alias in $("$bin/python" -c 'from sv_shared.environment import installed; print(*installed())'); do
    step "audit $alias" "$bin/sv" audit "$alias"
done
step gate "$bin/sv" baseline check
