// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace muster::rendezvous {

/// Decodes `bytes` as control frames at once and byte by byte, and each frame as a message; aborts when the
/// two ways differ or a message does not survive the way through JSON. Returns how many messages were
/// accepted.
int check_frames(std::string_view bytes);

}  // namespace muster::rendezvous
