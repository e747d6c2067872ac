// SPDX-License-Identifier: Apache-2.0
// The questions about the machine that resolving a job asks; tests give their own answers.
#pragma once

#include "launcher/core/job_spec.hpp"
#include "launcher/hosts/exported_environment.hpp"
#include "rendezvous/base/allowance.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace muster::launcher {

enum class FileKind { missing, directory, executable, readable, unreadable };

struct GpuCount {
  int count = 0;
  /// Why there is no GPU; empty otherwise.
  std::string reason;
};

class System {
 public:
  virtual ~System() = default;

  /// Returns an environment variable of ours.
  virtual std::optional<std::string> variable(const std::string& name) const = 0;
  /// Returns all variables.
  virtual Environment environment() const = 0;
  /// Returns the directory where we are, as the shell calls it ($PWD) if that is right; empty if it was
  /// removed.
  virtual std::string current_directory() const = 0;
  /// Returns the name of the user that we are; empty if the system has none.
  virtual std::string user_name() const = 0;
  /// Returns what we may use of this machine.
  virtual Allowance allowance() const = 0;
  /// Returns GPUs that CUDA programs started by us would see.
  virtual GpuCount gpu_count() const = 0;
  /// Returns the short name of this host.
  virtual std::string host_name() const = 0;
  /// Returns a new random job id (UUID, version 4).
  virtual std::string new_job_id() const = 0;
  /// Returns the numeric form of `host` if it is an address of this machine; nothing otherwise. A wildcard is
  /// nobody's address. Asks the resolver (a few seconds at most) only for names other than "localhost".
  virtual std::optional<std::string> local_address(const std::string& host) const = 0;
  /// Whether a host of a host list is this one. Asks no name server: names of this host count, names that the
  /// system's hosts file gives to addresses of ours, and such addresses.
  virtual bool is_this_machine(const std::string& host) const = 0;
  /// Returns a file's content, at most `limit` bytes and one. Nothing, and why, if it cannot be read.
  virtual std::optional<std::string> file_text(const std::string& path, std::size_t limit,
                                               std::string& reason) const = 0;
  virtual FileKind file_kind(const std::string& path) const = 0;
  /// Returns python3 of the virtual environment in which muster is installed; empty if it is in none.
  virtual std::string environment_python() const = 0;
  /// Returns the first bytes of a file, as many as the kernel looks at before it executes one; empty if it
  /// cannot be read.
  virtual std::string program_head(const std::string& path) const = 0;
  /// Returns the shared libraries that an executable file itself needs, as it names them; none of anything
  /// else.
  virtual std::vector<std::string> needed_libraries(const std::string& path) const = 0;
  /// Returns why an output file as that of --report cannot be written to this path, in words; empty if it
  /// can.
  virtual std::string write_obstacle(const std::string& path) const = 0;
  virtual StdinPolicy stdin_policy() const = 0;

 protected:
  System() = default;
  System(const System&) = default;
  System& operator=(const System&) = default;
};

}  // namespace muster::launcher
