# shellcheck shell=bash
# shellcheck disable=SC2154  # out and tools are those of the script
# The tarball, and its trial. To be sourced by scripts/package.sh.

# write_tarball: from what the wheel is made of; prints its path.
write_tarball() {
  rm -rf build/tarball
  python3 scripts/package/tarball.py "$out/stage" . "$tools"/venv/lib/python3*/site-packages/ziglang/lib build/tarball
}

# check_tarball TARBALL: unpacked into a folder whose name has a blank, and moved to another one; nothing of it is written to.
check_tarball() {
  local folder=$PWD/build/tarball/check first there
  mkdir -p "$folder"
  first="$folder/a first place"
  there="$folder/the second/$(basename "$1" .tar.gz)"
  mkdir -p "$first" "$(dirname "$there")"
  timed 'unpacking' tar --extract --file "$1" --directory "$first"
  try_unpacked "$first/$(basename "$there")"
  mv "$first/$(basename "$there")" "$there"
  chmod --recursive a-w "$there"
  try_unpacked "$there"
  timed 'programs in C and C++' check_sdk "$there" "$folder/programs"
  chmod --recursive u+w "$there"
}

# try_unpacked THERE: as a user who has followed the file README there.
try_unpacked() {
  PATH=$1/bin:$PATH PYTHONPATH=$1/python PYTHONDONTWRITEBYTECODE=1 timed "jobs in $1" /usr/bin/python3 scripts/package/try_installed.py "$1" "$1/lib"
}
