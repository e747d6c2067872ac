// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/munge/credential_reader.hpp"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

namespace muster::rendezvous {

struct CredentialReader::Attempt {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::optional<ProvenClient> client;
  std::string reason;

  bool is_done() {
    const std::lock_guard lock(mutex);
    return done;
  }
};

bool CredentialReader::may_read(const std::string& address, TimePoint now, std::string& reason) {
  if (now - second_ >= std::chrono::seconds(1)) {
    second_ = now;
    bad_ = 0;
    bad_of_.clear();
  }
  if (unanswered_ && unanswered_->is_done()) unanswered_.reset();
  const auto found = bad_of_.find(address);
  if (unanswered_)
    reason = "munge: its daemon on this host has not answered for an earlier credential";
  else if (bad_ >= limits_.of_all || (found != bad_of_.end() && found->second >= limits_.of_address))
    reason = "munge: too many bad credentials within a second";
  else
    return true;
  return false;
}

std::optional<ProvenClient> CredentialReader::read(std::string_view identity, const std::string& address,
                                                   TimePoint now, std::string& reason) {
  if (!may_read(address, now, reason)) return std::nullopt;
  const auto attempt = std::make_shared<Attempt>();
  // Its library knows no deadline.
  std::thread([attempt, read = read_, text = std::string(identity)] {
    std::string why;
    std::optional<ProvenClient> client = read(text, why);
    const std::lock_guard lock(attempt->mutex);
    attempt->client = std::move(client);
    attempt->reason = std::move(why);
    attempt->done = true;
    attempt->changed.notify_all();
  }).detach();
  std::unique_lock lock(attempt->mutex);
  if (!attempt->changed.wait_for(lock, limits_.wait, [&] { return attempt->done; })) {
    unanswered_ = attempt;
    reason = "munge: its daemon on this host does not answer; is munged overloaded or stopped?";
    return std::nullopt;
  }
  std::optional<ProvenClient> client = std::move(attempt->client);
  reason = attempt->reason;
  if (!client) {
    ++bad_;
    ++bad_of_[address];
  }
  return client;
}

}  // namespace muster::rendezvous
