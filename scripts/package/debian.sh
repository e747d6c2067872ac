# shellcheck shell=bash
# shellcheck disable=SC2154  # release, version and fail are those of the script
# Packages of Debian, and their trial. To be sourced by scripts/package.sh.

case "$release" in
  bookworm) number=12 ;;
  trixie) number=13 ;;
esac
results=$PWD/build/deb/$release
# A release that is upgraded takes the packages of the next one for newer.
deb_version=$version-${MUSTER_DEB_REVISION:-1}~deb$number
maintainer="${DEBFULLNAME:-Muster maintainers} <${DEBEMAIL:-maintainers@users.noreply.github.com}>"

# minimal_root DIRECTORY: what debootstrap makes of the release.
minimal_root() {
  local root=$1
  check_root_can_be
  make_root
  exec {root_lock}>&-
}

# use_root NAME: what follows happens in build/NAME, which is a copy of a minimal root if there is none.
use_root() {
  local minimal=$PWD/build/root-$release-minimal
  root=$PWD/build/$1
  check_root_can_be
  if [ ! -e "$root" ]; then
    minimal_root "$minimal"
    rm -rf "$root.partial"
    cp --archive --reflink=auto "$minimal" "$root.partial"
    mv "$root.partial" "$root"
  fi
  copy_names
  mkdir -p "$root/muster"  # where commands are run
}

# logged WHAT COMMAND...: its output goes to WHAT.log; of what failed the errors are shown.
logged() {
  local what=$1 log=$results/$1.log
  shift
  "$@" >>"$log" 2>&1 || {
    grep --extended-regexp --after-context=8 'error:|CMake Error|FAILED:|^dh_[a-z]*:|^E: ' "$log" | head -n 60 >&2 || tail -n 20 "$log" >&2
    fail "$what failed on $release: $log has all of it."
  }
}

# in_sources COMMAND...: in the folder where the packages are built.
in_sources() {
  # shellcheck disable=SC2016  # the inner shell expands it
  in_root SOURCE_DATE_EPOCH="$SOURCE_DATE_EPOCH" MUSTER_COMMIT="$commit" DEB_BUILD_OPTIONS="parallel=$(nproc)" \
    sh -c 'cd /deb/muster && exec "$@"' in_sources "$@"
}

# shellcheck source=scripts/copy_sources.sh
. scripts/copy_sources.sh

# The sources, with the folder debian beside them.
make_sources() {
  local debian=$root/deb/muster/debian
  rm -rf "$root/deb"
  mkdir "$root/deb"
  copy_sources "$root/deb/muster"
  mkdir -p "$root/deb/muster/build/cuda"
  cp --recursive --dereference build/cuda/include "$root/deb/muster/build/cuda/"
  cp --recursive scripts/package/debian "$debian"
  sed --in-place "s|@MAINTAINER@|$maintainer|" "$debian/control"
  cat >"$debian/changelog" <<TEXT
muster ($deb_version) $release; urgency=medium

  * Version $version${commit:+, commit $commit}. What it changes for users is in
    /usr/share/doc/muster/changelog.gz.

 -- $maintainer  $(LC_ALL=C date --utc --rfc-email --date="@$SOURCE_DATE_EPOCH")
TEXT
}

# give_back: what lies in build, but for the roots, belongs to whoever owns the clone, not to root.
give_back() {
  chown --reference=. build
  chown --recursive --reference=. build/cuda build/deb 2>/dev/null || true  # as far as they are there
}

