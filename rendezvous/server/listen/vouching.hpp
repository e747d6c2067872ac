// SPDX-License-Identifier: Apache-2.0
// Keeps the questions to agents about store clients' connections, and matches the answers. Includes Asio.
#pragma once

#include "rendezvous/protocol/message.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace muster::rendezvous {

/// The longest wait for an agent's answer.
inline constexpr Milliseconds kVouchTimeout{5000};

/// The open questions to agents. Used on the executor's thread only.
class Vouching {
 public:
  using Done = std::function<void(bool allowed, const std::string& reason)>;

  explicit Vouching(boost::asio::any_io_executor executor) : executor_(std::move(executor)) {}

  /// Notes a question to `sessions` (at least one); a yes of any of them is enough. Returns the question's
  /// number.
  std::uint64_t ask(const std::vector<SessionId>& sessions, Done done);
  /// Takes an answer; one that nobody waits for is ignored.
  void answered(SessionId session, const Vouched& answer);
  /// Tells that the node of this session will not answer any more.
  void gone(SessionId session);

  /// Drops all questions without an answer.
  void clear() { questions_.clear(); }

 private:
  struct Question {
    Question(const boost::asio::any_io_executor& executor) : timer(executor) {}

    std::set<SessionId> waiting;
    Done done;
    boost::asio::steady_timer timer;
  };

  void settle(std::uint64_t id, bool allowed, const std::string& reason);

  boost::asio::any_io_executor executor_;
  std::map<std::uint64_t, Question> questions_;
  std::uint64_t next_ = 1;
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace muster::rendezvous
