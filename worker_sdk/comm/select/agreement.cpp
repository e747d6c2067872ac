// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/select/agreement.hpp"

#include "muster/error.hpp"

#include <algorithm>
#include <utility>

namespace muster::select {
namespace {

/// The character between the ranks' texts, which do not contain it.
constexpr char kSeparator = '\x1e';
constexpr std::size_t kMaxTextBytes = 2000;

std::string cleaned(std::string text) {
  text.resize(std::min(text.size(), kMaxTextBytes));
  std::replace(text.begin(), text.end(), kSeparator, '?');
  return text;
}

}  // namespace

Agreement::Agreement(StoreClient& store, std::string prefix, int rank, int size,
                     std::chrono::milliseconds timeout, std::function<void()> look)
    : store_(store),
      prefix_(std::move(prefix)),
      rank_(rank),
      size_(size),
      timeout_(timeout),
      look_(std::move(look)) {}

void Agreement::wait(const std::vector<std::string>& keys) {
  if (!look_) return store_.wait(keys, timeout_);
  wait_and_look(store_, keys, timeout_, look_);
}

/// Gathers through rank 0, which collects all entries and hands them out: 64 ranks make some 200 requests
/// instead of 4,000.
std::vector<std::string> Agreement::gather(const std::string& topic, const std::string& mine) {
  if (size_ == 1) return {mine};
  const std::string all = prefix_ + topic + "/all";
  store_.set(prefix_ + topic + "/" + std::to_string(rank_), cleaned(mine));
  try {
    if (rank_ == 0) {
      std::vector<std::string> keys;
      for (int peer = 0; peer < size_; ++peer) keys.push_back(prefix_ + topic + "/" + std::to_string(peer));
      wait(keys);
      std::string joined;
      for (const std::string& key : keys) joined += store_.get(key) + kSeparator;
      store_.set(all, joined);
    } else {
      wait({all});
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::deadline || store_.is_silent()) throw;
    throw Error(ErrorCode::deadline, "rank " + std::to_string(rank_) + " waited " +
                                         std::to_string(timeout_.count()) + " ms for " + missing(topic) +
                                         " to agree on a backend; see whether these ranks have started and "
                                         "use the same store and round");
  }
  const std::string joined = store_.get(all);
  std::vector<std::string> result;
  for (std::size_t begin = 0; begin < joined.size();) {
    const auto end = joined.find(kSeparator, begin);
    result.push_back(joined.substr(begin, end - begin));
    begin = end + 1;
  }
  if (result.size() != static_cast<std::size_t>(size_))
    throw Error(ErrorCode::mismatch, "rank 0 has a world of " + std::to_string(result.size()) +
                                         " ranks and rank " + std::to_string(rank_) + " one of " +
                                         std::to_string(size_) +
                                         "; start all ranks with the same world size");
  return result;
}

std::string Agreement::missing(const std::string& topic) {
  std::string text;
  for (int peer = 0; peer < size_; ++peer)
    if (!store_.check({prefix_ + topic + "/" + std::to_string(peer)}))
      text += (text.empty() ? "rank " : ", rank ") + std::to_string(peer);
  return text.empty() ? "rank 0" : text;
}

}  // namespace muster::select
