#!/usr/bin/env bash
# Installs, uses, upgrades and removes the packages that lie beside it, those of the next version in the folder next, in a root that has nothing
# else. Run by scripts/package.sh deb RELEASE --check as: try_deb.sh VERSION NEXT_VERSION
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
version=$1
next=$2
job=/tmp/job
libraries=/usr/lib/x86_64-linux-gnu

fail() {
  printf 'try_deb.sh: %s\n' "$@" >&2
  exit 1
}

# step TITLE COMMAND...: prints the time, and what the command has said where it fails.
step() {
  local title=$1 begin=${EPOCHREALTIME/./} log=/tmp/step.log code=0 took
  shift
  "$@" >"$log" 2>&1 &  # with its own `set -e`, which a condition would switch off
  wait $! || code=$?
  took=$(((${EPOCHREALTIME/./} - begin) / 100000))
  [ "$code" -eq 0 ] || {
    tail -n 40 "$log" >&2
    fail "$title: exit code $code after $((took / 10)).$((took % 10)) s"
  }
  grep '^ok: ' "$log" || true
  printf '== %s: %d.%d s\n' "$title" $((took / 10)) $((took % 10))
}

# wait_for WHAT COMMAND...: until it succeeds, for a minute.
wait_for() {
  local what=$1 end=$((SECONDS + 60))
  shift
  until "$@"; do
    [ $SECONDS -lt $end ] || fail "waited for a minute for $what"
    sleep 0.1
  done
}

# Without what is recommended: no Python, no Gloo.
install_alone() {
  apt-get install --yes --no-install-recommends ./muster_*.deb ./libmuster0_*.deb
  local said
  # shellcheck disable=SC2016  # the workers expand it
  said=$(muster run --nproc-per-node 2 sh -c 'echo "rank $RANK of $WORLD_SIZE"')
  [ "$(sort <<<"$said")" = $'rank 0 of 2\nrank 1 of 2' ] || fail "a job of two shells said: $said"
  ! command -v python3 >/dev/null || fail "python3 came with it"
  echo "ok: $(sed -n 's/^After this operation, \(.*\) of additional.*/\1/p' /tmp/step.log) alone; a job of two shells"
  said=$(MUSTER_BACKEND=gloo muster run --nproc-per-node 2 muster-train --data synthetic:64 --max-steps 2 --batch-size 16 2>&1) &&
    fail "a program found Gloo where it is not installed: $said"
  grep --quiet --fixed-strings 'libgloo' <<<"$said" || fail "without Gloo a program says: $said"
  echo "ok: a program that asks for Gloo is told that it is missing"
  apt-get purge --yes muster libmuster0
  apt-get autoremove --purge --yes
}

install_whole() {
  apt-get install --yes ./muster_*.deb ./libmuster0_*.deb
  [ "$(muster --version)" = "muster $version" ] || fail "muster --version says $(muster --version)"
  echo "ok: $(sed -n 's/^After this operation, \(.*\) of additional.*/\1/p' /tmp/step.log) with all that it recommends"
}

# One end has the packages, the other end another version.
refuse_another_version() {
  local said other=/tmp/other
  dpkg-deb --extract next/muster_*.deb "$other"
  [ "$("$other/usr/bin/muster" --version)" = "muster $next" ]
  said=$(muster run -H elsewhere --ssh-command "sh $PWD/fake_ssh.sh" --remote-muster "$other/usr/bin/muster" true 2>&1) && fail "it ran: $said"
  grep --fixed-strings "muster $next is installed there, here it is $version" <<<"$said" | sed 's/^ */ok: /'
  grep --quiet --fixed-strings "muster $next is installed there, here it is $version" <<<"$said" || fail "it said: $said"
}

# As tests make them.
three_hosts() {
  apt-get install --yes --no-install-recommends iproute2 nftables openssh-server
  PYTHONPATH=tests/support python3 try_three_hosts.py "$libraries"
}

# PyTorch as Debian has it.
pytorch() {
  apt-get install --yes --no-install-recommends python3-torch
  # Without libuv it refuses the store of every launcher, torchrun's own as well.
  if ! python3 -c 'import datetime, torch.distributed as d; d.TCPStore("127.0.0.1", 0, 1, True, datetime.timedelta(seconds=10))' 2>/tmp/store.err &&
    grep --quiet 'without libuv' /tmp/store.err; then
    echo "skipped: this release's PyTorch is built without libuv, and no launcher can start it"
    return
  fi
  cat >/tmp/ddp.py <<'TEXT'
import os, sys
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.full((2, 4), float(dist.get_rank()))).sum().backward()
    optimizer.step()
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and dist.get_rank() == 1:
    sys.exit("fails in the first round")
print("trained", torch.__version__, [round(float(weight), 4) for weight in model.module.weight[0]])
TEXT
  local said
  said=$(OMP_NUM_THREADS=1 muster run --nproc-per-node 2 --max-restarts 1 /tmp/ddp.py 2>/tmp/ddp.err) || fail "$(cat /tmp/ddp.err)"
  grep --quiet 'restart 1 of 1' /tmp/ddp.err || fail "there was no restart: $(cat /tmp/ddp.err)"
  [ "$(grep '^trained' <<<"$said" | tail -n 2 | sort --unique | wc -l)" -eq 1 ] || fail "the two ranks are not the same: $said"
  echo "ok: DDP on two workers, with a restart: $(tail -n 1 <<<"$said")"
}

