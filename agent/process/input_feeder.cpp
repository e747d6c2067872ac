// SPDX-License-Identifier: Apache-2.0
#include "agent/process/input_feeder.hpp"

#include "agent/core/link_message.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/while_alive.hpp"

#include <boost/asio/write.hpp>
#include <fcntl.h>
#include <unistd.h>

#include <deque>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace muster::agent {

namespace asio = boost::asio;

struct InputFeeder::State : std::enable_shared_from_this<State> {
  explicit State(const asio::any_io_executor& executor) : pipe(executor) {}

  void feed(std::string_view bytes) {
    if (closed) return;
    queue.emplace_back(bytes);
    if (discarding)
      while (!queue.empty()) pop();
    write();
  }

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
    channel->consumed(queue.front().size());
    queue.pop_front();
  }

  void close_at_end() {
    if (!writing && at_end && queue.empty() && pipe.is_open()) {
      boost::system::error_code ignored;
      pipe.close(ignored);
    }
  }

  asio::posix::stream_descriptor pipe;
  std::shared_ptr<rendezvous::Channel> channel;
  std::deque<std::string> queue;
  int generation = 0;
  bool writing = false;
  bool discarding = false;
  bool at_end = false;
  bool closed = false;
};

InputFeeder::InputFeeder(const asio::any_io_executor& executor) : state_(std::make_shared<State>(executor)) {}

InputFeeder::~InputFeeder() {
  state_->closed = true;
  state_->channel.reset();
  boost::system::error_code ignored;
  state_->pipe.close(ignored);
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

void InputFeeder::take_from(std::shared_ptr<rendezvous::Channel> channel) {
  if (state_->channel) return channel->close("stdin has a channel already");
  rendezvous::Channel::Handlers handlers;
  const std::weak_ptr<State> weak = state_;
  handlers.data = while_alive(weak, &State::feed);
  handlers.closed = while_alive(weak, [](State& state, const std::string& reason) {
    // Any other reason is no end of the launcher's stdin: another worker reads it now, or the link is gone.
    if (reason != kAllWasSent) return;
    state.at_end = true;
    state.close_at_end();
  });
  channel->handle(std::move(handlers));
  state_->channel = std::move(channel);
}

}  // namespace muster::agent
