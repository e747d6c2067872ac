// SPDX-License-Identifier: Apache-2.0
#include "launcher/nodes/log_gather.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <stdexcept>
#include <string_view>
#include <system_error>

namespace muster::launcher {
namespace {

constexpr std::size_t kNameMax = 4096;
constexpr std::size_t kNotesMax = 20;

/// The new file `name` below `folder`, with the folders above it; empty with errno set if that fails.
UniqueFd create_below(const std::string& folder, std::string_view name) {
  UniqueFd place(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (std::size_t slash = 0; place && (slash = name.find('/')) != std::string_view::npos;) {
    const std::string part(name.substr(0, slash));
    name.remove_prefix(slash + 1);
    if (::mkdirat(place.get(), part.c_str(), 0700) != 0 && errno != EEXIST) return UniqueFd();
    place.reset(::openat(place.get(), part.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  }
  if (!place) return UniqueFd();
  return UniqueFd(::openat(place.get(), std::string(name).c_str(),
                           O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
}

}  // namespace

void LogGather::open(Node& node, const std::string& file) {
  std::error_code error;
  if (std::filesystem::create_directories(folder_, error))
    std::filesystem::permissions(folder_, std::filesystem::perms::owner_all, error);
  if (error) return give_up(node, file, error.message());
  node.fd = create_below(folder_, file);
  if (!node.fd) give_up(node, file, std::generic_category().message(errno));
}

void LogGather::give_up(Node& node, const std::string& file, const std::string& what) {
  node.fd.reset();
  if (notes_.size() < kNotesMax)
    notes_.push_back("the log file " + file + " cannot be written below " + folder_ + ": " + what +
                     "; it stays on its node");
}

bool LogGather::within_limits(Node& node, const agent::FilePiece& piece, bool begins) {
  node.files += begins ? 1 : 0;
  node.bytes += piece.bytes.size();
  if (node.over_limit) return false;
  if (node.files <= limits_.files && node.bytes <= limits_.bytes) return true;
  node.over_limit = true;
  give_up(node, piece.name,
          "its node sends more than " + std::to_string(limits_.files) + " files or " +
              std::to_string(limits_.bytes >> 30U) + " GiB");
  return false;
}

void LogGather::take(std::size_t index, const std::string& name, const agent::FilePiece& piece) {
  if (!piece.name.starts_with(name + "/") || piece.name.size() > kNameMax)
    throw std::invalid_argument("a log file that is not the node's own: " + piece.name.substr(0, kNameMax));
  Node& node = nodes_[index];
  const bool begins = node.file.empty();
  if (!begins && node.file != piece.name)
    throw std::invalid_argument("a log file before the end of another: " + piece.name);
  if (within_limits(node, piece, begins)) {
    if (begins) open(node, piece.name);
    std::string_view rest = piece.bytes;
    while (node.fd && !rest.empty()) {
      const ssize_t written = ::write(node.fd.get(), rest.data(), rest.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) {
        give_up(node, piece.name, std::generic_category().message(errno));
        break;
      }
      rest.remove_prefix(static_cast<std::size_t>(written));
    }
  }
  node.file = piece.last ? std::string() : piece.name;
  if (piece.last) node.fd.reset();
}

std::vector<std::string> LogGather::notes() const {
  std::vector<std::string> all = notes_;
  for (const auto& [index, node] : nodes_)
    if (node.fd) all.push_back("the log file " + node.file + " came in part only: its node was lost");
  return all;
}

}  // namespace muster::launcher
