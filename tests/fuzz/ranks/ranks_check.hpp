// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

/// What one rank reads of another: the first byte says which reader gets the rest. 'B': what another rank
/// posts on the board of NCCL's calls; 'S': a status page; 'N': a note that MPI carries; 'E': the endpoint
/// that MPI carries. Aborts where something does not hold. True when it was taken for what it should be: a
/// record, a claimed page, a note, an endpoint.
bool check_ranks_input(std::string_view input);
