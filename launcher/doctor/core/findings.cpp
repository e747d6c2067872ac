// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/core/findings.hpp"

#include "agent/core/memory_end.hpp"
#include "launcher/doctor/core/program_findings.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace muster::launcher {
namespace {

using agent::memory_text;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

Finding well(std::string what, std::string found) {
  return {std::move(what), Verdict::ok, std::move(found), ""};
}

Finding network_of(const NetworkFacts& facts) {
  Finding finding = well("network", facts.interface + " (" + facts.address + ")");
  if (facts.mtu > 0) finding.found += ", MTU " + std::to_string(facts.mtu);
  if (!facts.towards.empty()) finding.found += ", towards " + facts.towards;
  if (facts.address.empty()) {
    finding.found = facts.error.empty() ? "no way to other hosts" : facts.error;
    finding.verdict = facts.towards.empty() ? Verdict::note : Verdict::problem;
    finding.advice = facts.towards.empty() ? "jobs of this host alone need none"
                                           : "check the name in DNS or /etc/hosts, and the route";
  } else if (!facts.towards.empty() && (facts.address.starts_with("127.") || facts.address == "::1")) {
    finding.verdict = Verdict::problem;
    finding.advice = "the name " + facts.towards + " means this host here; mend /etc/hosts";
  }
  return finding;
}

/// Containers are often given 64 MiB of shared memory, which one batch of a DataLoader fills.
Finding folder_of(const FolderFacts& facts) {
  const bool is_shared_memory = facts.path == "/dev/shm";
  Finding finding = well(facts.name.empty() ? facts.path : facts.name,
                         (facts.name.empty() ? "" : facts.path + ": ") + memory_text(facts.free) +
                             " free of " + memory_text(facts.total));
  const std::string more =
      is_shared_memory
          ? "DataLoader, NCCL and the SDK's groups need it; give a container --shm-size or "
            "--ipc=host, and remove files of dead programs"
          : "log and error files go there; make room, or name another place by TMPDIR or --log-dir";
  const std::uint64_t least = is_shared_memory ? 128 * kMiB : 16 * kMiB;
  if (!facts.error.empty())
    finding = {finding.what, Verdict::problem, facts.path + ": " + facts.error, more};
  else if (!facts.inodes_left)
    finding = {finding.what, Verdict::problem, finding.found + ", but no file can be made (no inode)", more};
  else if (facts.free < kGiB)
    finding = {finding.what, facts.free < least ? Verdict::problem : Verdict::note, finding.found, more};
  return finding;
}

std::string limit_text(std::uint64_t limit, bool bytes) {
  if (limit == LimitFacts::kUnlimited) return "unlimited";
  return bytes ? memory_text(limit) : std::to_string(limit);
}

Finding limit_of(const char* what, const LimitFacts& facts, std::uint64_t least, std::uint64_t usual,
                 const char* why) {
  Finding finding = well(what, limit_text(facts.soft, false));
  if (facts.hard != facts.soft) finding.found += " (at most " + limit_text(facts.hard, false) + ")";
  if (facts.soft >= usual) return finding;
  finding.verdict = facts.soft < least ? Verdict::problem : Verdict::note;
  finding.advice = std::string(why) + "; run '" + what + " " + std::to_string(usual) + "' before" +
                   (facts.hard < usual ? ", once /etc/security/limits.conf allows it" : "");
  return finding;
}

Finding locked_memory_of(const HostFacts& facts) {
  Finding finding = well("ulimit -l", limit_text(facts.locked_memory.soft, true));
  if (!facts.gpu.infiniband || facts.locked_memory.soft == LimitFacts::kUnlimited) return finding;
  finding.verdict = Verdict::problem;
  finding.advice =
      "RDMA adapters need locked memory; set 'memlock unlimited' in /etc/security/limits.conf, or "
      "LimitMEMLOCK=infinity where a service starts jobs";
  return finding;
}

Finding processors_of(const AllowanceFacts& facts) {
  Finding finding = well("processors", std::to_string(facts.processors));
  if (facts.processors >= facts.affinity) return finding;
  finding.verdict = Verdict::note;
  finding.found +=
      " of " + std::to_string(facts.affinity) + ", by the quota of cgroup '" + facts.quota_group + "'";
  finding.advice =
      "programs that count processors start too many threads; set OMP_NUM_THREADS, or raise the "
      "quota";
  return finding;
}

Finding memory_of(const AllowanceFacts& facts) {
  Finding finding = well("memory", facts.memory == 0 ? "not known" : memory_text(facts.memory));
  if (facts.memory_group.empty()) return finding;
  finding.found += ", by the limit of cgroup '" + facts.memory_group + "'";
  if (facts.memory >= 2 * kGiB) return finding;
  finding.verdict = Verdict::note;
  finding.advice = "a worker that needs more is killed; raise the limit";
  return finding;
}

Finding ptrace_of(const HostFacts& facts) {
  const int scope = facts.ptrace_scope;
  Finding finding = well("ptrace_scope", scope < 0 ? "none" : std::to_string(scope));
  if (scope < 2 || (scope == 2 && facts.is_root)) return finding;
  finding.verdict = Verdict::note;
  finding.advice =
      "'muster stacks' and reports of hangs have no Python stacks; set "
      "kernel.yama.ptrace_scope to 1 (sysctl)" +
      std::string(scope > 2 ? ", which needs a reboot" : "");
  return finding;
}

Finding leftovers_of(const KeepingFacts& facts) {
  if (!facts.folder_trouble.empty())
    return {"old jobs", Verdict::problem, facts.folder_trouble,
            "'muster ps' and 'muster status' do not see jobs until this is mended"};
  if (facts.old_folders.empty()) return well("old jobs", "none");
  constexpr std::size_t kShown = 3;
  const std::string names = joined(facts.old_folders, " ");
  return {"old jobs", Verdict::note, "folders of dead jobs: " + joined(facts.old_folders, ", ", kShown),
          "remove them: rm -r " + names};
}

Finding sessions_of(const KeepingFacts& facts) {
  const std::string setting = "KillUserProcesses=" + facts.kill_user_processes;
  if (facts.kill_user_processes != "yes")
    return well("logind", facts.kill_user_processes.empty() ? "no setting" : setting);
  if (facts.lingers) return well("logind", setting + ", but you linger");
  return {"logind", Verdict::note, setting,
          "a job that shall outlive your last session ends with it; run 'loginctl enable-linger'"};
}

/// A thing that is the same on all hosts of a job, or had better be.
struct Common {
  const char* what;
  Verdict verdict;
  const char* advice;
  std::string (*value)(const HostFacts&);
  /// Whether a host that has none differs from one that has.
  bool none_counts = true;
};

std::string minor_version(const std::string& version) {
  return version.substr(0, version.find('.', version.find('.') + 1));
}

const Common kCommon[] = {
    {"muster", Verdict::problem, "install one version on all hosts, or give --push to 'muster run'",
     [](const HostFacts& facts) { return facts.version; }},
    {"Python", Verdict::note, "use one version on all hosts",
     [](const HostFacts& facts) { return minor_version(facts.python.version); }},
    {"torch", Verdict::problem, "install one version on all hosts",
     [](const HostFacts& facts) { return facts.python.torch; }},
    {"NCCL", Verdict::problem, "ranks with different versions cannot talk; install one on all hosts",
     [](const HostFacts& facts) {
       return facts.python.nccl.empty() ? facts.found_nccl.version : facts.python.nccl;
     }},
    {"driver", Verdict::note, "install one version on all hosts",
     [](const HostFacts& facts) { return facts.gpu.driver; }},
    {"GPUs", Verdict::note, "say how many workers each host has: -H n0:8,n1:4",
     [](const HostFacts& facts) { return std::to_string(facts.gpu.count); }},
    {"MTU", Verdict::note,
     "large packets may be lost between them, which looks like a hang; set one on all hosts and switches",
     [](const HostFacts& facts) {
       return facts.network.mtu == 0 ? std::string() : std::to_string(facts.network.mtu);
     },
     false},
};

}  // namespace

