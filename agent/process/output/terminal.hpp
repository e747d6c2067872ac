// SPDX-License-Identifier: Apache-2.0
// Makes the pipes and ptys for workers, and tells what kind of file our own streams are.
#pragma once

#include "rendezvous/base/unique_fd.hpp"

namespace muster::agent {

/// The end that we read (non-blocking) and the end that a child gets; both are close-on-exec.
struct StreamEnds {
  UniqueFd ours;
  UniqueFd childs;
};

/// Makes a pipe. This and open_pty() throw std::system_error with the resource that is short and what to do.
StreamEnds open_pipe();
/// Makes a pty that looks like the terminal `like`: same settings and size, but it adds no carriage returns
/// and echoes nothing. It is nobody's controlling terminal.
StreamEnds open_pty(int like);

/// Copies the window size of terminal `from` to terminal `to`; nothing happens if either is no terminal.
void copy_window_size(int from, int to);

bool is_terminal(int fd);
/// Whether two descriptors are of the same terminal, pipe, socket or file.
bool same_file(int a, int b);

/// Whether workers may read the terminal that `in_fd` is: true if it is no terminal, or if our process group
/// (or, for a process in a session of its own, its nearest ancestor's that has this terminal) is the
/// foreground one. Where this is false, workers get the null device as stdin, because a background job must
/// not steal the shell's input.
bool console_is_foreground(int in_fd = 0);

}  // namespace muster::agent
