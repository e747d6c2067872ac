// SPDX-License-Identifier: Apache-2.0
// Finds out what a store client wants that came before there is a store: a stock torchrun agent is recognised
// by its keys. Includes Asio.
#pragma once

#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/protocol/ids.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <string>
#include <string_view>

namespace muster::rendezvous {

/// What the first bytes of a client tell. No request is carried out.
struct EarlyWords {
  enum class Kind {
    unclear,  ///< too few bytes yet
    torchrun,
    other,
  };
  Kind kind = Kind::unclear;
  /// The answer without which torchrun says no more; points into the bytes. Empty: no answer is due.
  std::string_view pong{};
};

/// Reads the first bytes of a client. `said`: all bytes so far. Pure.
EarlyWords read_early_words(std::string_view said);

/// Looks at the key of the client's first request; reads less than 64 bytes, answers at most 4 bytes and
/// waits until `deadline` at most; then closes the connection. Returns why the client is refused, for the
/// log.
boost::asio::awaitable<std::string> describe_early_client(boost::asio::any_io_executor executor, UniqueFd fd,
                                                          TimePoint deadline);

/// Ends a TLS connection at a port that does not speak TLS, with `words` and a line end: a node shows such an
/// answer to its user and does not try again.
void answer_plainly(UniqueFd fd, const std::string& words);

}  // namespace muster::rendezvous
