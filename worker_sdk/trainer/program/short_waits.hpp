// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace muster::examples {

/// Lets threads of one parallel loop spin for some 50 us before they sleep. GCC's OpenMP spins for
/// milliseconds: where another program wants the processor, threads then wait in turn for one that does not
/// run, and training takes many times as long. OpenMP reads how long from the environment when it is loaded,
/// so this starts the program anew, as the same process, with the variable that says it; returns when that
/// is set, or the user has said otherwise (GOMP_SPINCOUNT, OMP_WAIT_POLICY), or it cannot be done. The first
/// thing that a program does.
void wait_shortly(char** argv);

}  // namespace muster::examples
