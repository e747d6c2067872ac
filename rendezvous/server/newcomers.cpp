// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/newcomers.hpp"

#include <utility>

namespace muster::rendezvous {
namespace {

/// Connections with one key whose hello has not been looked at yet. A node needs one, or two after a reset
/// that it has seen and we have not.
constexpr std::size_t kMostOfOne = 4;

}  // namespace

void Newcomers::add(std::unique_ptr<ByteStream> stream, PeerPlace place) {
  auto newcomer =
      std::make_shared<Newcomer>(executor_, std::move(stream), std::move(place),
                                 [this](const std::shared_ptr<Newcomer>& self, const Message* message) {
                                   forget(self);
                                   if (!closed_) first_message_(self, message);
                                 });
  hold(newcomer);
  newcomer->start();
}

void Newcomers::hold(const std::shared_ptr<Newcomer>& newcomer) {
  if (!all_.insert(newcomer).second) return;
  if (newcomer->place().identity) {
    auto& same = of_identity_[newcomer->place().identity->text()];
    same.push_back(newcomer);
    if (same.size() > kMostOfOne) {
      const std::shared_ptr<Newcomer> oldest = same.front();
      forget(oldest);
      oldest->close();
    }
  } else {
    ++local_;
  }
}

void Newcomers::forget(const std::shared_ptr<Newcomer>& newcomer) {
  if (all_.erase(newcomer) == 0) return;
  if (!newcomer->place().identity) {
    --local_;
    return;
  }
  const auto found = of_identity_.find(newcomer->place().identity->text());
  std::erase(found->second, newcomer);
  if (found->second.empty()) of_identity_.erase(found);
}

void Newcomers::close() {
  closed_ = true;
  for (const auto& newcomer : all_) newcomer->close();
  all_.clear();
  of_identity_.clear();
  local_ = 0;
}

}  // namespace muster::rendezvous
