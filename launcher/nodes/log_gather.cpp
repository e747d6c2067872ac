// SPDX-License-Identifier: Apache-2.0
#include "launcher/nodes/log_gather.hpp"

#include "agent/core/link_message.hpp"
#include "rendezvous/base/posix.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace muster::launcher {
namespace {

constexpr std::size_t kNameMax = 4096;
constexpr std::size_t kNotesMax = 20;

/// Whether a file's name may become part of a path here.
bool is_safe_name(std::string_view name) {
  if (name.empty() || name.front() == '/' || name.find('\0') != std::string_view::npos) return false;
  std::size_t begin = 0;
  while (begin <= name.size()) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return false;
    begin = end + 1;
  }
  return true;
}

/// Makes the new file `name` below `folder`, with the folders above it; empty with errno set if that fails.
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

void LogGather::open(Node& node) {
  ++node.files;
  if (!within_limits(node)) return;
  std::error_code error;
  if (std::filesystem::create_directories(folder_, error))
    std::filesystem::permissions(folder_, std::filesystem::perms::owner_all, error);
  if (error) return give_up(node, error.message());
  node.fd = create_below(folder_, node.file);
  if (!node.fd) give_up(node, std::generic_category().message(errno));
}

void LogGather::give_up(Node& node, const std::string& what) {
  node.fd.reset();
  if (notes_.size() < kNotesMax)
    notes_.push_back("the log file " + node.file + " cannot be written below " + folder_ + ": " + what +
                     "; it stays on its node");
}

bool LogGather::within_limits(Node& node) {
  if (node.over_limit) return false;
  if (node.files <= limits_.files && node.bytes <= limits_.bytes) return true;
  node.over_limit = true;
  give_up(node, "its node sends more than " + std::to_string(limits_.files) + " files or " +
                    std::to_string(limits_.bytes >> 30U) + " GiB");
  return false;
}

void LogGather::write(Node& node, std::string_view bytes) {
  node.bytes += bytes.size();
  if (!within_limits(node)) return;
  if (node.fd && !write_all(node.fd.get(), bytes)) give_up(node, std::generic_category().message(errno));
}

void LogGather::receive(std::size_t index, const std::string& name, std::string_view file,
                        std::shared_ptr<rendezvous::Channel> channel) {
  if (!is_safe_name(file))
    throw std::invalid_argument("a log file's name leaves the log directory: " +
                                std::string(file.substr(0, kNameMax)));
  if (!file.starts_with(name + "/") || file.size() > kNameMax)
    throw std::invalid_argument("a log file that is not the node's own: " +
                                std::string(file.substr(0, kNameMax)));
  Node& node = nodes_[index];
  if (node.channel) throw std::invalid_argument("a log file before the end of another: " + std::string(file));
  node.file = file;
  open(node);
  rendezvous::Channel::Handlers handlers;
  handlers.data = [this, &node](std::string_view bytes) {
    write(node, bytes);
    node.channel->consumed(bytes.size());
  };
  handlers.closed = [&node](const std::string& reason) {
    if (reason != agent::kAllWasSent) return;
    node.fd.reset();
    node.channel.reset();
  };
  channel->handle(std::move(handlers));
  node.channel = std::move(channel);
}

std::vector<std::string> LogGather::notes() const {
  std::vector<std::string> all = notes_;
  for (const auto& [index, node] : nodes_)
    if (node.fd) all.push_back("the log file " + node.file + " came in part only: its node was lost");
  return all;
}

}  // namespace muster::launcher
