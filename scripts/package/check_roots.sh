# shellcheck shell=bash
# shellcheck disable=SC2154  # out and tools are those of the script
# What the wheels do in roots of Debian releases, which have Python and nothing else, and on hosts made of these. To be sourced by
# scripts/package.sh, which has the functions that it calls.

# check_refusals WHEEL: what pip says where a wheel cannot run.
check_refusals() {
  local venv=$out/refusing
  rm -rf "$venv"
  python3 -m venv "$venv"
  refused 'on arm64' 'is not a supported wheel on this platform' env _PYTHON_HOST_PLATFORM=linux-aarch64 "$venv/bin/python" -m pip install --no-index "$1"
  # As pip is told of a libc that is older.
  echo 'def manylinux_compatible(major, minor, _): return (major, minor) < (2, 28)' >"$("$venv/bin/python" -c 'import site; print(site.getsitepackages()[0])')/_manylinux.py"
  refused 'with a glibc older than 2.28' 'is not a supported wheel on this platform' "$venv/bin/python" -m pip install --no-index "$1"
}

# refused WHERE TEXT COMMAND...: it must fail, and say the text.
refused() {
  local where=$1 text=$2 said
  shift 2
  ! said=$("$@" 2>&1) || fail "pip takes the wheel $where."
  [[ $said == *"$text"* ]] || fail "pip refuses $where, and does not say '$text': $said"
  echo "ok: refused $where: $(grep --fixed-strings "$text" <<<"$said" | tail -n 1)"
}

# with_torch PYTHON: the folder of packages with PyTorch that fits the version of that Python: those of build/venv, or, for 3.9, the last that was
# one wheel without others, fetched once; nothing, where there is none.
with_torch() {
  local version='import sys; print("%d.%d" % sys.version_info[:2])' asked fetched=$out/torch-3.9
  asked=$("$@" -c "$version")
  if [ "$(build/venv/bin/python -c "import torch; $version" 2>/dev/null)" = "$asked" ]; then
    realpath "build/venv/lib/python$asked/site-packages"
  elif [ "$asked" = 3.9 ]; then
    if [ ! -e "$fetched" ]; then
      rm -rf "$fetched.partial"
      "$tools/venv/bin/python" -m pip install --quiet --disable-pip-version-check --target "$fetched.partial" --python-version 3.9 \
        --only-binary :all: --no-deps torch==1.12.1 typing_extensions==4.12.2 >&2 || fail 'PyTorch for Python 3.9 cannot be fetched: see above.'
      mv "$fetched.partial" "$fetched"
    fi
    echo "$fetched"
  fi
}

# try_ddp PREFIX SCRIPTS COMMAND...: PyTorch's script, which lies in the folder SCRIPTS, on two workers, with a restart, by the muster in
# PREFIX. COMMAND is what runs it.
try_ddp() {
  local prefix=$1 scripts=$2 said
  shift 2
  # shellcheck disable=SC2016  # the inner shell expands it
  said=$("$@" sh -c 'folder=$(mktemp -d); "$1/bin/muster" run --nproc-per-node 2 --max-restarts 1 "$2/try_ddp.py" "$folder/saved.pt"; rm -r "$folder"' \
    try_ddp "$prefix" "$scripts" 2>"$out/ddp.log")
  if ! [[ $said == *'the last 3 in attempt 1' ]]; then
    cat "$out/ddp.log" >&2
    fail "PyTorch's script does not train on after a restart: $said"
  fi
  echo "ok: ${said##*$'\n'}"
}

# try_training PREFIX COMMAND...: the example of the users, ResNet-18 with random images, on two workers by the programs in PREFIX. COMMAND
# is what runs it.
try_training() {
  local prefix=$1 said
  shift
  said=$("$@" "$prefix/bin/muster" run --nproc-per-node 2 "$prefix/bin/muster-train" --model resnet18 --data synthetic:128 --global-batch 64 \
    --max-steps 2 2>&1) || fail "muster-train fails: $said"
  [[ $said == *' images/s'* ]] || fail "muster-train tells no speed: $said"
  echo "ok: ResNet-18 trains on two workers"
}

# check_in_root RELEASE: installs the wheels into an empty virtual environment of that release, and runs jobs there.
check_in_root() {
  local name torch
  local packages='python3-venv iproute2 openssh-server procps'
  release=$1 root=$PWD/build/root-$1-wheel root_binds=
  check_root_can_be
  make_root
  copy_names
  rm -rf "$root/muster"
  mkdir "$root/muster"
  cp "$out/dist/"*.whl scripts/package/try_installed.py scripts/package/try_ddp.py "$root/muster/"
  # What it asks for comes from here: a root may not know the certificates of this machine's way to PyPI.
  "$tools/venv/bin/python" -m pip download --quiet --disable-pip-version-check --dest "$root/muster" --only-binary :all: "$out/dist/muster_launch-"*.whl
  # shellcheck disable=SC2086  # words
  in_root sh -c "dpkg-query --show $packages >/dev/null 2>&1 || { apt-get update && apt-get install --yes --no-install-recommends $packages && apt-get clean; }" \
    >"$out/root-$release.log" 2>&1 || fail "$packages cannot be installed in $root: see $out/root-$release.log"
  in_root sh -c 'rm -rf /venv && python3 -m venv /venv'
  name="$release (glibc $(in_root sh -c "ldd --version | sed -n '1s/.* //p'"))"
  timed "pip install on $name" in_root sh -c '/venv/bin/python -m pip install --quiet --disable-pip-version-check --no-index --find-links /muster muster-launch'
  timed "jobs on $name" in_root /venv/bin/python /muster/try_installed.py /venv /venv/lib
  timed "pip install muster-train on $name" \
    in_root sh -c '/venv/bin/python -m pip install --quiet --disable-pip-version-check --no-index --find-links /muster muster-train'
  timed "training on $name" try_training /venv in_root
  torch=$(with_torch in_root /venv/bin/python)
  if [ -n "$torch" ]; then
    root_binds+="/torch=$torch"$'\n'
    # shellcheck disable=SC2016  # the inner shell expands it
    in_root sh -c 'echo /torch >"$(/venv/bin/python -c "import site; print(site.getsitepackages()[0])")/torch.pth"'
    timed "PyTorch with a restart on $name" try_ddp /venv /muster in_root
  else
    echo "skipped on $name: there is no PyTorch for its Python; scripts/make_venv.sh makes build/venv for this machine's"
  fi
}

# check_hosts RELEASE...: jobs over a host of each release, which check_in_root has made.
check_hosts() {
  local one hosts=()
  for one in "$@"; do
    hosts+=("$one=$PWD/build/root-$one-wheel")
  done
  python3 scripts/package/try_hosts.py "${hosts[@]}" || fail "jobs over several hosts fail: see above."
}
