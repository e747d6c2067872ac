// SPDX-License-Identifier: Apache-2.0
// Work that the kernel may hold up, as a file server that does not answer does, without who wants it done.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace muster::launcher {

/// Does `work` in a process of its own, which is forked, and waits for its end; false: that has not come
/// within `at_most`. Then it is killed, and left behind where the kernel holds it. What `work` throws is
/// nothing: whoever does the same again meets it. Call it while there is one thread. Throws
/// std::system_error.
bool ends_within(std::chrono::milliseconds at_most, const std::function<void()>& work);

inline constexpr std::chrono::seconds kFolderAnswersWithin{3};

/// Lists a folder as above, before who calls looks into it, whether it is there or not. Throws LaunchError
/// (125) where that takes longer than kFolderAnswersWithin: "`what` FOLDER: its file system has not
/// answered...".
void check_folder_answers(const std::string& what, const std::string& folder);

}  // namespace muster::launcher
