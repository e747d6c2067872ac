// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/parallel/agreement.hpp"

#include "muster/error.hpp"
#include "rendezvous/base/fnv1a.hpp"
#include "worker_sdk/comm/texts.hpp"
#include "worker_sdk/parallel/bucket_layout.hpp"
#include "worker_sdk/store/store_text.hpp"

#include <sstream>
#include <vector>

namespace muster::parallel {
namespace {

/// Of lines that are compared: 2^20 parameters of 256 bytes each.
constexpr std::int64_t kMostBytes = std::int64_t{1} << 28;
constexpr const char* kAgreed = "same";
/// The first character of a verdict that some ranks did not come.
constexpr char kLate = '!';

std::string hash_text(const std::string& lines) {
  return std::to_string(fnv1a(lines));
}

/// Waits for every key; names the ranks that did not write theirs, and tells the names to the others as well.
std::vector<std::string> gather_hashes(StoreClient& store, const std::vector<std::string>& keys,
                                       const std::string& verdict_key, const std::string& what,
                                       std::chrono::milliseconds limit) {
  try {
    store.wait(keys, limit);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::deadline) throw;
    std::string missing;
    for (std::size_t rank = 0; rank < keys.size(); ++rank)
      if (!store.check({keys[rank]})) missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
    const std::string text =
        "rank " + missing + " did not say within " + seconds_text(limit) + " " + what + "; look at its log";
    store.set(verdict_key, kLate + text);
    throw Error(ErrorCode::deadline, text);
  }
  return store.multi_get(keys);
}

/// "" where all are equal.
std::string difference_over_group(ProcessGroup& group, const Topic& topic, const std::string& lines) {
  const std::uint64_t mine = fnv1a(lines);
  std::uint64_t first = mine;
  group.broadcast(&first, sizeof first, 0);
  std::int32_t differing = first == mine ? group.size() : group.rank();
  group.all_reduce(&differing, 1, DataType::i32, ReduceOp::min);
  if (differing == group.size()) return "";
  const std::string zero = text_of(group, lines, 0, kMostBytes);
  return topic.difference(zero, text_of(group, lines, differing, kMostBytes), differing);
}

std::string difference_over_store(const ProcessGroup& group, StoreClient& store, const Topic& topic,
                                  const std::string& lines) {
  const auto limit = group.plan().options.timeout;
  const std::string place = "muster/" + topic.name + "/" + group.name() + "/";
  // A comparison is identified by its number, which every rank counts for itself.
  const std::string own_count = place + "made/" + std::to_string(group.rank());
  const std::string prefix = place + std::to_string(store.add(own_count, 1)) + "/";
  const std::string mine = hash_text(lines);
  const auto size = static_cast<std::size_t>(group.size());
  std::vector<std::string> keys(size);
  for (std::size_t rank = 0; rank < size; ++rank) keys[rank] = prefix + "hash/" + std::to_string(rank);
  const std::string& own_key = keys[static_cast<std::size_t>(group.rank())];
  const std::string verdict_key = prefix + "verdict";
  const auto text_key = [&](std::size_t rank) { return prefix + "text/" + std::to_string(rank); };

  std::string verdict = kAgreed;
  if (group.rank() == 0) {
    store.set(own_key, mine);
    const std::vector<std::string> hashes = gather_hashes(store, keys, verdict_key, topic.unsaid, limit);
    std::size_t differing = 0;
    while (differing < size && hashes[differing] == mine) ++differing;
    if (differing < size)
      verdict = topic.difference(lines, store.get(text_key(differing), limit), static_cast<int>(differing));
    store.set(verdict_key, verdict);
  } else {
    // A rank that differs writes its lines before it reports that it differs.
    if (store.get(keys[0], limit) != mine) store.set(text_key(static_cast<std::size_t>(group.rank())), lines);
    store.set(own_key, mine);
    verdict = store.get(verdict_key, 2 * limit);
    if (verdict.starts_with(kLate)) throw Error(ErrorCode::deadline, verdict.substr(1));
  }
  return verdict == kAgreed ? "" : verdict;
}

}  // namespace

std::string first_differing_line(const std::string& first, const std::string& other, int rank) {
  std::istringstream ours(first);
  std::istringstream theirs(other);
  const auto next = [](std::istringstream& lines) {
    std::string line;
    return std::getline(lines, line) ? line : std::string("no more");
  };
  std::string a = next(ours);
  std::string b = next(theirs);
  while (a == b && (ours || theirs)) {
    a = next(ours);
    b = next(theirs);
  }
  return "rank 0 has " + a + ", rank " + std::to_string(rank) + " has " + b;
}

void agree(ProcessGroup& group, StoreClient* store, const Topic& topic, const std::string& lines) {
  const std::string difference = store == nullptr ? difference_over_group(group, topic, lines)
                                                  : difference_over_store(group, *store, topic, lines);
  if (!difference.empty()) throw Error(ErrorCode::mismatch, topic.refusal + difference + "; " + topic.advice);
}

void require_same_layout(ProcessGroup& group, StoreClient* store, const std::string& description) {
  agree(group, store,
        {"layout", "which model it trains", "the ranks train different models; ",
         "start the same program with the same options on every rank",
         [](const std::string& first, const std::string& other, int rank) {
           return first_difference(first, 0, other, rank);
         }},
        description);
}

}  // namespace muster::parallel
