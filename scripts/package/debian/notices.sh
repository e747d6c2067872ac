#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: notices.sh PACKAGE CACHE PART...    run by debian/rules
# Gives a package the copyright files of those whose code is inside its programs, and its field Built-Using their versions. CACHE is the build's
# CMakeCache.txt.
set -eu
package=$1
cache=$2
shift 2

# first NAME...: the first package of these that is installed.
first() {
  for name in "$@"; do
    if [ -e "/usr/share/doc/$name/copyright" ]; then
      echo "$name"
      return
    fi
  done
  echo "notices.sh: there is no /usr/share/doc/$1/copyright, and what is linked in may not go without its licence" >&2
  return 1
}

parts=$(first "libstdc++-$(g++ -dumpversion)-dev")
for part in "$@"; do
  case "$part" in
    boost) parts="$parts $(first libboost1.81-dev libboost-dev)" ;;
    cli11) parts="$parts $(first libcli11-dev)" ;;
    fmt) parts="$parts $(first libfmt-dev)" ;;
    json) parts="$parts $(first nlohmann-json3-dev)" ;;
    openssl)
      parts="$parts $(first libssl-dev)"
      # Newer releases have an archive that needs those of two others.
      grep -q '^MUSTER_OPENSSL_IS_WHOLE:INTERNAL=1' "$cache" || parts="$parts $(first libzstd-dev) $(first zlib1g-dev)"
      ;;
    spdlog) parts="$parts $(first libspdlog-dev)" ;;
    *)
      echo "notices.sh: unknown part '$part'" >&2
      exit 2
      ;;
  esac
done

folder=debian/$package/usr/share/doc/$package/notices
mkdir -p "$folder"
for part in $parts; do
  cp "/usr/share/doc/$part/copyright" "$folder/$part.copyright"
  chmod 644 "$folder/$part.copyright"
done
# shellcheck disable=SC2086,SC2016  # one word each; dpkg-query expands it
using=$(dpkg-query --show --showformat='${source:Package} (= ${source:Version})\n' $parts | sort -u | paste -s -d ,)
echo "muster:Built-Using=$using" >>"debian/$package.substvars"
