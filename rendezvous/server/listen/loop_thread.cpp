// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/listen/loop_thread.hpp"

#include "rendezvous/base/quiet_thread.hpp"

#include <sys/resource.h>

#include <exception>
#include <utility>

namespace muster::rendezvous {
namespace {

constexpr int kNicer = 5;

}  // namespace

LoopThread::LoopThread(std::function<void(const std::string&)> failed)
    : busy_(context_.get_executor()), failed_(std::move(failed)) {
  // Only the threads that were there before handle signals.
  thread_ = quiet_thread([this] { run(); });
}

LoopThread::~LoopThread() {
  stop();
}

void LoopThread::stop() {
  context_.stop();
  if (thread_.joinable()) thread_.join();
}

void LoopThread::run() {
  // On Linux this sets the priority of the calling thread alone, so that other threads get a contested
  // processor first.
  (void)::setpriority(PRIO_PROCESS, 0, ::getpriority(PRIO_PROCESS, 0) + kNicer);
  for (;;) {
    try {
      context_.run();
      return;
    } catch (const std::exception& error) {
      failed_(error.what());
    }
  }
}

}  // namespace muster::rendezvous
