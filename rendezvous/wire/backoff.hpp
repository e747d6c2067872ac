// SPDX-License-Identifier: Apache-2.0
// Computes how long to wait before trying again. Pure: the randomness comes from outside.
#pragma once

#include "rendezvous/protocol/ids.hpp"

#include <functional>

namespace muster::rendezvous {

struct BackoffOptions {
  /// The first wait, before jitter.
  Milliseconds base{500};
  /// Each wait is this many times the one before; at least 1.
  double factor = 1.5;
  /// The share of a wait that is random, 0..1: with 0.5 a wait of 100 ms lasts 50 to 150 ms.
  double jitter = 0.5;
  /// The longest wait, jitter included.
  Milliseconds cap{60000};
};

/// The waits between tries, which grow by the factor up to the cap, apart from the jitter. One thread.
class Backoff {
 public:
  /// `random` gives numbers from 0 up to but not including 1.
  Backoff(BackoffOptions options, std::function<double()> random);

  /// The wait before the next try.
  Milliseconds next();

  /// Begins with the base again, after a success.
  void reset();

 private:
  BackoffOptions options_;
  std::function<double()> random_;
  double wait_ms_;
};

}  // namespace muster::rendezvous
