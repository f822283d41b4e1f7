#!/bin/sh
# Makes this machine part of a cluster, now and after every boot:
#   sudo deploy/launchers/systemd/install.sh head tcp://IP:PORT KEYS_DIR [RUNS_DIR]
#   sudo deploy/launchers/systemd/install.sh worker tcp://IP:PORT KEYS_DIR [FLAGS...]
# With IMAGES=yes a worker has actors as images, clones and moves of them, without root: CRIU is set up
# in /opt/artos. What runs there has rights over what is this user's own, and over nothing else.
# Needs the .venv of `make setup`. The service runs as the user who called sudo. Existing files in
# /etc/artos are not overwritten, so changes there stay: it says which of its lines they do not have.
set -eu

fail() { echo "install.sh: $*" >&2; exit 2; }

# Writes the settings on standard input, or says what those that are there do not have of them.
settle() {
    [ -e "$settings" ] || { cat >"$settings"; return; }
    lacks=$(grep -vxF -f "$settings" || true)
    [ -z "$lacks" ] || {
        echo "install.sh: kept $settings, which does not say:"
        echo "$lacks"
        echo "if it should, edit it, then: systemctl restart artos-$role"
    } >&2
}

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
unit=$units/artos-$role.service
case $role in head) settings=$etc/head.toml ;; *) settings=$etc/worker.env ;; esac
before=$(cat "$unit" "$settings" 2>/dev/null || true)

case $role in
head)
    runs=${1:-$(dirname "$keys")/runs}
    settle <<END
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
    settle <<END
ARTOS_HEAD=$head
ARTOS_KEYS=$keys
WORKER_FLAGS=$*
END
    [ "$images" != yes ] || grep -q ^ARTOS_CRIU= "$settings" ||
        echo "ARTOS_CRIU=$criu" >>"$settings"
    ;;
*) fail "give head or worker, not $role" ;;
esac

sed -e "s|@ARTOS@|$artos|" -e "s|@USER@|$user|" "$here/artos-$role.service" >"$unit"
[ -n "${UNITS:-}" ] || systemctl daemon-reload
[ -n "${UNITS:-}" ] || systemctl enable --now "artos-$role.service"
echo "artos-$role runs as $user; its log: journalctl -u artos-$role"
[ -z "$before" ] || [ "$before" = "$(cat "$unit" "$settings")" ] ||
    echo "it goes on as it was until: systemctl restart artos-$role"
