# shellcheck shell=bash
# To be sourced. copy_sources FOLDER: the sources of this tree into a folder of their own, what is not committed included, without their
# history. Times are kept, so that a second build compiles what has changed.
copy_sources() {
  rm -rf "$1"
  mkdir "$1"
  comm --zero-terminated -23 <(git ls-files -z --cached --others --exclude-standard | sort --zero-terminated --unique) \
    <(git ls-files -z --deleted | sort --zero-terminated --unique) |
    tar --create --null --verbatim-files-from --no-recursion --files-from=- |
    tar --extract --directory "$1" --no-same-owner
  if [ ! -e "$1/CMakeLists.txt" ]; then
    echo "copy_sources.sh: git names no sources in $PWD: it needs a clone that this user may read (git status says what it lacks)" >&2
    return 1
  fi
}
