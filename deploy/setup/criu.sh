#!/usr/bin/env bash
# Installs a CRIU that works on this machine, its Python binding and numactl. Run it as often as you
# like: once done, it ends at once. Without CRIU everything but checkpoints works. If it cannot be
# installed, the script says why, keeps that for `artos doctor`, and ends with status 1; on the same
# machine it only tries again with --again. It installs into the .venv of this clone, or
# (`artos setup criu`) for the Python and into the folder that ARTOS_PYTHON and ARTOS_PACKAGES name.
# For an image, --into FOLDER puts bin/criu and pycriu's wheel there and installs nothing else: whoever
# builds an image may not checkpoint, and it runs on other kernels.
set -euo pipefail
[ -n "${ARTOS_PYTHON-}" ] || cd "$(dirname "${BASH_SOURCE[0]}")/../.."

into=
[ "${1-}" != --into ] || into=${2:?the folder}
least=4.1 # older versions do not know how kernels since 6.13 lay out the vDSO
suites=(trixie forky sid) # Debian suites with a source package that is new enough
cache=${ARTOS_CACHE:-${XDG_CACHE_HOME:-~/.cache}/artos}
# Where CRIU caches what it found out about the kernel (saves 25 ms a call). It insists on a tmpfs,
# and /run is not a tmpfs everywhere. workers/checkpoint/criu/find.py names this folder too.
features=/dev/shm/artos-criu
python=${ARTOS_PYTHON:-.venv/bin/python}
packages=${ARTOS_PACKAGES:-$(compgen -G '.venv/lib/python3*/site-packages' || echo .venv)}
stamp=$packages/.artos-criu
missing=$cache/criu-missing
log=$cache/criu-build.log
build_packages=(
    build-essential libbsd-dev libcap-dev libnet1-dev libnl-3-dev libprotobuf-c-dev libprotobuf-dev
    pkgconf protobuf-c-compiler protobuf-compiler python3 uuid-dev xz-utils
)
[ -z "$into" ] || build_packages+=(python3-pip python3-protobuf python3-setuptools python3-wheel)

say() { printf 'setup: %s\n' "$*" >&2; }

# fail REASON FIX: print both, keep them for `artos doctor`, remember the failure on this machine.
fail() {
    say "actors cannot be checkpointed here: $1"
    say "  to change that: $2"
    say "  everything else works; \`artos doctor\` repeats this"
    printf '%s\n' "$1" "$2" >"$missing"
    echo "failed $(fingerprint)" >"$stamp" || :
    exit 1
}

fingerprint() {
    { cat "${BASH_SOURCE[0]}"; uname -r; id -u; command -v criu || :
      echo "$cache ${ARTOS_CRIU-}"; } | sha256sum | cut -d' ' -f1
}

# The stamp's second line is the path of the CRIU that was found good.
is_done() {
    [ "$(sed -n 1p "$stamp" 2>/dev/null)" = "done $(fingerprint)" ] &&
        [ -x "$(sed -n 2p "$stamp")" ] &&
        [ -d "$packages/pycriu" ]
}

failed_before() {
    [ "$(cat "$stamp" 2>/dev/null)" = "failed $(fingerprint)" ] && [ -s "$missing" ]
}

# -- which CRIU --------------------------------------------------------------------------------

# Root's CRIU trusts what it reads in this folder.
make_features_folder() {
    [ "$(id -u)" != 0 ] || mkdir -m 700 "$features" 2>/dev/null ||
        { [ -d "$features" ] && [ ! -L "$features" ] && [ -O "$features" ]; } ||
        fail "$features belongs to another user" "rm -r $features && artos setup criu"
}

is_new_enough() {
    local version
    version=$("$1" --version 2>/dev/null | sed -n 's/^Version: //p') || return
    [ -n "$version" ] && printf '%s\n' "$least" "$version" | sort -V -C
}

# Whether a CRIU is new enough and, if run as root, passes its own check of this kernel.
is_good() {
    is_new_enough "$1" || return
    [ "$(id -u)" != 0 ] || "$1" check >/dev/null 2>&1
}

# The first good CRIU: only the one asked for, or those built before (newest first), the system's.
usable_criu() {
    local binary
    while read -r binary; do
        if [ -n "$binary" ] && is_good "$binary"; then
            echo "$binary"
            return
        fi
    done < <(
        if [ -n "${ARTOS_CRIU-}" ]; then
            echo "$ARTOS_CRIU"
        else
            compgen -G "$cache/criu-*/bin/criu" | sort -V -r
            command -v criu
        fi
    )
    return 1
}