build_packages() {
  local commit file errors
  check_deb_version
  scripts/install_deps.sh distribution
  fetch_headers
  use_root "root-$release-build"
  commit=$(GIT_OPTIONAL_LOCKS=0 git describe --always --dirty --abbrev=12 '--exclude=*' 2>/dev/null || true)
  make_sources
  rm -rf "$results"
  mkdir -p "$results"
  logged dependencies in_root apt-get update
  # shellcheck disable=SC2016  # the inner shell expands it
  logged dependencies in_root sh -c 'apt-get build-dep --yes --no-install-recommends "$@" && apt-get clean' dependencies /deb/muster
  logged dependencies in_root sh -c 'apt-get install --yes --no-install-recommends ccache lintian && apt-get clean'
  logged build in_sources dpkg-buildpackage --build=binary --no-sign --no-check-builddeps --no-pre-clean
  cp "$root"/deb/*.deb "$root"/deb/*.changes "$root"/deb/*.buildinfo "$results/"
  for file in "$results"/*.deb; do
    printf '%s: %d bytes\n' "${file#"$PWD/"}" "$(stat --format %s "$file")"
  done
  in_root sh -c 'lintian --allow-root --tag-display-limit 0 --show-overrides --fail-on none /deb/*.changes' >"$results/lintian.log" 2>&1 ||
    fail "lintian could not be run on $release: $results/lintian.log says why."
  errors=$(grep --count '^E: ' "$results/lintian.log" || true)
  printf 'lintian: %d errors, %d warnings, %d overrides (%s)\n' "$errors" "$(grep --count '^W: ' "$results/lintian.log" || true)" \
    "$(grep --count '^O: ' "$results/lintian.log" || true)" "${results#"$PWD/"}/lintian.log"
  [ "$errors" -eq 0 ] || {
    grep '^E: ' "$results/lintian.log" >&2
    fail "lintian finds errors in the packages for $release."
  }
}

# check_deb_version: what Debian's policy says of a version, before anything is built.
check_deb_version() {
  [[ ${MUSTER_DEB_REVISION:-1} =~ ^[0-9][0-9A-Za-z.+~]*$ ]] ||
    fail "MUSTER_DEB_REVISION is '$MUSTER_DEB_REVISION'; a revision begins with a digit and has letters, digits, and . + ~ only."
  [[ $maintainer =~ ^[^\<\>\|]+\ \<[^\ \<\>@\|]+@[^\ \<\>@\|]+\>$ ]] || fail "DEBFULLNAME and DEBEMAIL give '$maintainer', and are to be a name and an address."
  [[ $maintainer != *[\&\\]* ]] || fail "DEBFULLNAME and DEBEMAIL give '$maintainer': & and \\ cannot be in it."
}

# next_version: the next higher one, of as many characters: it takes the place of ours in a program.
next_version() {
  local next=${version%.*}.$((${version##*.} + 1))
  [ ${#next} -eq ${#version} ] || fail "the version after $version has other characters than it in number, and cannot be put in its place."
  echo "$next"
}

# make_next DIRECTORY: the same packages as another version would be, each file new on the disk: muster says the other number of itself, too.
# It stands in its program as text, which is replaced there.
make_next() {
  local next
  next=$(next_version)
  mkdir -p "$1"
  # shellcheck disable=SC2016  # the inner shell expands it
  logged next in_root LC_ALL=C sh -c '
    set -eu
    rm -rf /deb/next
    mkdir /deb/next
    for deb in /deb/muster_*.deb /deb/libmuster*.deb; do
      case $deb in *-dbgsym_*) continue ;; esac
      tree=/deb/next/tree
      rm -rf $tree
      dpkg-deb --raw-extract "$deb" $tree
      sed -i "s/\\b$1-/$2-/g" $tree/DEBIAN/control
      [ ! -e $tree/usr/bin/muster ] || sed -i "s/$1/$2/g" $tree/usr/bin/muster
      (cd $tree && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
      dpkg-deb --build $tree /deb/next
    done' next "${version//./\\.}" "$next"
  cp "$root"/deb/next/*.deb "$1/"
}

# try_packages: in a root that has what debootstrap installs, and nothing else.
try_packages() {
  local built=$root
  rm -rf "$PWD/build/root-$release-trial"
  make_next "$results/next"
  use_root "root-$release-trial"
  mkdir "$root/muster/tests"
  cp --recursive tests/support "$root/muster/tests/"
  cp "$results"/*.deb scripts/package/try_*.py scripts/package/try_deb.sh tests/e2e/ssh_start/fake_ssh.sh "$root/muster/"
  rm -f "$root"/muster/*-dbgsym_*.deb
  cp --recursive "$results/next" tests/consumer/project "$root/muster/"
  in_root bash /muster/try_deb.sh "$version" "$(next_version)" | tee "$results/trial.log"
  root=$built
}
