// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/channel.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace muster::rendezvous {
namespace {

class Relay : public std::enable_shared_from_this<Relay> {
 public:
  Relay(std::shared_ptr<Channel> one, std::shared_ptr<Channel> other)
      : sides_{Side{std::move(one), ""}, Side{std::move(other), ""}} {}

  void start() {
    for (const std::size_t from : {std::size_t{0}, std::size_t{1}}) {
      Channel::Handlers handlers;
      handlers.data = [self = shared_from_this(), from](std::string_view bytes) {
        self->sides_[1 - from].waiting += bytes;
        self->pass_on(1 - from);
      };
      handlers.writable = [self = shared_from_this(), from] { self->pass_on(from); };
      handlers.closed = [self = shared_from_this(), from](const std::string& reason) {
        self->end(1 - from, reason);
      };
      sides_[from].channel->handle(std::move(handlers));
    }
  }

 private:
  struct Side {
    std::shared_ptr<Channel> channel;
    /// The bytes for this side that are not sent yet, at most the credit of their sender.
    std::string waiting;
  };

  void pass_on(std::size_t to) {
    Side& side = sides_[to];
    Side& from = sides_[1 - to];
    while (side.channel && !side.waiting.empty()) {
      const std::size_t count = std::min(side.waiting.size(), side.channel->writable());
      if (count == 0) return;
      side.channel->send(std::string_view(side.waiting).substr(0, count));
      side.waiting.erase(0, count);
      if (from.channel) from.channel->consumed(count);
    }
  }

  /// Ends the pair after the partner of `to` has ended. Bytes that the partner sent before are passed on as
  /// far as `to` takes them at once.
  void end(std::size_t to, const std::string& reason) {
    const auto self = shared_from_this();
    pass_on(to);
    sides_[1 - to].channel.reset();
    const std::shared_ptr<Channel> last = std::exchange(sides_[to].channel, nullptr);
    if (last) last->close(reason);
  }

  std::array<Side, 2> sides_;
};

}  // namespace

void relay(std::shared_ptr<Channel> one, std::shared_ptr<Channel> other) {
  std::make_shared<Relay>(std::move(one), std::move(other))->start();
}

}  // namespace muster::rendezvous
