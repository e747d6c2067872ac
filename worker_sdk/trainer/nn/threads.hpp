// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace muster::nn {

/// Threads that the calling thread's computations use: oneDNN's and ours share one OpenMP pool.
/// OMP_NUM_THREADS, else the processors. 1 in a build without OpenMP.
int threads();
void set_threads(int count);

}  // namespace muster::nn
