// SPDX-License-Identifier: Apache-2.0
// A line between a client and the daemon that can be cut, go dead, or be ended.
#pragma once

#include "tests/integration/control/control_fixture.hpp"

#include <cstddef>
#include <memory>
#include <string>

namespace muster::rendezvous::test {

class CuttingProxy {
 public:
  CuttingProxy(asio::io_context& context, const Endpoint& target);
  ~CuttingProxy();
  CuttingProxy(const CuttingProxy&) = delete;
  CuttingProxy& operator=(const CuttingProxy&) = delete;

  Endpoint endpoint() const;

  /// Resets every connection, both ways, as a firewall does.
  void cut();

  /// The connections there are now carry nothing any more, and nobody is told.
  void go_dead();

  /// Where the server sees new connections come from; empty: the kernel's choice.
  std::string from;
  /// While set, new connections are reset at once.
  bool refuse = false;
  std::size_t connections = 0;
  std::size_t to_server = 0;
  std::size_t to_client = 0;

 private:
  struct Lines;
  std::unique_ptr<Lines> lines_;
};

}  // namespace muster::rendezvous::test
