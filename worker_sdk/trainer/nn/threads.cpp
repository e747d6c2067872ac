// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/trainer/nn/threads.hpp"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace muster::nn {

#ifdef _OPENMP
int threads() {
  return omp_get_max_threads();
}

void set_threads(int count) {
  omp_set_num_threads(count);
}
#else
int threads() {
  return 1;
}

void set_threads(int) {}
#endif

}  // namespace muster::nn
