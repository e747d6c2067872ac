// SPDX-License-Identifier: Apache-2.0
#include "launcher/exit_report/finish_job.hpp"

#include "agent/core/error_file.hpp"
#include "agent/core/node_report.hpp"
#include "launcher/exit_report/exit_report.hpp"
#include "launcher/exit_report/json.hpp"
#include "launcher/exit_report/text.hpp"
#include "rendezvous/base/output_file.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/log/colours.hpp"
#include "rendezvous/log/log.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

namespace muster::launcher {
namespace {

std::string words(int error) {
  return std::strerror(error);
}

/// Writes after what is there. A pipe that nobody reads is an error at once.
std::string write_directly(const std::string& path, const std::string& text) {
  const int fd = open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0) return errno == ENXIO ? "nobody reads it" : words(errno);
  fcntl(fd, F_SETFL, O_APPEND);  // a reader may be slow
  const std::string failure = write_all(fd, text) ? "" : words(errno);
  close(fd);
  return failure;
}

}  // namespace

mode_t default_mode() {
  // The umask can only be read by setting it. Other threads of the launcher give their files modes of their
  // own.
  const mode_t mask = umask(0);
  umask(mask);
  return 0666 & ~mask;
}

std::string write_file(const std::string& path, const std::string& text) {
  return write_file(path, text, default_mode());
}

std::string write_file(const std::string& path, const std::string& text, mode_t mode) {
  const OutputPlace place = find_output(path);
  if (!place.obstacle.empty()) return place.obstacle;
  if (!place.is_file) return write_directly(path, text);
  std::string temporary = place.path + ".XXXXXX";
  const int fd = mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return words(errno);
  std::string failure = write_all(fd, text) ? "" : words(errno);
  if (fchmod(fd, mode) != 0 && failure.empty()) failure = words(errno);
  if (close(fd) != 0 && failure.empty()) failure = words(errno);
  if (failure.empty() && rename(temporary.c_str(), place.path.c_str()) != 0) failure = words(errno);
  if (!failure.empty()) unlink(temporary.c_str());
  return failure;
}

std::string write_obstacle(const std::string& path) {
  const OutputPlace place = find_output(path);
  if (!place.obstacle.empty()) return place.obstacle;
  if (!place.is_file) return access(path.c_str(), W_OK) == 0 ? "" : words(errno);
  std::string temporary = place.path + ".XXXXXX";
  const int fd = mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return words(errno);
  close(fd);
  unlink(temporary.c_str());
  return "";
}

namespace {

namespace fs = std::filesystem;

bool holds_a_file(const std::string& directory) {
  std::error_code error;
  for (fs::recursive_directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error))
    if (!entry->is_directory(error)) return true;
  return false;
}

/// Removes a temporary log directory, unless somebody may want to read what is in it.
void tidy_log_directory(const JobSpec& spec, ExitReport& report) {
  if (report.log_dir.empty()) return;
  const bool keep =
      !spec.agent.output.log_dir_is_temporary || (report.exit_code != 0 && holds_a_file(report.log_dir));
  if (keep) return;
  std::error_code error;
  fs::remove_all(report.log_dir, error);
  if (error) log_warning("the log directory " + report.log_dir + " cannot be removed: " + error.message());
  report.log_dir.clear();
}

/// Whether a node's files are on this host. The path of an error file means nothing here if another host has
/// written it; what that file says came with the report.
bool is_on_this_host(const JobSpec& spec, const std::string& node) {
  return std::none_of(spec.nodes.begin(), spec.nodes.end(),
                      [&](const NodePlan& plan) { return plan.name == node && !plan.local; });
}

void copy_error_file(const JobSpec& spec, const ExitReport& report) {
  const agent::WorkerReport* root = report.root();
  if (spec.error_file_copy.empty() || root == nullptr || root->error_file.empty()) return;
  const std::string& node = report.nodes[static_cast<std::size_t>(report.root_node)].node;
  const auto text = is_on_this_host(spec, node)
                        ? read_file(root->error_file, agent::kErrorFileBytesMax, O_NONBLOCK | O_NOCTTY)
                        : std::optional<std::string>(error_file_of(root->error));
  if (!text) return log_warning("the error file " + root->error_file + " cannot be read");
  if (access(spec.error_file_copy.c_str(), F_OK) == 0)
    log_info("replacing " + spec.error_file_copy + " by the error file of rank " +
             std::to_string(root->rank));
  const std::string failure = write_file(spec.error_file_copy, error_file_with_code(*text, root->status));
  if (!failure.empty())
    log_warning("TORCHELASTIC_ERROR_FILE=" + spec.error_file_copy + " cannot be written: " + failure);
}

/// Copies the log files of a job on this host alone to the place where those of many hosts would come.
void gather_logs(const JobSpec& spec, const ExitReport& report) {
  if (spec.gather_logs.empty() || !spec.nodes.empty() || report.log_dir.empty()) return;
  std::error_code error;
  if (!fs::exists(report.log_dir, error)) return;
  const fs::path folder = fs::path(spec.gather_logs) / spec.agent.host;
  fs::create_directories(spec.gather_logs, error);
  if (!error) fs::permissions(spec.gather_logs, fs::perms::owner_all, error);
  if (!error) fs::copy(report.log_dir, folder, fs::copy_options::recursive, error);
  if (error)
    log_warning("the log files in " + report.log_dir + " cannot be copied to " + folder.string() + ": " +
                error.message() + "; give --gather-logs a new folder");
}

void write_report(const JobSpec& spec, const ExitReport& report) {
  if (spec.report_file.empty()) return;
  const std::string failure = write_file(spec.report_file, to_json(report));
  if (!failure.empty()) log_error("--report=" + spec.report_file + " cannot be written: " + failure);
}

}  // namespace

int finish_job(const JobSpec& spec, const std::vector<agent::NodeReport>& reports, const JobEnd& end) {
  ExitReport report = make_exit_report(spec, reports, end);
  copy_error_file(spec, report);
  gather_logs(spec, report);
  tidy_log_directory(spec, report);
  write_report(spec, report);
  // All lines go out in one write, because they must not mix with what others print.
  (void)write_all(STDERR_FILENO, for_screen(STDERR_FILENO, to_text(report)));
  return report.exit_code;
}

}  // namespace muster::launcher
