// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace muster::launcher {

/// Decodes `bytes` as the payload of one tree frame, and its body where that is JSON; aborts when a frame,
/// plan or end does not survive the way back. Returns whether it was accepted whole.
bool check_tree_frame(std::string_view bytes);

}  // namespace muster::launcher
