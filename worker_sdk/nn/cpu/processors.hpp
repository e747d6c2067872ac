// SPDX-License-Identifier: Apache-2.0
// What networks are computed with on this machine, and by how many threads. No library of kernels shows here.
#pragma once

#include "worker_sdk/nn/network.hpp"

#include <string>

namespace muster::nn {

/// The instructions that this processor computes networks with, for example "avx512_core_amx": two processors
/// with other ones get other last bits.
std::string instruction_set();

/// Threads that the calling thread's computations use: oneDNN's and ours share one OpenMP pool.
/// OMP_NUM_THREADS, else the processors. 1 in a build without OpenMP.
int threads();
void set_threads(int count);

/// Whether the precision is computed natively here.
bool supports(Precision precision);
/// Whether it is also worth its while: not slower than f32.
bool is_fast(Precision precision);

}  // namespace muster::nn
