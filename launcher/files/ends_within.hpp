// SPDX-License-Identifier: Apache-2.0
// Work that the kernel may hold up, as a file server that does not answer does, without who wants it done.
#pragma once

#include <chrono>
#include <functional>

namespace muster::launcher {

/// Does `work` in a process of its own, which is forked, and waits for its end; false: that has not come
/// within `at_most`. Then it is killed, and left behind where the kernel holds it. What `work` throws is
/// nothing: whoever does the same again meets it. Call it while there is one thread. Throws
/// std::system_error.
bool ends_within(std::chrono::milliseconds at_most, const std::function<void()>& work);

}  // namespace muster::launcher
