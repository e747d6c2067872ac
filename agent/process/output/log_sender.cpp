// SPDX-License-Identifier: Apache-2.0
#include "agent/process/output/log_sender.hpp"

#include "agent/core/link_message.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/log/log.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace muster::agent {

namespace asio = boost::asio;
namespace fs = std::filesystem;
using asio::awaitable;

namespace {

std::string errno_text() {
  return std::generic_category().message(errno);
}

std::vector<fs::path> files_below(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> files;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    if (entry->is_regular_file(error) && !entry->is_symlink(error)) files.push_back(entry->path());
  return files;
}

}  // namespace

awaitable<void> LogSender::send(std::string folder, std::string prefix) {
  for (const fs::path& file : files_below(folder)) {
    if (console_.given_up()) break;
    std::error_code error;
    std::string path = file.string();
    std::string name = prefix + "/" + fs::relative(file, folder, error).string();
    co_await send_file(std::move(path), std::move(name));
    // Small files fit into the window, and many of them would let nobody else have a turn.
    co_await asio::post(executor_, asio::use_awaitable);
  }
}

awaitable<void> LogSender::send_file(std::string path, std::string name) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file) {
    log_warning("the log file " + path + " is not sent: it cannot be opened (" + errno_text() + ")");
    co_return;
  }
  const auto sink = console_.make_sink(std::string(kFileChannel) + name, [this] { room_.set(); });
  std::string buffer(kLinkPieceBytes, '\0');
  for (;;) {
    const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      log_warning("the log file " + path + " is sent in part only: it cannot be read (" + errno_text() +
                  "); the whole one stays there");
    if (got <= 0) break;
    sink->append(std::string_view(buffer).substr(0, static_cast<std::size_t>(got)));
    while (sink->full()) {
      room_.reset();
      co_await room_.wait();
    }
    // What the sink has to say is that the launcher takes no more.
    if (console_.given_up() || !sink->notes().empty()) co_return;
  }
  sink->stop();
}

}  // namespace muster::agent
