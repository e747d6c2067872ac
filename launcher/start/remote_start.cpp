// SPDX-License-Identifier: Apache-2.0
#include "launcher/start/remote_start.hpp"

#include "launcher/core/launch_error.hpp"
#include "launcher/start/core/ssh_command.hpp"

#include <unistd.h>

#include <climits>
#include <stdexcept>

namespace muster::launcher {
std::string own_executable() {
  char path[PATH_MAX];
  const ssize_t size = ::readlink("/proc/self/exe", path, sizeof path);
  return size > 0 && size < static_cast<ssize_t>(sizeof path)
             ? std::string(path, static_cast<std::size_t>(size))
             : std::string();
}

RemoteStart remote_start(const RemoteOptions& options, const std::string& version, bool shell_stays) {
  RemoteStart start;
  RemoteProgram program;
  program.path = options.remote_muster;
  program.own_path = own_executable();
  if (options.push) {
    try {
      start.image = make_push_image(program.own_path);
    } catch (const std::runtime_error& error) {
      throw UsageError("--push: our own executable '" + program.own_path + "': " + error.what() +
                       "; install muster on the hosts instead");
    }
    start.push_file = "/proc/self/fd/" + std::to_string(start.image.fd.get());
    program.push_bytes = start.image.bytes;
    program.push_name = "muster-" + version + "-" + start.image.mark;
  }
  try {
    program.shell_stays = shell_stays;
    start.command = remote_command(program);
  } catch (const std::invalid_argument& error) {
    throw UsageError(std::string("--remote-muster: ") + error.what());
  }
  return start;
}

}  // namespace muster::launcher
