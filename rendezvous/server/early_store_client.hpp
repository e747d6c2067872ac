// SPDX-License-Identifier: Apache-2.0
// What a client of the store wants that came before there is one: a stock torchrun agent is told by its keys.
// Includes Asio.
#pragma once

#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/protocol/ids.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <string>
#include <string_view>

namespace muster::rendezvous {

/// What the first bytes of such a client tell. No request is carried out.
struct EarlyWords {
  enum class Kind {
    unclear,  ///< too few bytes yet
    torchrun,
    other,
  };
  Kind kind = Kind::unclear;
  /// Points into the bytes: without this answer torchrun says no more. Empty: nothing is to be answered.
  std::string_view pong{};
};

/// `said`: all bytes so far. Pure.
EarlyWords read_early_words(std::string_view said);

/// Looks at the key of its first request, for which it reads less than 64 bytes, answers 4 bytes at most and
/// waits until `deadline` at most; then the connection is closed. Returns why it is refused, for the log.
boost::asio::awaitable<std::string> describe_early_client(boost::asio::any_io_executor executor, UniqueFd fd,
                                                          TimePoint deadline);

/// Ends a connection that begins with TLS where nobody speaks it, with `words` and a line end: a node shows
/// its user what something that is no coordinator answers, and does not try again.
void answer_plainly(UniqueFd fd, const std::string& words);

}  // namespace muster::rendezvous
