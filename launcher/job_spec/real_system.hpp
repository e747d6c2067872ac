// SPDX-License-Identifier: Apache-2.0
// The answers of the machine that we run on.
#pragma once

#include "launcher/job_spec/system.hpp"

#include <cstddef>
#include <optional>
#include <string>

namespace muster::launcher {

/// The machine we run on.
class RealSystem : public System {
 public:
  std::optional<std::string> variable(const std::string& name) const override;
  Environment environment() const override;
  std::string current_directory() const override;
  std::string user_name() const override;
  Allowance allowance() const override;
  GpuCount gpu_count() const override;
  std::string host_name() const override;
  std::string new_job_id() const override;
  std::optional<std::string> local_address(const std::string& host) const override;
  bool is_this_machine(const std::string& host) const override;
  std::optional<std::string> file_text(const std::string& path, std::size_t limit,
                                       std::string& reason) const override;
  FileKind file_kind(const std::string& path) const override;
  std::string environment_python() const override;
  std::string program_head(const std::string& path) const override;
  std::vector<std::string> needed_libraries(const std::string& path) const override;
  std::string write_obstacle(const std::string& path) const override;
  StdinPolicy stdin_policy() const override;
};

}  // namespace muster::launcher
