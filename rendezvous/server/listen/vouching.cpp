// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/listen/vouching.hpp"

#include <utility>

namespace muster::rendezvous {

std::uint64_t Vouching::ask(const std::vector<SessionId>& sessions, Done done) {
  const std::uint64_t id = next_++;
  Question& question = questions_.try_emplace(id, executor_).first->second;
  question.waiting.insert(sessions.begin(), sessions.end());
  question.done = std::move(done);
  question.timer.expires_after(kVouchTimeout);
  question.timer.async_wait([this, id, alive = std::weak_ptr(alive_)](boost::system::error_code error) {
    if (!error && !alive.expired())
      settle(id, false,
             "the agent of its host did not say whose it is within " + std::to_string(kVouchTimeout.count()) +
                 " ms");
  });
  return id;
}

void Vouching::answered(SessionId session, const Vouched& answer) {
  const auto found = questions_.find(answer.id);
  if (found == questions_.end() || found->second.waiting.erase(session) == 0) return;
  if (answer.allowed)
    settle(answer.id, true, "");
  else if (found->second.waiting.empty())
    settle(answer.id, false, answer.reason);
}

void Vouching::gone(SessionId session) {
  std::vector<std::uint64_t> without_hope;
  for (auto& [id, question] : questions_)
    if (question.waiting.erase(session) > 0 && question.waiting.empty()) without_hope.push_back(id);
  for (const std::uint64_t id : without_hope) settle(id, false, "the agent of its host is gone");
}

void Vouching::settle(std::uint64_t id, bool allowed, const std::string& reason) {
  const auto found = questions_.find(id);
  if (found == questions_.end()) return;
  const Done done = std::move(found->second.done);
  questions_.erase(found);
  done(allowed, reason);
}

}  // namespace muster::rendezvous
