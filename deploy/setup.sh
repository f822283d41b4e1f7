#!/usr/bin/env bash
# Makes .venv/ with ARTOS and everything it needs. Run again at will: done already means instant.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# The first Python that is new enough, can make environments and really starts (a version
# manager's shim may not).
usable_python() {
    local name check='import sys, ensurepip, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))'
    for name in python3.13 python3.12 python3.11 python3 /usr/bin/python3; do
        if "$name" -c "$check" >/dev/null 2>&1; then
            command -v "$name"
            return
        fi
    done
    return 1
}

# On Debian the module venv is a package of its own.
install_venv() {
    command -v apt-get >/dev/null || die "Python 3.11 to 3.13 with venv is needed; install it and run this again"
    [ "$(id -u)" = 0 ] || die "Python 3.11 with venv is needed: sudo apt-get install python3 python3-venv"
    say "installing python3-venv with apt-get (Python comes without venv here)"
    apt-get update -qq &&
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
            python3 python3-venv >&2 ||
        die "apt-get failed: see the lines above"
}

fingerprint() {
    { pwd; cat pyproject.toml constraints.txt deploy/setup.sh; } | sha256sum | cut -d' ' -f1
}

is_done() {
    [ "$(cat .venv/.stamp 2>/dev/null)" = "$(fingerprint)" ] && .venv/bin/python -c '' 2>/dev/null
}

install() {
    local pip=(.venv/bin/python -m pip --disable-pip-version-check install --quiet -c constraints.txt)
    say "installing PyTorch (the largest part; some minutes)"
    "${pip[@]}" torch==2.13.0 || return
    say "installing ARTOS and its tools"
    "${pip[@]}" -e '.[atari,dev,elastic]'
}

make_venv() {
    local python
    python=$(usable_python) || { install_venv; python=$(usable_python); } ||
        die "there is still no Python 3.11 to 3.13 with venv; install one and run this again"
    say "making .venv with $("$python" --version) ($python)"
    find .venv -mindepth 1 -maxdepth 1 ! -name .lock -exec rm -rf {} +
    "$python" -m venv .venv
}

make_environment() {
    .venv/bin/python -c 'import pip' 2>/dev/null || make_venv
    install || die "installing failed: see the lines above (no network?), then run \`make setup\` again"
    fingerprint >.venv/.stamp
    say "done: .venv/bin/artos --help"
}

if ! is_done; then
    mkdir -p .venv
    exec 9>.venv/.lock
    flock 9 # two `make` at once: the second finds it done
    is_done || make_environment
    exec 9>&-
fi
deploy/criu.sh || true # it says what is missing; everything else works without
