// SPDX-License-Identifier: Apache-2.0
#include "agent/core/memory_end.hpp"

#include "catch.hpp"

#include <csignal>

using namespace muster::agent;

namespace {

constexpr std::uint64_t kMiB = 1U << 20;
const ExitStatus kKilled{ExitStatus::Kind::signaled, SIGKILL, false};
const std::string kOver = "over the memory limit of 512 MiB of cgroup '/job' (peak 511 MiB)";

ExitStatus exited(int code) {
  return {ExitStatus::Kind::exited, code, false};
}

MemorySnapshot snapshot(std::uint64_t kills, std::uint64_t refusals_of_job,
                        std::uint64_t refusals_above = 0) {
  MemorySnapshot now;
  now.groups = {{"/job", refusals_of_job, 512 * kMiB, 511 * kMiB, false}, {"/", refusals_above, 0, 0, false}};
  now.kills = kills;
  now.own_kills = kills;
  now.counts_kills = true;
  return now;
}

MemorySnapshot host(std::uint64_t kills) {
  MemorySnapshot now;
  now.host_kills = kills;
  now.counts_host_kills = true;
  return now;
}

}  // namespace

TEST_CASE("Whether processes were ended for memory is what the kernel has counted meanwhile") {
  using Certainty = MemoryEnd::Certainty;
  const MemoryEnd end = memory_end(snapshot(3, 10), snapshot(4, 12));
  CHECK(end.certainty == Certainty::certain);
  CHECK(end.kills == 1);
  CHECK(end.why == kOver);
  // Refusals without an end are the rule where files are cached.
  CHECK(memory_end(snapshot(3, 10), snapshot(3, 500)).certainty == Certainty::nothing);
  CHECK(memory_end(snapshot(0, 10), snapshot(1, 10)).why == "as the host had no memory left");
  CHECK(memory_end({}, {}).certainty == Certainty::unknown);
  CHECK(memory_end(host(5), host(5)).certainty == Certainty::nothing);
  CHECK(memory_end(host(5), host(6)).certainty == Certainty::likely);
  // The group's own count goes before the host's, which has other containers in it.
  MemorySnapshot both = snapshot(1, 0);
  both.host_kills = 9;
  both.counts_host_kills = true;
  MemorySnapshot calm = snapshot(1, 0);
  calm.counts_host_kills = true;
  CHECK(memory_end(calm, both).certainty == Certainty::nothing);
  CHECK(memory_end(calm, both).elsewhere);
  calm.host_kills = 9;
  CHECK_FALSE(memory_end(calm, both).elsewhere);
}

TEST_CASE("Of a process of ours that got SIGKILL it is said what the kernel has ended for memory meanwhile") {
  CHECK(describe_own(kKilled, snapshot(3, 10), snapshot(3, 12)) == "killed by SIGKILL");
  CHECK(describe_own(kKilled, {}, {}) == "killed by SIGKILL");
  CHECK(describe_own(kKilled, snapshot(3, 10), snapshot(4, 12)) ==
        "killed by SIGKILL; since the job began the kernel has killed a process of its control group, " +
            kOver);
  CHECK(describe_own(kKilled, snapshot(3, 10), snapshot(5, 12)) ==
        "killed by SIGKILL; since the job began the kernel has killed 2 processes of its control group, " +
            kOver);
  CHECK(describe_own(kKilled, host(5), host(6)) ==
        "killed by SIGKILL, perhaps by the kernel's out-of-memory killer, which has struck on this host "
        "meanwhile");
  CHECK(describe_own(exited(1), snapshot(3, 10), snapshot(4, 12)) == "exit code 1");
}

TEST_CASE("The limit that is named is the lowest that refused memory, also of a group that is new") {
  MemorySnapshot after = snapshot(1, 5, 9);
  CHECK(memory_end(snapshot(0, 4, 8), after).why == kOver);
  after.groups.insert(after.groups.begin(), {"/job/step", 2, 64 * kMiB, 0, true});
  CHECK(memory_end(snapshot(0, 4), after).why == "over the memory limit of 64 MiB of cgroup '/job/step'");
  after.groups = {{"/job", 0, 0, 0, false}, {"/pod", 1, 3072 * kMiB, 3072 * kMiB, false}};
  CHECK(memory_end(snapshot(0, 0), after).why ==
        "over the memory limit of 3.0 GiB of cgroup '/pod' (peak 3.0 GiB)");
}