# -- building ----------------------------------------------------------------------------------

is_debian() { command -v apt-get >/dev/null && grep -qx 'ID=debian' /etc/os-release; }

# Whether this is root with SYS_ADMIN, SYS_PTRACE and NET_ADMIN, which a container may lack, or a
# user who can have them in a user namespace of its own.
may_checkpoint() {
    local bits=$((1 << 21 | 1 << 19 | 1 << 12))
    local effective=$((16#$(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status)))
    if [ "$(id -u)" = 0 ]; then
        (((effective & bits) == bits))
    else
        unshare --user --map-current-user --mount --pid --fork --mount-proc true 2>/dev/null
    fi
}

# Those of the named packages that are not installed.
absent() {
    local package
    for package; do
        dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
            echo "$package"
    done
}

apt_install() {
    apt-get update -qq &&
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
            -o DPkg::Lock::Timeout=120 "$@"
}

need_packages() {
    local lacking
    lacking=$(absent "${build_packages[@]}" | xargs)
    [ -n "$lacking" ] || return 0
    say "installing the packages that CRIU is built with ($log)"
    # shellcheck disable=SC2086
    apt_install $lacking >"$log" 2>&1 || fail \
        "apt-get could not install the packages that CRIU is built with: $(last_error)" \
        "apt-get update && apt-get install $lacking && artos setup criu"
}

last_error() { grep -E '^(E:|Err:|.*[Ee]rror)' "$log" | tail -1 || :; }

# The mirror that this machine's apt sources name for its release.
mirror() {
    local release
    release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' |
        awk -v own="$release" '$1 == own || $1 ~ /^((old)?stable|testing|unstable|sid)$/ {
            print $2; exit }'
}

# Runs apt with its own sources and lists; the system's are not touched.
private_apt() {
    apt-get -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null \
        -o Dir::State::Lists="$work/lists" -o Dir::Cache="$work/cache" \
        -o APT::Sandbox::User="$(id -un)" -qq "$@"
}

# Downloads criu_VERSION.orig.tar.xz into the work folder; apt checks Debian's signatures.
fetch_source() {
    local suite site tar keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    site=$(mirror) || return
    [ -n "$site" ] || { echo "E: the apt sources name no Debian release"; return 1; }
    mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
    for suite in "${suites[@]}"; do
        echo "deb-src [signed-by=$keyring] $site $suite main" >"$work/sources.list"
        private_apt update || continue
        (cd "$work" && private_apt source --download-only --tar-only criu) || continue
        tar=$(compgen -G "$work/criu_*.orig.tar.*" | grep -v '\.asc$') || continue
        version=${tar##*/criu_}
        version=${version%.orig.tar.*}
        printf '%s\n' "$least" "$version" | sort -V -C && return
        rm -f "$tar"
    done
    return 1
}

# Builds without the libraries for encrypted images and firewalls: each call starts 1.3 ms sooner.
compile() {
    # Without the flags that an outer make passes on to an inner one.
    local make=(env -u MAKEFLAGS -u MFLAGS make -C "$work/source" -j"$(nproc)"
        RUNDIR="$features" WERROR=0 NO_GNUTLS=1 LIB_NFTABLES=-lnone)
    mkdir "$work/source" "$work/kept" "$work/kept/bin"
    tar -xf "$work"/criu_*.orig.tar.* -C "$work/source" --strip-components=1 &&
        "${make[@]}" criu/criu && "${make[@]}" lib &&
        install -s -m 755 "$work/source/criu/criu" "$work/kept/bin/criu" &&
        "$python" -m pip --disable-pip-version-check wheel --no-deps --no-index \
            --no-build-isolation -w "$work/kept" "$work/source/lib"
}

elsewhere() {
    echo "install CRIU from $least on, its Python binding and numactl" \
        "(Fedora: dnf install criu python3-criu numactl;" \
        "Ubuntu: add-apt-repository ppa:criu/ppa && apt-get install criu python3-pycriu numactl)," \
        "or build CRIU and name it in ARTOS_CRIU; then artos setup criu"
}

build() {
    is_debian || fail "there is no CRIU from $least on that passes \`criu check\`" "$(elsewhere)"
    [ -n "$into" ] || may_checkpoint || fail "CRIU needs root, or user namespaces" \
        "as root: artos setup criu, and from then on artos (a container: --user root --privileged)"
    need_packages
    rm -rf "$cache"/building.*
    work=$(mktemp -d "$cache/building.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    say "fetching CRIU's source from this machine's Debian mirror"
    fetch_source >"$log" 2>&1 || fail "CRIU's source could not be fetched: $(last_error)" \
        "check the network and the apt sources ($log), then artos setup criu"
    say "building CRIU $version, once for this user (half a minute)"
    compile >>"$log" 2>&1 || fail "building CRIU $version failed: $(last_error)" \
        "read $log, then artos setup criu"
    rm -rf "$cache/criu-$version"
    mv "$work/kept" "$cache/criu-$version"
}

# Copies the newest CRIU that was built before and starts here, else one that is built now.
put_into() {
    local built
    built=$(built_before) || { build; built=$cache/criu-$version; }
    mkdir -p "$1"
    cp -r "$built/." "$1"
}

built_before() {
    local binary
    while read -r binary; do
        ! is_new_enough "$binary" || { echo "${binary%/bin/criu}"; return; }
    done < <(compgen -G "$cache/criu-*/bin/criu" | sort -V -r)
    return 1
}

# -- the Python binding ------------------------------------------------------------------------

imports_binding() { "$python" -W error -c 'import pycriu' 2>>"$log"; }

# Installs the wheel built with CRIU; for a distribution's CRIU, links to its own pycriu.
install_binding() {
    local wheel folder
    if wheel=$(compgen -G "${1%/bin/criu}/pycriu-*.whl"); then
        "$python" -m pip --disable-pip-version-check install --quiet --no-deps --no-index \
            --force-reinstall "$wheel" 2>>"$log" || return
    elif folder=$(python3 -c 'import pycriu; print(*pycriu.__path__)' 2>>"$log"); then
        ln -sfn "$folder" "$packages/"
    fi
    imports_binding
}

# `make setup` has installed these; an ARTOS that pip installed may lack them, or have a setuptools
# that makes no wheels by itself.
need_python_packages() {
    "$python" -c 'import google.protobuf; from setuptools.command import bdist_wheel' 2>/dev/null ||
        "$python" -m pip --disable-pip-version-check install --quiet protobuf 'setuptools>=70.1' \
            2>>"$log" || fail "protobuf cannot be installed: $(tail -1 "$log")" "artos setup criu"
}

# -- numactl -----------------------------------------------------------------------------------

# Without numactl actors are not pinned; `artos doctor` reports that, so this does not fail.
install_numactl() {
    if ! command -v numactl >/dev/null && is_debian && [ "$(id -u)" = 0 ]; then
        say "installing numactl"
        apt_install numactl >"$log" 2>&1 || say "apt-get could not install numactl: $(last_error)"
    fi
}

# -- main ------------------------------------------------------------------------------------

if [ -n "$into" ]; then
    mkdir -p "$cache"
    put_into "$into"
    exit
fi
is_done && exit 0
if [ "${1-}" != --again ] && failed_before; then
    say "still not possible: checkpointing actors (\`artos doctor\` says why)"
    exit 1
fi
[ -x "$python" ] || { say "there is no $python: run \`make setup\`"; exit 1; }
mkdir -p "$cache"
exec 8>"$cache/.lock"
flock 8 # if two run at once, the second finds everything done
is_done && exit 0

[ -w "$packages" ] || fail "$packages, where its Python binding goes, cannot be written" \
    "artos setup criu as its owner, or install ARTOS into an environment of your own"
make_features_folder
install_numactl
need_python_packages
binary=$(usable_criu) && install_binding "$binary" || {
    [ -z "${ARTOS_CRIU-}" ] || fail \
        "ARTOS_CRIU=$ARTOS_CRIU does not work here (\`$ARTOS_CRIU check\`), or has no pycriu" \
        "unset ARTOS_CRIU, then artos setup criu"
    build
    binary=$(usable_criu) || fail "CRIU $version was built but \`criu check\` complains" \
        "run $cache/criu-$version/bin/criu check"
    install_binding "$binary" || fail "pycriu does not import: $(tail -1 "$log")" "artos setup criu"
}
rm -f "$missing"
printf '%s\n' "done $(fingerprint)" "$binary" >"$stamp"
say "CRIU: $binary"
