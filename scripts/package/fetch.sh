# shellcheck shell=bash
# To be sourced by a script that has sourced debian_root.sh.

# fetch_source PATH SUM FOLDER [ABOVE]: the sources of a package of Debian, by their path below pool/main and their SHA-256, into
# FOLDER/source. In the archive they lie below ABOVE folders (0).
fetch_source() {
  local path=$1 sum=$2 folder=$3 above=${4:-0} from file
  file=$folder/$(basename "$path")
  rm -rf "$folder"
  mkdir -p "$folder/source"
  from=$(mirror)
  http_proxy=${http_proxy:-$(apt-config dump --format '%v' Acquire::http::Proxy)} python3 - "${from%/}/pool/main/$path" "$file" <<'TEXT' ||
import sys
import urllib.request
with urllib.request.urlopen(sys.argv[1], timeout=60) as answer, open(sys.argv[2], "wb") as file:
    file.write(answer.read())
TEXT
    fail "$(basename "$path") cannot be fetched from Debian's mirror; MUSTER_DEBIAN_MIRROR=http://HOST/debian names another."
  sha256sum --status --check <<<"$sum  $file" || fail "$file is not the file that Debian has: its SHA-256 is not $sum."
  tar --extract --file "$file" --directory "$folder/source" --strip-components "$above"
}

# show_failure LOG: the errors in the log of a build, or its end.
show_failure() {
  grep --extended-regexp --max-count=5 --after-context=8 'error:|CMake Error|FAILED:' "$1" >&2 || tail -n 20 "$1" >&2
}