TEST_CASE("A worker that was killed for memory is told from one that somebody killed") {
  RoundMemory round;
  round.begin(snapshot(7, 0));
  CHECK(round.worker_failed(kKilled, "", false, snapshot(8, 1)).why == kOver);
  // Each end that was counted explains one.
  const WorkerMemory second = round.worker_failed(kKilled, "", false, snapshot(8, 1));
  CHECK(second.why.empty());
  CHECK(second.ruled_out);
  CHECK(round.note(snapshot(8, 1)).empty());
  RoundMemory unknown;
  unknown.begin({});
  CHECK_FALSE(unknown.worker_failed(kKilled, "", true, {}).ruled_out);
}

TEST_CASE("A helper that was killed for memory is laid at the door of the worker that tells of it") {
  const auto judged = [](int code, const std::string& said, bool alone) {
    RoundMemory round;
    round.begin(snapshot(0, 0));
    const WorkerMemory worker = round.worker_failed(exited(code), said, alone, snapshot(1, 1));
    return worker.why.empty() ? "note: " + round.note(snapshot(1, 1))
                              : worker.why + round.note(snapshot(1, 1));
  };
  const std::string its_own = "a process of its own was killed, " + kOver;
  CHECK(judged(1, "RuntimeError: DataLoader worker (pid(s) 4711) exited unexpectedly", false) == its_own);
  CHECK(judged(1, "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed. ", false) ==
        its_own);
  CHECK(judged(1, "subprocess.CalledProcessError: died with <Signals.SIGKILL: 9>.", false) == its_own);
  CHECK(judged(137, "", false) == its_own);
  CHECK(judged(1, "", true) == its_own);
  CHECK(judged(1, "ValueError: bad input", false) ==
        "note: a process in the control group of the workers was killed, " + kOver);
}

TEST_CASE("What no worker tells of is a note at the end of the round") {
  RoundMemory round;
  round.begin(snapshot(1, 0));
  CHECK(round.note(snapshot(1, 3)).empty());
  CHECK(round.note(snapshot(3, 3)) ==
        "2 processes in the control group of the workers were killed, " + kOver);
  // Of the host as a whole it is nobody's business.
  RoundMemory elsewhere;
  elsewhere.begin(host(1));
  CHECK(elsewhere.note(host(2)).empty());
}

TEST_CASE(
    "A process that was killed in a group below concerns only a worker that was killed or tells of it") {
  MemorySnapshot after = snapshot(1, 0);
  after.own_kills = 0;
  after.groups.insert(after.groups.begin(), {"/job/other", 1, 64 * kMiB, 0, true});
  const std::string below = "over the memory limit of 64 MiB of cgroup '/job/other'";
  const auto judged = [&after](const ExitStatus& status, const std::string& said) {
    RoundMemory round;
    round.begin(snapshot(0, 0));
    const std::string why = round.worker_failed(status, said, true, after).why;
    return why + round.note(after);
  };
  CHECK(judged(kKilled, "") == below);
  CHECK(judged(exited(137), "") == "a process of its own was killed, " + below);
  CHECK(judged(exited(1), "ValueError: bad input").empty());
  CHECK(describe_own(kKilled, snapshot(0, 0), after) == "killed by SIGKILL");
  // What was killed in the workers' group itself was over a limit of that group or of one above.
  after.kills = 2;
  after.own_kills = 1;
  CHECK(judged(exited(1), "ValueError: bad input") ==
        "a process of its own was killed, as the host had no memory left");
}

TEST_CASE("A kill in a control group that is not the agent's is not ruled out") {
  MemorySnapshot before = snapshot(1, 0);
  before.host_kills = 4;
  before.counts_host_kills = true;
  const auto judged = [&before](std::uint64_t kills, std::uint64_t host_kills, const ExitStatus& status) {
    MemorySnapshot now = snapshot(kills, 0);
    now.host_kills = host_kills;
    now.counts_host_kills = true;
    RoundMemory round;
    round.begin(before);
    return round.worker_failed(status, "", false, now);
  };
  CHECK(judged(1, 4, kKilled).ruled_out);
  const WorkerMemory elsewhere = judged(1, 5, kKilled);
  CHECK_FALSE(elsewhere.ruled_out);
  CHECK(elsewhere.why ==
        "perhaps by the kernel's out-of-memory killer, which has struck on this host meanwhile, though not "
        "in the "
        "control group of the agent");
  CHECK(judged(1, 5, exited(1)).why.empty());
  // The host's number has the kills of the group in it.
  CHECK(judged(2, 5, kKilled).why == "as the host had no memory left");
}

TEST_CASE("Amounts of memory") {
  CHECK(memory_text(0) == "0 B");
  CHECK(memory_text(1536 * kMiB) == "1.5 GiB");
  CHECK(memory_text(200 * kMiB) == "200 MiB");
}