develop() {
  apt-get install --yes --no-install-recommends ./libmuster-dev_*.deb ./libmuster-nn0_*.deb g++ cmake make pkgconf
  cmake -S project -B /tmp/project
  cmake --build /tmp/project --parallel 2
  local backend said flags
  for backend in shm gloo; do
    said=$(MUSTER_BACKEND=$backend muster run --nproc-per-node 2 /tmp/project/ring)
    echo "ok: ${said%%$'\n'*} (CMake, $backend)"
  done
  muster run --nproc-per-node 2 /tmp/project/own_network cpu /tmp/own_network >/dev/null
  echo "ok: a network by libmuster_nn"
  read -ra flags < <(pkgconf --cflags --libs muster)
  cc -DWITH_MUSTER project/heat2d.c -o /tmp/heat2d "${flags[@]}" -lm
  said=$(muster run --nproc-per-node 2 /tmp/heat2d 64 64 10 /tmp/heat)
  echo "ok: ${said%%$'\n'*} (pkg-config: ${flags[*]})"
}

# A job whose workers wait until the packages were replaced; then one fails, and the next round uses what is new.
begin_job() {
  rm -rf "$job"
  mkdir "$job"
  cat >"$job/worker.py" <<'TEXT'
import ctypes, os, sys, time
job, rank = sys.argv[1], int(os.environ["RANK"])
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    open(f"{job}/started{rank}", "w").close()
    while not os.path.exists(f"{job}/go"):
        time.sleep(0.05)
    sys.exit("fails in the first round") if rank == 1 else time.sleep(60)
muster = ctypes.CDLL("libmuster.so.0")
muster.muster_error_text.restype = ctypes.c_char_p
def ok(code):
    if code != 0:
        sys.exit(muster.muster_error_text(None).decode())
world, group, value = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_double(rank + 1)
ok(muster.muster_init(None, ctypes.byref(world)))
ok(muster.muster_group_world(world, ctypes.byref(group)))
ok(muster.muster_all_reduce(group, ctypes.byref(value), ctypes.byref(value), ctypes.c_uint64(1), 6, 0, None, None))
ok(muster.muster_finalize(world, ctypes.c_int64(0)))
print("sum", value.value)
TEXT
  MUSTER_BACKEND=gloo muster run --name trial --max-restarts 1 --nproc-per-node 2 "$job/worker.py" "$job" >"$job/out" 2>&1 &
  launcher=$!
  wait_for "the workers of a job" test -e "$job/started0" -a -e "$job/started1"
}

end_job() {
  local code=0
  touch "$job/go"
  wait "$launcher" || code=$?
  [ "$code" -eq 0 ] || fail "the job ended with $code: $(cat "$job/out")"
}

upgrade_in_a_job() {
  begin_job
  apt-get install --yes ./next/*.deb
  [ "$(muster --version)" = "muster $next" ] || fail "after the upgrade, muster --version says $(muster --version)"
  [ "$(readlink "/proc/$launcher/exe")" = '/usr/bin/muster (deleted)' ] || fail "the launcher's program was not replaced"
  echo "ok: muster $next says: $(muster ps | grep --fixed-strings trial)"
  muster status trial | grep --quiet --fixed-strings 'RANK' || fail "the new muster knows no status of the job"
  end_job
  [ "$(grep --count --fixed-strings 'sum 3.0' "$job/out")" -eq 2 ] || fail "the second round said: $(cat "$job/out")"
  echo "ok: the job of muster $version restarts its workers over Gloo, and succeeds"
}

remove_in_a_job() {
  local file left=()
  begin_job
  mapfile -t files < <(dpkg -L muster libmuster0 libmuster-nn0 libmuster-dev | sort --unique)
  # The library stays for the workers of the second round.
  apt-get purge --yes muster libmuster-dev
  ! command -v muster >/dev/null || fail "muster is still there"
  sed -i 's/^muster = .*/print("sum 3.0"); sys.exit()/' "$job/worker.py"
  end_job
  echo "ok: a job whose muster is removed restarts its workers, and succeeds"
  apt-get purge --yes libmuster0 libmuster-nn0
  for file in "${files[@]}"; do
    [ -d "$file" ] && [[ $file != *muster* ]] || [ ! -e "$file" ] || left+=("$file")
  done
  mapfile -t -O "${#left[@]}" left < <(find /etc /usr /var/lib -name '*muster*' ! -path '/var/lib/apt/*')
  [ ${#left[@]} -eq 0 ] || fail "left after the packages were removed: ${left[*]}"
  echo "ok: of ${#files[@]} files and folders nothing is left"
}

export DEBIAN_FRONTEND=noninteractive
step 'apt-get update' apt-get update
step 'installed alone' install_alone
step 'installed' install_whole
step 'used' python3 try_installed.py /usr "$libraries"
step 'another version on the other end' refuse_another_version
step 'three hosts' three_hosts
step "PyTorch's DDP" pytorch
step 'libmuster-dev, and programs' develop
step 'upgraded while a job runs' upgrade_in_a_job
step 'removed while a job runs' remove_in_a_job
