// SPDX-License-Identifier: Apache-2.0
// A channel whose other end is the test.
#pragma once

#include "rendezvous/protocol/limits.hpp"
#include "rendezvous/wire/channel.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace muster::test {

class FakeChannel final : public rendezvous::Channel {
 public:
  void handle(Handlers handlers) override { told = std::move(handlers); }

  std::size_t writable() const override { return room; }

  void send(std::string_view bytes) override {
    sent += bytes;
    room -= bytes.size();
  }

  void consumed(std::size_t bytes) override { given_back += bytes; }

  void close(const std::string& reason) override { closed = reason; }

  Handlers told;
  std::size_t room = rendezvous::kMiB;
  std::string sent;
  std::size_t given_back = 0;
  std::optional<std::string> closed;
};

}  // namespace muster::test
