#!/usr/bin/env bash
# Makes .venv/ with ARTOS and everything it needs. Run it again at any time: once done, it is fast.
# TORCH_INDEX=URL takes PyTorch from that package index.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

torch=2.13.0
with_cuda="2.7 GB" # of the version above with all its dependencies, for x86-64
without_cuda="0.2 GB"

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# The first Python that has a right version, can make environments and really starts (a version
# manager's shim may not start).
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

# On Debian, venv is a separate package.
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
    { pwd; cat pyproject.toml constraints.txt deploy/setup/setup.sh; } | sha256sum | cut -d' ' -f1
}

is_done() {
    [ "$(cat .venv/.stamp 2>/dev/null)" = "$(fingerprint)" ] && torch_is_wanted &&
        .venv/bin/python -c '' 2>/dev/null
}

# Whether the installed PyTorch came from TORCH_INDEX, if that is set.
torch_is_wanted() {
    [ -z "${TORCH_INDEX-}" ] || [ "$TORCH_INDEX" = "$(cat .venv/.torch-index 2>/dev/null)" ]
}

torch_is_installed() {
    torch_is_wanted && .venv/bin/python -c "
from importlib.metadata import version
raise SystemExit(version('torch').partition('+')[0] != '$torch')" 2>/dev/null
}

# Runs pip: with its progress bars in a terminal, else with one line for each large download.
pip_install() {
    local pip=(.venv/bin/python -m pip --disable-pip-version-check install -c constraints.txt)
    if [ -t 1 ]; then
        "${pip[@]}" "$@"
    else
        "${pip[@]}" --progress-bar off "$@" |
            sed -un 's/^ *\(Downloading .* [MG]B)\|Installing collected packages\).*/setup:   \1/p' >&2
    fi
}

# Asks the wheel that pip would take for its dependencies. An index that only sends whole files is
# too slow to wait for; the answer is then yes, as most indexes have CUDA wheels for x86-64.
needs_cuda() {
    local report index=()
    [ "$(uname -m)" = x86_64 ] || return 1
    [ -z "${TORCH_INDEX-}" ] || index=(-i "$TORCH_INDEX")
    report=$(timeout 20 .venv/bin/python -m pip --disable-pip-version-check install --quiet \
        --dry-run --no-deps --ignore-installed --report - "${index[@]}" "torch==$torch" 2>/dev/null) ||
        return 0
    grep -Eq '"(nvidia|cuda)-' <<<"$report"
}

has_gpu() { compgen -G '/dev/nvidia[0-9]*' >/dev/null || nvidia-smi -L >/dev/null 2>&1; }

announce_torch() {
    say "checking which PyTorch $torch is available"
    if ! needs_cuda; then
        say "installing PyTorch $torch for CPUs: $without_cuda to download"
    elif has_gpu; then
        say "installing PyTorch $torch with CUDA: $with_cuda to download (there is a GPU here)"
    else
        say "installing PyTorch $torch with CUDA: $with_cuda to download, and there is no GPU here"
        say "  for CPUs it is $without_cuda: press Ctrl-C, then make setup TORCH_INDEX=URL, where URL"
        say "  is the package index with PyTorch for CPUs that its own site names"
    fi
}

# Dependencies are installed with the rest: PyTorch's index may lack the versions pinned here.
install_torch() {
    ! torch_is_installed || return 0
    announce_torch
    if [ -n "${TORCH_INDEX-}" ]; then
        pip_install --no-deps --force-reinstall -i "$TORCH_INDEX" "torch==$torch" || return
        echo "$TORCH_INDEX" >.venv/.torch-index
    else
        pip_install "torch==$torch"
    fi
}

install() {
    install_torch || return
    say "installing ARTOS and its tools"
    pip_install -e '.[atari,dev,elastic]'
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
    flock 9 # if two run at once, the second finds everything done
    is_done || make_environment
    exec 9>&-
fi
deploy/setup/criu.sh || true # it says what is missing; everything else works without