int DoctorReport::count(Verdict verdict) const {
  const auto has = [verdict](const Finding& finding) { return finding.verdict == verdict; };
  auto found = std::count_if(differences.begin(), differences.end(), has);
  found += std::count_if(tried.begin(), tried.end(), has);
  for (const HostReport& host : hosts)
    found += std::count_if(host.findings.begin(), host.findings.end(), has);
  return static_cast<int>(found);
}

std::vector<Finding> judge(const HostFacts& facts) {
  std::vector<Finding> findings = {well("muster", facts.version)};
  for (Finding& finding : judge_programs(facts)) findings.push_back(std::move(finding));
  findings.push_back(network_of(facts.network));
  for (const FolderFacts& folder : facts.folders) findings.push_back(folder_of(folder));
  findings.push_back(
      limit_of("ulimit -n", facts.open_files, 512, 4096, "DataLoader and large groups have many files open"));
  findings.push_back(locked_memory_of(facts));
  findings.push_back(
      limit_of("ulimit -u", facts.processes, 512, 4096, "each worker has dozens of threads, which count"));
  findings.push_back(processors_of(facts.allowance));
  findings.push_back(memory_of(facts.allowance));
  findings.push_back(ptrace_of(facts));
  findings.push_back(leftovers_of(facts.keeping));
  findings.push_back(sessions_of(facts.keeping));
  return findings;
}

namespace {

/// Hosts that a difference names at most.
constexpr std::size_t kHostsNamed = 8;

}  // namespace

std::vector<Finding> compare(const std::vector<HostReport>& hosts) {
  std::vector<Finding> differences;
  for (const Common& common : kCommon) {
    std::map<std::string, std::vector<std::string>> named;
    for (const HostReport& host : hosts) {
      if (!host.facts) continue;
      const std::string value = common.value(*host.facts);
      if (common.none_counts || !value.empty()) named[value].push_back(host.name);
    }
    if (named.size() < 2) continue;
    const auto text = [](const auto& entry) {
      return (entry.first.empty() ? "none" : entry.first) + " on " + joined(entry.second, ", ", kHostsNamed);
    };
    differences.push_back({common.what, common.verdict, joined_by(named, text, "; "), common.advice});
  }
  return differences;
}

}  // namespace muster::launcher
