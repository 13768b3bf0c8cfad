#!/usr/bin/env bash
# Tries the README's commands on a fresh Debian 12 that has only python3, make, git and
# ca-certificates. Needs root and debootstrap; run by hand:
#
#   tests/chroot/check.sh DIRECTORY [COMMAND...]
#
# DIRECTORY/base is the untouched system, made once; DIRECTORY/fresh is a copy for this run.
# The last commit is cloned into it, into a path with a space. First somebody who is not root
# must be shown the one apt line. Then root runs the COMMANDs (default: "make venv",
# "make test"), each twice: the second call must find everything in place. At last somebody who
# is not root runs the tests of the environment.
#
# A machine whose package sources need more than a resolver names it here, for this run only:
#   CHECK_COPY="/etc/pip.conf …"     files copied in at the same path
#   CHECK_ENV="PIP_CERT …"           variables passed on
#   CHECK_MIRROR=http://…            where debootstrap loads from
set -euo pipefail

directory=${1:?usage: tests/chroot/check.sh DIRECTORY [COMMAND...]}
shift
[ $# -gt 0 ] || set -- "make venv" "make test"
checkout=$(cd "$(dirname "$0")/../.." && pwd)
base=$directory/base
fresh=$directory/fresh
clone="/srv/a fresh clone"

say() { printf '\n== %s\n' "$*"; }

unmount() {
    for place in dev/shm dev/pts dev proc; do
        if mountpoint -q "$fresh/$place"; then umount "$fresh/$place"; fi
    done
}

# The environment is empty but for what the run was told to pass on.
inside() {
    local user=$1 command=$2 variables=() name
    for name in ${CHECK_ENV:-}; do variables+=("$name=${!name}"); done
    chroot "$fresh" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME="/tmp/home-$user" \
        LANG=C.UTF-8 "${variables[@]}" \
        setpriv --reuid="$user" --regid="$user" --clear-groups \
        sh -c "mkdir -p \$HOME && cd '$clone' && $command" </dev/null
}

if [ ! -e "$base/.complete" ]; then
    say "make the base system"
    rm -rf "$base"
    debootstrap --variant=minbase --include=python3,make,git,ca-certificates \
        bookworm "$base" "${CHECK_MIRROR:-http://deb.debian.org/debian}"
    touch "$base/.complete"
fi

say "a fresh copy of it"
unmount
rm -rf --one-file-system "$fresh"
cp -a "$base" "$fresh"
trap unmount EXIT
mount -t proc proc "$fresh/proc"
mount -t tmpfs -o mode=755 tmpfs "$fresh/dev"
for device in null zero full random urandom tty; do
    cp -a "/dev/$device" "$fresh/dev/$device"
done
mkdir "$fresh/dev/shm" "$fresh/dev/pts"
mount -t tmpfs tmpfs "$fresh/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$fresh/dev/pts"
ln -s pts/ptmx "$fresh/dev/ptmx"
ln -s /proc/self/fd "$fresh/dev/fd"
# No service may start in here; it would outlive the check.
printf '#!/bin/sh\nexit 101\n' >"$fresh/usr/sbin/policy-rc.d"
chmod +x "$fresh/usr/sbin/policy-rc.d"
cat >"$fresh/etc/apt/sources.list" <<SOURCES
deb ${CHECK_MIRROR:-http://deb.debian.org/debian} bookworm main
deb ${CHECK_MIRROR:-http://deb.debian.org/debian} bookworm-updates main
deb ${CHECK_MIRROR:-http://deb.debian.org/debian}-security bookworm-security main
SOURCES
for file in /etc/resolv.conf /etc/hosts ${CHECK_COPY:-}; do
    install -D --mode=644 "$file" "$fresh$file"
done
git clone -q --no-hardlinks "$checkout" "$fresh$clone"
chmod -R a+rX "$fresh$clone"
chroot "$fresh" git config --system --add safe.directory '*'

say "somebody who is not root is shown the one line"
refused() {
    local target=$1 packages=$2 message
    if message=$(inside 65534 "make $target" 2>&1); then
        echo "make $target passed without the packages" >&2
        return 1
    fi
    echo "$message"
    grep -q "apt-get install .* $packages\$" <<<"$message"
}
refused venv python3-venv
refused run python3-venv
refused test "python3-venv postgresql chromium bubblewrap systemd iproute2 faketime libatomic1"

for command in "$@"; do
    say "$command"
    time inside 0 "$command"
    say "$command, again"
    time inside 0 "$command"
done
say "with the packages there, nobody needs to be root"
chown -R 65534:65534 "$fresh$clone"
inside 65534 "make test ARGS='tests/test_environment.py'"
say "all passed"
