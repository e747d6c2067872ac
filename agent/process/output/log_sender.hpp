// SPDX-License-Identifier: Apache-2.0
// Sends the log files of a node to its launcher at the end of the job (--gather-logs). Includes Asio.
#pragma once

#include "agent/process/output/link_console.hpp"
#include "rendezvous/wire/event.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <string>

namespace muster::agent {

/// One file after the other, as fast as the launcher takes them. One thread, the executor's.
class LogSender {
 public:
  /// `console` outlives the sender.
  LogSender(const boost::asio::any_io_executor& executor, LinkConsole& console)
      : executor_(executor), console_(console), room_(executor) {}

  /// Every regular file below `folder`, under the name `prefix`/PATH. Ends early when the console is given
  /// up. A file that cannot be read is a warning.
  boost::asio::awaitable<void> send(std::string folder, std::string prefix);

 private:
  boost::asio::awaitable<void> send_file(std::string path, std::string name);

  boost::asio::any_io_executor executor_;
  LinkConsole& console_;
  rendezvous::Event room_;
};

}  // namespace muster::agent
