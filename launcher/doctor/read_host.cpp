// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/read_host.hpp"

#include "launcher/doctor/read_devices.hpp"
#include "launcher/doctor/read_keeping.hpp"
#include "launcher/doctor/read_network.hpp"
#include "launcher/doctor/read_python.hpp"
#include "launcher/inspect/job_folder.hpp"
#include "launcher/start/own_program.hpp"
#include "rendezvous/base/allowance.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/text.hpp"

#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <system_error>
#include <vector>

namespace muster::launcher {
namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

FolderFacts read_folder(const std::string& path, const std::string& name) {
  FolderFacts facts;
  facts.path = path;
  facts.name = name;

  struct statvfs status {};

  if (::statvfs(path.c_str(), &status) != 0) {
    facts.error = std::generic_category().message(errno);
    return facts;
  }
  facts.total = std::uint64_t{status.f_blocks} * status.f_frsize;
  facts.free = std::uint64_t{status.f_bavail} * status.f_frsize;
  facts.inodes_left = status.f_files == 0 || status.f_favail > 0;  // some file systems count none
  if (::access(path.c_str(), W_OK | X_OK) != 0) facts.error = std::generic_category().message(errno);
  return facts;
}

std::vector<FolderFacts> read_folders() {
  std::vector<FolderFacts> folders = {read_folder("/dev/shm", ""), read_folder("/tmp", "")};
  const std::string temporary = variable("TMPDIR");
  if (!temporary.empty() && temporary != "/tmp") folders.push_back(read_folder(temporary, "TMPDIR"));
  return folders;
}

std::uint64_t limit_of(rlim_t limit) {
  return limit == RLIM_INFINITY ? LimitFacts::kUnlimited : std::uint64_t{limit};
}

LimitFacts read_limit(int resource) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0) return {};
  return {limit_of(limit.rlim_cur), limit_of(limit.rlim_max)};
}

AllowanceFacts allowance_facts() {
  const Allowance allowance = read_allowance();
  return {allowance.processors, allowance.affinity, allowance.quota_group, allowance.memory,
          allowance.memory_group};
}

int ptrace_scope() {
  const auto text = read_file("/proc/sys/kernel/yama/ptrace_scope", 16);
  return text ? static_cast<int>(leading_number(*text).value_or(-1)) : -1;
}

PythonFacts python_facts(const HostQuestion& question, const agent::SignalState& signals) {
  const std::string chosen = question.python.empty() ? variable("PYTHON_EXEC") : question.python;
  const std::string own = environment_python();
  return read_python(!chosen.empty() ? chosen : own.empty() ? "python3" : own, !chosen.empty(), signals);
}

}  // namespace

HostFacts read_host(const HostQuestion& question, const agent::SignalState& signals) {
  HostFacts facts;
  facts.host = host_name();
  facts.version = question.version;
  facts.is_root = ::geteuid() == 0;
  facts.python = python_facts(question, signals);
  facts.network = read_network(question.towards);
  facts.folders = read_folders();
  facts.open_files = read_limit(RLIMIT_NOFILE);
  facts.locked_memory = read_limit(RLIMIT_MEMLOCK);
  facts.processes = read_limit(RLIMIT_NPROC);
  facts.allowance = allowance_facts();
  facts.ptrace_scope = ptrace_scope();
  facts.gpu = read_gpus();
  if (facts.python.nccl.empty()) facts.found_nccl = read_nccl_library();
  if (facts.gpu.count > 0) facts.found_cudnn = read_cudnn_library();
  facts.keeping = read_keeping(folder_of_jobs());
  return facts;
}

}  // namespace muster::launcher
