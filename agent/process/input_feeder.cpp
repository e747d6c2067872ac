// SPDX-License-Identifier: Apache-2.0
#include "agent/process/input_feeder.hpp"

#include "rendezvous/base/posix.hpp"

#include <boost/asio/write.hpp>
#include <fcntl.h>
#include <unistd.h>

#include <deque>
#include <system_error>
#include <utility>

namespace muster::agent {

namespace asio = boost::asio;

struct InputFeeder::State : std::enable_shared_from_this<State> {
  State(const asio::any_io_executor& executor, std::function<void(std::int64_t)> on_taken)
      : pipe(executor), taken(std::move(on_taken)) {}

  void write() {
    if (writing || !pipe.is_open() || queue.empty()) return close_at_end();
    writing = true;
    asio::async_write(pipe, asio::buffer(queue.front()),
                      [self = shared_from_this(), number = generation](const auto& error, std::size_t) {
                        self->wrote(number, static_cast<bool>(error));
                      });
  }

  void wrote(int number, bool failed) {
    // A write to a pipe that is gone does not count: its bytes are lost with the worker that was to read
    // them.
    if (number == generation) writing = false;
    if (closed || number != generation) return;
    if (failed) {
      // The worker has closed its stdin or ended; the launcher must not wait for it.
      boost::system::error_code ignored;
      pipe.close(ignored);
      discarding = true;
    }
    pop();
    if (discarding)
      while (!queue.empty()) pop();
    write();
  }

  void pop() {
    const auto size = static_cast<std::int64_t>(queue.front().size());
    queue.pop_front();
    if (taken) taken(size);
  }

  void close_at_end() {
    if (!writing && at_end && queue.empty() && pipe.is_open()) {
      boost::system::error_code ignored;
      pipe.close(ignored);
    }
  }

  asio::posix::stream_descriptor pipe;
  std::function<void(std::int64_t)> taken;
  std::deque<std::string> queue;
  int generation = 0;
  bool writing = false;
  bool discarding = false;
  bool at_end = false;
  bool closed = false;
};

InputFeeder::InputFeeder(const asio::any_io_executor& executor, std::function<void(std::int64_t)> taken)
    : state_(std::make_shared<State>(executor, std::move(taken))) {}

InputFeeder::~InputFeeder() {
  close();
}

int InputFeeder::open() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno("no pipe for the worker's stdin (ulimit -n)");
  child_end_.reset(ends[0]);
  boost::system::error_code ignored;
  state_->pipe.close(ignored);
  // A write to the old pipe that is under way has failed by now: its bytes went with its reader.
  if (std::exchange(state_->writing, false) && !state_->queue.empty()) state_->pop();
  ++state_->generation;
  state_->discarding = false;
  state_->pipe.assign(ends[1]);
  state_->write();
  return child_end_.get();
}

void InputFeeder::started() {
  child_end_.reset();
}

void InputFeeder::feed(std::string bytes) {
  if (state_->closed) return;
  if (bytes.empty())
    state_->at_end = true;
  else
    state_->queue.push_back(std::move(bytes));
  if (state_->discarding)
    while (!state_->queue.empty()) state_->pop();
  state_->write();
}

void InputFeeder::close() {
  state_->closed = true;
  state_->taken = nullptr;
  boost::system::error_code ignored;
  state_->pipe.close(ignored);
  child_end_.reset();
}

}  // namespace muster::agent
