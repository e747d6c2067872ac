// SPDX-License-Identifier: Apache-2.0
// What comes from outside, read by our parsers: what must hold for any input, as used by the fuzzers and by
// corpus_test.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace muster::fuzz {

/// Ends the process with a line that names what is broken.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

// Each gives `input` to a parser, which the first byte of it chooses where there are several, and aborts if
// what must hold for any text does not. It lets through every exception but the one by which the parser says
// no, and returns whether the parser took the text.

/// Files of a checkpoint: S a safetensors file, M a manifest.
bool check_checkpoint_input(std::string_view input);

/// The launcher's command line and variables: A arguments, G CUDA_VISIBLE_DEVICES, T text for a terminal,
/// N names of jobs, others the values of flags.
bool check_cli_input(std::string_view input);

/// A --config file of muster-train.
bool check_config_input(std::string_view input);

/// What the agent is sent: E an error file, L a message between launcher and agent, S a spec, R a report,
/// Q a question about its node, N the status of a node.
bool check_error_file_input(std::string_view input);

/// Control frames, whole and in pieces, and each frame as a message. Whether any message was accepted.
bool check_frame_input(std::string_view input);

/// H a host list, F a hostfile, S a node list of Slurm's, T task counts, others a filter; workers are placed
/// on what comes out.
bool check_hosts_input(std::string_view input);

/// What comes before a peer has proved itself: G what a login shell prints before the agent's greeting, I a
/// TLS identity, C the text inside a credential of munge, H hellos, some of which were seen before, R a
/// series of credentials, good, bad and slow.
bool check_login_input(std::string_view input);

/// A dump of NCCL's flight recorder, which is a pickle.
bool check_pickle_input(std::string_view input);

/// What one rank reads of another: B what it posts on the board of NCCL's calls, S a status page, N a note
/// that MPI carries, E the endpoint that MPI carries.
bool check_ranks_input(std::string_view input);

/// What is read of another process to find its Python stacks: P its memory, E its binary, M its map, W what
/// the kernel says of it, others a line table.
bool check_stacks_input(std::string_view input);

/// What a worker prints, through the filter before a terminal (terminal_check.hpp).
bool check_terminal_input(std::string_view input);

/// What a client sends to the store (wire_check.hpp); the first byte chooses limits and pieces.
bool check_wire_input(std::string_view input);

}  // namespace muster::fuzz
