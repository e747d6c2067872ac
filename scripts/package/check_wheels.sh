# shellcheck shell=bash
# shellcheck disable=SC2154  # out, tools and glibc are those of the script
# What the wheels ask of a system, and what they do in a virtual environment of this one. To be sourced by scripts/package.sh.

# elf_files FOLDER: the programs and libraries in it.
elf_files() { find "$1" -type f -exec sh -c 'head -c 4 "$1" | grep -q ELF' sh {} \; -print | sort; }

# check_symbols WHEEL: unpacks it; none of a newer glibc than its tag says.
check_symbols() {
  local wheel=$1 file newest files
  rm -rf "$out/unpacked"
  python3 -m zipfile -e "$wheel" "$out/unpacked"
  files=$(elf_files "$out/unpacked")
  while read -r file; do
    newest=$(objdump --dynamic-syms "$file" | grep --only-matching 'GLIBC_[0-9.]*' | sort --version-sort | tail -n 1)
    printf '%s: %s\n' "${file#"$out/unpacked/"}" "$newest"
    [ "$(printf 'GLIBC_%s\n%s\n' "$glibc" "$newest" | sort --version-sort | tail -n 1)" = "GLIBC_$glibc" ] ||
      fail "$file needs $newest, and the wheel says $glibc."
  done <<<"$files"
}

# check_needs WHEEL: what it asks of a system.
check_needs() {
  local wheel=$1 most=8388608 size
  size=$(stat --format %s "$wheel")
  printf '%s: %d bytes\n' "$(basename "$wheel")" "$size"
  [ "$size" -le "$most" ] || fail "$wheel has $size bytes and may have $most."
  "$tools/venv/bin/auditwheel" show "$wheel" | tee "$out/auditwheel.log"
  grep --quiet "platform tag: \"manylinux_${glibc/./_}_x86_64\"" <(tr '\n' ' ' <"$out/auditwheel.log") || fail "auditwheel finds another tag than the wheel has."
  check_symbols "$wheel"
}

# check_train_needs WHEEL: auditwheel does not look for a library where the program's rpath finds it once it is installed.
check_train_needs() {
  local wheel=$1 file files all needed newest
  printf '%s: %d bytes\n' "$(basename "$wheel")" "$(stat --format %s "$wheel")"
  check_symbols "$wheel"
  files=$(elf_files "$out/unpacked")
  while read -r file; do
    all=$(objdump --private-headers "$file" | sed -n 's/^ *NEEDED *//p')
    [[ $file != */muster-train || $all == *libmuster_dnnl.so.2*libmuster_omp.so.1* ]] || fail "$file is not linked with oneDNN and OpenMP: $all"
    while read -r needed; do
      case "$needed" in
        libc.so.6 | libm.so.6 | libpthread.so.0 | libdl.so.2 | librt.so.1 | ld-linux-x86-64.so.2 | libgcc_s.so.1 | libstdc++.so.6) ;;
        *) [ -e "$(dirname "$file")/$needed" ] || [ -e "$(dirname "$file")/../data/lib/muster/$needed" ] ||
          fail "$file needs $needed, which neither the wheel nor every system has." ;;
      esac
    done <<<"$all"
    # manylinux_2_28 has libstdc++ of GCC 8.
    newest=$(objdump --dynamic-syms "$file" | grep --only-matching 'GLIBCXX_[0-9.]*' | sort --version-sort | tail -n 1) || newest=
    [ "$(printf 'GLIBCXX_3.4.25\n%s\n' "$newest" | sort --version-sort | tail -n 1)" = GLIBCXX_3.4.25 ] || fail "$file needs $newest of libstdc++."
  done <<<"$files"
}

# check_apart WHEEL WHEEL: no file belongs to both, which the removal of one would take from the other.
check_apart() {
  local both
  both=$(for wheel in "$@"; do python3 -m zipfile -l "$wheel" | sed -n 's/^[^ ]*\.data\/\([^ ]*\) .*/\1/p' | sort --unique; done | sort | uniq --repeated)
  [ -z "$both" ] || fail "two wheels have the same files: $both"
}

# check_here WHEEL: in an empty virtual environment of this machine.
check_here() {
  local torch
  rm -rf "$out/here"
  python3 -m venv "$out/here"
  timed 'pip install' "$out/here/bin/python" -m pip install --quiet --disable-pip-version-check "$1"
  timed 'jobs in a virtual environment' "$out/here/bin/python" scripts/package/try_installed.py "$out/here" "$out/here/lib"
  timed 'pip install muster-train' "$out/here/bin/python" -m pip install --quiet --disable-pip-version-check --no-index --find-links "$out/dist" muster-train
  timed 'training' try_training "$out/here"
  # As a module of an environment on a cluster may set it: GNU's OpenMP, and another oneDNN.
  LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu timed 'training beside other libraries' try_training "$out/here"
  torch=$(with_torch "$out/here/bin/python")
  if [ -n "$torch" ]; then
    echo "$torch" >"$("$out/here/bin/python" -c 'import site; print(site.getsitepackages()[0])')/torch.pth"
    timed 'PyTorch with a restart' try_ddp "$out/here" scripts/package env
  else
    echo "skipped: build/venv, which scripts/make_venv.sh makes, has no PyTorch for this machine's python3"
  fi
}

# check_sdk THERE PROGRAMS: programs of somebody else's, by this machine's compiler, against the library that lies in the folder THERE: a
# project in C++, and a program in C that names the library to the linker alone.
check_sdk() {
  local there=$1 programs=$2 backend said
  rm -rf "$programs"
  { cmake -S tests/consumer/project -B "$programs" -G Ninja -DCMAKE_PREFIX_PATH="$there" && cmake --build "$programs" --target ring; } >"$programs.log" ||
    fail "the project in tests/consumer/project cannot be built with what lies in $there: see $programs.log"
  for backend in shm gloo; do
    said=$(MUSTER_BACKEND=$backend "$there/bin/muster" run --nproc-per-node 2 "$programs/ring") || fail "a program in C++ fails over $backend: $said"
    echo "ok: ${said%%$'\n'*} (C++, $backend)"
  done
  cc -DWITH_MUSTER tests/consumer/project/heat2d.c -o "$programs/heat2d" -I "$there/include" -L "$there/lib" -lmuster -lm -Wl,-rpath,"$there/lib"
  said=$("$there/bin/muster" run --nproc-per-node 2 "$programs/heat2d" 64 64 10 "$programs/heat") || fail "a program in C fails: $said"
  echo "ok: ${said%%$'\n'*} (C)"
}
