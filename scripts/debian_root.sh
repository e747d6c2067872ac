# shellcheck shell=bash
# shellcheck disable=SC2154  # root and release are those of the script
# Roots of Debian releases, made with debootstrap, and commands in them. To be sourced by a script that has set `root` (where the root
# lies), `release` (its name) and `fail` (a function that prints its arguments and ends the script).

# Folders of this machine that a command in the root sees, and cannot write to: a line THERE=HERE for each.
export root_binds=

# Run in namespaces of mounts and of processes: a command in the root. This shell is the first process there and takes in orphans.
# shellcheck disable=SC2016  # the inner shell expands it
readonly inside='
  set -euo pipefail
  root=$1
  shift
  mount --bind "$root" "$root"
  mount -t proc proc "$root/proc"
  mount --rbind /sys "$root/sys"
  mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
  mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
  while IFS== read -r there here; do
    [ -n "$there" ] || continue
    mkdir -p "$root$there"
    mount --bind "$here" "$root$there"
    mount -o remount,bind,ro "$root$there"
  done <<<"$root_binds"
  mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts "$root/dev/pts"
  # Not chroot: who enters a namespace of mounts, as hosts made of namespaces do, gets the root of these.
  cd "$root"
  pivot_root . mnt
  umount --lazy /mnt
  code=0
  /usr/bin/env --ignore-environment --chdir=/muster HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin CCACHE_DIR=/ccache \
    ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} "$@" </dev/null || code=$?
  exit "$code"'

# Whatever ends this script ends them: the outer process dies with its parent, and the first one inside with the outer one.
own_namespaces=(setpriv --pdeathsig KILL unshare --mount --propagation private --pid --fork --kill-child)

in_root() {
  "${own_namespaces[@]}" bash -c "$inside" in_root "$root" "$@"
}

# The archive itself, not its updates, nor what others publish for the same release.
mirror() {
  local format="\$(REPO_URI)" filter=('Created-By: Packages' 'Origin: Debian' 'Label: Debian') uri
  if [ -n "${MUSTER_DEBIAN_MIRROR:-}" ]; then
    echo "$MUSTER_DEBIAN_MIRROR"
    return
  fi
  uri=$(apt-get indextargets --format "$format" "${filter[@]}" | sed -n 1p)
  if [ -z "$uri" ]; then  # apt knows what a source is once it has read its lists
    apt-get update >&2
    uri=$(apt-get indextargets --format "$format" "${filter[@]}" | sed -n 1p)
  fi
  echo "${uri:-http://deb.debian.org/debian}"
}

# The root as debootstrap leaves it, under its name only when it is complete.
make_root() {
  local from partial=$root.partial keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  [ ! -e "$root" ] || return 0
  scripts/install_deps.sh distribution
  from=$(mirror)
  echo "$release from ${from/\/\/*@//\/}"  # without a password
  rm -rf "$partial"
  mkdir -p "$partial"
  if ! http_proxy=${http_proxy:-$(apt-config dump --format '%v' Acquire::http::Proxy)} "${own_namespaces[@]}" \
    debootstrap --variant=minbase --include=ca-certificates --keyring="$keyring" "$release" "$partial" "$from" >"$partial.log" 2>&1; then
    tail -n 5 "$partial.log" >&2
    fail "debootstrap could not make a root of $release from $from: $partial.log says why, and so may $partial/debootstrap/debootstrap.log." \
      "Another mirror is named by MUSTER_DEBIAN_MIRROR=http://HOST/debian."
  fi
  # How this machine reaches its mirrors, and how old they may be.
  apt-config dump | grep -E '^Acquire::(Check-Valid-Until|Check-Date|https?::([^:]+::)?Proxy) ' >"$partial/etc/apt/apt.conf.d/90host" || true
  printf '#!/bin/sh\nexit 101\n' >"$partial/usr/sbin/policy-rc.d"  # a package that is installed starts nothing
  chmod +x "$partial/usr/sbin/policy-rc.d"
  mv "$partial" "$root"
}

# Names as this machine resolves them.
copy_names() {
  cp /etc/hosts /etc/resolv.conf "$root/etc/"
}

# Ends the script where no root can be made or entered.
check_root_can_be() {
  [ "$(id --user)" -eq 0 ] || fail "chroot and debootstrap need root: run it with sudo."
  command -v apt-get >/dev/null || fail "this machine has no apt-get, of which the mirror and debootstrap are taken: run it on Debian or Ubuntu."
  "${own_namespaces[@]}" true 2>/dev/null ||
    fail "this root may make no namespaces of mounts and processes: run it on a machine or in a privileged container, not in a plain one."
  mkdir -p build
  exec {root_lock}>"$root.lock"
  flock --nonblock "$root_lock" || fail "another run uses $root: wait until it has ended."
}
