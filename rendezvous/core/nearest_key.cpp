// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/core/nearest_key.hpp"

#include "rendezvous/base/nearest_name.hpp"

#include <algorithm>

namespace muster::rendezvous {
namespace {

std::size_t common_beginning(std::string_view a, std::string_view b) {
  std::size_t same = 0;
  while (same < a.size() && same < b.size() && a[same] == b[same]) ++same;
  return same;
}

std::size_t common_end(std::string_view a, std::string_view b) {
  std::size_t same = 0;
  while (same < a.size() && same < b.size() && a[a.size() - 1 - same] == b[b.size() - 1 - same]) ++same;
  return same;
}

}  // namespace

void NearestKey::offer(std::string_view key) {
  const std::size_t most = std::min(missing_.size() / 3 + 1, least_);
  const std::size_t longer = std::max(key.size(), missing_.size());
  if (longer - std::min(key.size(), missing_.size()) > most) return;
  const std::size_t prefix = common_beginning(missing_, key);
  std::string_view ours = missing_.substr(prefix);
  std::string_view theirs = key.substr(prefix);
  const std::size_t end = common_end(ours, theirs);
  ours.remove_suffix(end);
  theirs.remove_suffix(end);
  // At most so many letters differ; fewer may, which is worth the effort only where it is small.
  std::size_t differing = std::max(ours.size(), theirs.size());
  const std::size_t effort = ours.size() * theirs.size();
  if (tries_ + effort <= kNearestTriesMax) {
    tries_ += effort;
    differing = edit_distance(ours, theirs);
  }
  if (differing > most) return;
  if (differing == least_ && (prefix < prefix_ || (prefix == prefix_ && key >= nearest_))) return;
  least_ = differing;
  prefix_ = prefix;
  nearest_ = key;
}

std::string nearest_key(const Store& store, std::string_view missing) {
  NearestKey nearest(missing);
  store.for_each_key([&nearest](std::string_view key) { nearest.offer(key); }, kNearestKeysMax);
  return nearest.found();
}

}  // namespace muster::rendezvous
