#!/bin/sh
# Makes this machine part of a cluster, now and after every boot:
#   sudo deploy/launchers/systemd/install.sh head tcp://IP:PORT KEYS_DIR [RUNS_DIR]
#   sudo deploy/launchers/systemd/install.sh worker tcp://IP:PORT KEYS_DIR [FLAGS...]
# With IMAGES=yes a worker has actors as images, clones and moves of them, without root: CRIU is set up
# in /opt/artos. What runs there has rights over what is this user's own, and over nothing else.
# Needs the .venv of `make setup`. The service runs as the user who called sudo. Existing files in
# /etc/artos are not overwritten, so changes there stay.
set -eu

fail() { echo "install.sh: $*" >&2; exit 2; }

[ $# -ge 3 ] || fail "give head or worker, tcp://IP:PORT and the folder of keys"
role=$1 head=$2 keys=$(realpath "$3")
shift 3
here=$(dirname "$(realpath "$0")")
artos=${ARTOS:-$(realpath "$here/../../..")/.venv/bin/artos}
user=${SUDO_USER:-$(id -un)}
images=${IMAGES:-no} criu=${ARTOS_CRIU:-}
units=${UNITS:-/etc/systemd/system} etc=${ETC:-/etc/artos}

[ -x "$artos" ] || fail "there is no $artos: run make setup"
[ -f "$keys/head.key" ] || fail "$keys holds no keys: run artos keys $keys on the head, and copy what it says"
mkdir -p "$etc"

case $role in
head)
    runs=${1:-$(dirname "$keys")/runs}
    [ -e "$etc/head.toml" ] || cat >"$etc/head.toml" <<END
listen = "$head"
keys = "$keys"
runs = "$runs"
END
    ;;
worker)
    if [ "$images" = yes ]; then
        [ -n "$criu" ] || ARTOS_CACHE=/opt/artos "$artos" setup criu || fail "there is no CRIU here"
        [ -n "$criu" ] || criu=$(ls -d /opt/artos/criu-*/bin/criu | tail -1)
    fi
    [ -e "$etc/worker.env" ] || cat >"$etc/worker.env" <<END
ARTOS_HEAD=$head
ARTOS_KEYS=$keys
WORKER_FLAGS=$*
END
    [ "$images" != yes ] || grep -q ^ARTOS_CRIU= "$etc/worker.env" ||
        echo "ARTOS_CRIU=$criu" >>"$etc/worker.env"
    ;;
*) fail "give head or worker, not $role" ;;
esac

sed -e "s|@ARTOS@|$artos|" -e "s|@USER@|$user|" "$here/artos-$role.service" \
    >"$units/artos-$role.service"
[ -n "${UNITS:-}" ] || systemctl daemon-reload
[ -n "${UNITS:-}" ] || systemctl enable --now "artos-$role.service"
echo "artos-$role runs as $user; its log: journalctl -u artos-$role"
