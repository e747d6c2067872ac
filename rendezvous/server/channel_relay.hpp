// SPDX-License-Identifier: Apache-2.0
// Two channels of two sessions, joined. No Asio.
#pragma once

#include "rendezvous/client/channel.hpp"

#include <memory>

namespace muster::rendezvous {

/// Passes on what comes from either to the other, as fast as that takes it: a byte is given back to its
/// sender when it has been passed on. The end of one is the end of the other. The pair keeps itself alive
/// until then.
void relay(std::shared_ptr<Channel> one, std::shared_ptr<Channel> other);

}  // namespace muster::rendezvous
