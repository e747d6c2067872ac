// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/network.hpp"

#include "tests/sim/referee.hpp"

#include <algorithm>
#include <utility>

namespace muster::rendezvous::sim {
namespace {

/// Real jobs have a few dozen.
constexpr int kMaxEventsAtOnce = 10000;

}  // namespace

std::int64_t Timeline::random(std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(high - low + 1));
}

void Timeline::after(std::int64_t delay_ms, Action action) {
  queue_.push(Event{now_ms_ + delay_ms, next_order_++, std::move(action)});
}

void Timeline::step() {
  const Event event = queue_.top();
  queue_.pop();
  events_of_now_ = event.at_ms == now_ms_ ? events_of_now_ + 1 : 0;
  if (events_of_now_ > kMaxEventsAtOnce) throw Violation("time stands still: a timer rings again and again");
  now_ms_ = event.at_ms;
  event.action();
}

void Direction::put(Action action) {
  free_at_ = std::max(free_at_, timeline_.now_ms() + timeline_.random(0, 20));
  timeline_.after(free_at_ - timeline_.now_ms(), [alive = alive_, action = std::move(action)] {
    if (*alive) action();
  });
}

void Direction::block_until(std::int64_t ms) {
  free_at_ = std::max(free_at_, ms);
}

Packet SessionEnd::number(const Message& message) {
  if (!is_numbered(message)) return Packet{0, message};
  log.push_back(message);
  return Packet{log.size(), message};
}

std::vector<Packet> SessionEnd::after(std::uint64_t others_received) const {
  std::vector<Packet> packets;
  for (std::uint64_t number = others_received + 1; number <= log.size(); ++number)
    packets.push_back(Packet{number, log[number - 1]});
  return packets;
}

void SessionEnd::take(const Packet& packet) {
  if (packet.number == 0) return;
  if (packet.number != received + 1)
    throw Violation("message " + std::to_string(packet.number) + " of a session comes after " +
                    std::to_string(received));
  received = packet.number;
}

}  // namespace muster::rendezvous::sim
