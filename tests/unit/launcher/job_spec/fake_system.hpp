// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/job_spec/system.hpp"
#include "tests/support/variables.hpp"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace muster::launcher {

/// A machine made up by a test: 6 CPUs, no GPU, host "node7" with addresses 127.0.0.1 and 10.0.0.7.
class FakeSystem : public System {
 public:
  muster::test::Variables variables = {{"PATH", "/usr/bin:/bin"}};
  std::map<std::string, FileKind> files = {{"/usr/bin/python3", FileKind::executable},
                                           {"/usr/bin/srun", FileKind::executable},
                                           {"/bin/true", FileKind::executable},
                                           {"train.py", FileKind::readable}};
  std::map<std::string, std::string> program_heads;
  /// What program files need.
  std::map<std::string, std::vector<std::string>> libraries;
  std::string own_python;
  std::map<std::string, std::string> texts;
  std::string directory = "/here";
  GpuCount gpus{0, "NVML cannot be loaded"};
  Allowance allowed{6, 64, 5.5, "/box", std::uint64_t{4} << 30, "/pod"};
  bool files_writable = true;

  std::optional<std::string> variable(const std::string& name) const override {
    return muster::test::lookup_in(variables)(name);
  }

  Environment environment() const override { return {variables.begin(), variables.end()}; }

  std::string current_directory() const override { return directory; }

  std::string user_name() const override { return "ann"; }

  bool is_this_machine(const std::string& host) const override {
    return host == "node7" || host == "localhost" || host == "10.0.0.7";
  }

  std::optional<std::string> file_text(const std::string& path, std::size_t limit,
                                       std::string& reason) const override {
    const auto found = texts.find(path);
    if (found != texts.end()) return found->second.substr(0, limit + 1);
    reason = "No such file or directory";
    return std::nullopt;
  }

  Allowance allowance() const override { return allowed; }

  GpuCount gpu_count() const override { return gpus; }

  std::string host_name() const override { return "node7"; }

  std::string new_job_id() const override { return "random-id"; }

  std::optional<std::string> local_address(const std::string& host) const override {
    static const std::map<std::string, std::string> own = {{"localhost", "127.0.0.1"},
                                                           {"127.0.0.1", "127.0.0.1"},
                                                           {"node7", "10.0.0.7"},
                                                           {"10.0.0.7", "10.0.0.7"},
                                                           {"::1", "::1"}};
    const auto found = own.find(host);
    if (found == own.end()) return std::nullopt;
    return found->second;
  }

  FileKind file_kind(const std::string& path) const override {
    const auto found = files.find(path);
    return found == files.end() ? FileKind::missing : found->second;
  }

  std::string environment_python() const override { return own_python; }

  std::string program_head(const std::string& path) const override {
    const auto found = program_heads.find(path);
    return found == program_heads.end() ? "" : found->second;
  }

  std::vector<std::string> needed_libraries(const std::string& path) const override {
    const auto found = libraries.find(path);
    return found == libraries.end() ? std::vector<std::string>() : found->second;
  }

  std::string write_obstacle(const std::string&) const override {
    return files_writable ? "" : "Read-only file system";
  }

  StdinPolicy stdin_policy() const override { return StdinPolicy::inherit; }
};

}  // namespace muster::launcher
