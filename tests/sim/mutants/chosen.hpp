// SPDX-License-Identifier: Apache-2.0
// Which of the planted bugs is switched on.
#pragma once

namespace muster::rendezvous::sim {

/// Its place in mutants.txt, from 0; -1: none, the code as it is.
inline int chosen_mutant = -1;

inline bool mutant_is(int number) {
  return chosen_mutant == number;
}

}  // namespace muster::rendezvous::sim
