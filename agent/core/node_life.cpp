// SPDX-License-Identifier: Apache-2.0
#include "agent/core/node_life.hpp"

#include "rendezvous/base/invariant.hpp"

namespace muster::agent {

void NodeLife::enter(Phase next, bool allowed) {
  MUSTER_ASSERT(allowed, "a node goes from one phase to the next only as its table allows");
  phase_ = next;
}

void NodeLife::dial() {
  enter(connecting, phase_ == starting);
}

void NodeLife::join() {
  enter(joining, phase_ == starting || phase_ == connecting || phase_ == leaving || phase_ == recalled);
  connected_ = true;
}

void NodeLife::run() {
  enter(running, phase_ == joining);
  had_workers_ = true;
}

void NodeLife::leave() {
  enter(leaving, phase_ == running);
}

void NodeLife::wait() {
  enter(waiting, phase_ == leaving);
}

void NodeLife::recall() {
  enter(recalled, phase_ == waiting);
}

void NodeLife::report() {
  enter(reporting, phase_ != over);
}

void NodeLife::end() {
  enter(over, phase_ == reporting);
}

StopBy NodeLife::stop(int signal) {
  if (stop_signal_ == 0) stop_signal_ = signal;
  if (before_round()) return StopBy::hanging_up;
  return had_workers_ ? StopBy::the_workers : StopBy::nothing;
}

}  // namespace muster::agent
