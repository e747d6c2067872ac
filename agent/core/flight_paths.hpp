// SPDX-License-Identifier: Apache-2.0
// The names under which PyTorch's NCCL flight recorders of a job write, where the user has chosen none. Pure.
#pragma once

#include "rendezvous/protocol/ids.hpp"

#include <string>
#include <string_view>

namespace muster::agent {

/// The variables with the file that a recorder writes, behind which the rank follows; the second is the
/// earlier name.
inline constexpr const char* kFlightFileVariables[] = {"TORCH_FR_DUMP_TEMP_FILE",
                                                       "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"};

/// The variable with the name of the pipe by which it is asked to, behind which the rank and ".pipe" follow.
inline constexpr const char* kFlightPipeVariable = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE";

/// What a job puts into these for one of its rounds.
std::string flight_file(const std::string& folder, rendezvous::RoundNumber round);
std::string flight_pipe(const std::string& folder, rendezvous::RoundNumber round);

/// Whether a variable has what a job has put there. In the environment that a job inherits that is a job
/// around it, whose ranks write there, too.
bool is_of_outer_job(std::string_view name, std::string_view value);

}  // namespace muster::agent
