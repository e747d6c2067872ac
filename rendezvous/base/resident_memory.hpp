// SPDX-License-Identifier: Apache-2.0
// Gives back pages of our own file that a long job has no more use for. Nothing is lost: a page that is
// wanted after all comes back from the file, which the kernel keeps as long as it likes.
#pragma once

#include <chrono>

namespace muster {

/// Gives back the table of relocations, more than half a megabyte: the dynamic linker has read it, and nobody
/// reads it again.
void give_back_relocations();

/// The time from the beginning of a process of ours until it gives back its code: what it does only at its
/// start is done by then, and a job that ends sooner does not pay for pages that come back for its end.
/// The guardian does not wait for it: it has nothing to do from its start to the end.
inline constexpr std::chrono::milliseconds kStartTakes{200};

/// Gives back the code and the constants that were used so far. Call it where most of them, as the reading of
/// the command line, are not used again.
void give_back_code();

}  // namespace muster
