// SPDX-License-Identifier: Apache-2.0
// One client of the store as a pure state machine: bytes in, requests on the core store, reply bytes out.
#pragma once

#include "rendezvous/c10d/request_decoder.hpp"
#include "rendezvous/core/store.hpp"

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster::rendezvous::c10d {

class Session final : private Waiter {
 public:
  /// Told when a request of another session has ended this session's wait, so that there is output to send.
  /// Called from inside input() of the other session: note it and send later.
  class Owner {
   public:
    virtual void output_ready() = 0;

    /// Whether `bytes` more memory may be taken for a reply, beyond what the session has. False: the client
    /// is to be cut. Called from inside input(): may abandon other sessions, not this one.
    virtual bool room_for(std::size_t bytes) {
      (void)bytes;
      return true;
    }

   protected:
    ~Owner() = default;
  };

  /// `store` and `owner` must outlive the session.
  Session(Store& store, Owner& owner, const RequestLimits& limits = {})
      : store_(store), owner_(owner), decoder_(limits) {}

  ~Session() override { abandon(); }

  /// Ends a wait without an answer and gives all memory back, because the client has gone. Not from inside
  /// input().
  void abandon();

  /// The space for the next received bytes; never empty.
  std::span<char> input_space() { return decoder_.space(); }

  /// Carries out the `count` bytes that were written at the beginning of input_space(). False: close the
  /// connection (after trying to send nothing more); error() says why.
  [[nodiscard]] bool input(std::size_t count);

  /// Whether a whole first message has been understood.
  bool established() const { return established_; }

  Dialect dialect() const { return decoder_.dialect(); }

  /// The reply bytes that have not been reported as sent.
  std::string_view output() const { return std::string_view(output_).substr(sent_); }

  void output_sent(std::size_t count);

  /// The bytes of memory that this client takes: its requests under way and its replies.
  std::size_t memory() const {
    return decoder_.memory() + output_.capacity() + keys_.capacity() * sizeof(decltype(keys_)::value_type);
  }

  bool waiting() const { return Waiter::waiting(); }

  /// The keys for which the client waits, at most `most`; valid until the next change of the store.
  std::vector<std::string_view> awaited(std::size_t most) const { return Store::awaited(*this, most); }

  bool inside_request() const { return decoder_.inside_request(); }

  /// The number of requests carried out so far.
  std::uint64_t requests() const { return requests_; }

  const std::string& error() const { return error_; }

 private:
  void wait_over() override;

  bool carry_out();
  bool set();
  bool append();
  bool compare_set();
  bool get();
  bool add();
  bool check();
  bool wait();
  bool delete_key();
  bool multi_get();
  bool multi_set();
  bool queue_push();
  bool queue_pop();
  bool list_keys();
  bool barrier();

  std::string_view key() const { return decoder_.field(0); }

  bool may_wait();
  bool room_for_reply(std::size_t bytes);
  bool done(StoreStatus status);
  bool fail(std::string why);

  template <typename Integer>
  bool reply(Integer value);

  bool reply_bytes(std::string_view bytes);

  Store& store_;
  Owner& owner_;
  RequestDecoder decoder_;
  std::string output_;
  std::size_t sent_ = 0;
  std::uint64_t requests_ = 0;
  bool established_ = false;
  bool in_input_ = false;
  std::string error_;
  std::vector<std::string_view> keys_;
};

}  // namespace muster::rendezvous::c10d
