// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/c10d/session.hpp"

#include <algorithm>
#include <utility>

namespace muster::rendezvous::c10d {

void Session::abandon() {
  store_.cancel_wait(*this);
  decoder_.drop();
  release(output_);
  sent_ = 0;
  release(keys_);
}

bool Session::input(std::size_t count) {
  decoder_.commit(count);
  in_input_ = true;
  bool good = true;
  while (good) {
    const RequestDecoder::Status status = decoder_.next();
    if (status == RequestDecoder::Status::need_more) break;
    if (status == RequestDecoder::Status::violation) {
      good = fail(decoder_.error());
      break;
    }
    ++requests_;
    established_ = true;
    good = carry_out();
  }
  in_input_ = false;
  return good;
}

void Session::output_sent(std::size_t count) {
  sent_ += count;
  if (sent_ < output_.size()) {
    // The output of a client that always reads a little late never gets empty, so the part that was sent is
    // dropped here.
    if (sent_ > kKeptBufferBytes && sent_ >= output_.size() / 2) {
      output_.erase(0, sent_);
      sent_ = 0;
    }
    return;
  }
  sent_ = 0;
  if (output_.capacity() > kKeptBufferBytes) {
    release(output_);
  } else {
    output_.clear();
  }
}

// may_wait() has made sure that there is room for this byte.
void Session::wait_over() {
  output_.push_back(kStopWaiting);
  if (!in_input_) owner_.output_ready();
}

bool Session::carry_out() {
  // A client of the old dialect cannot cancel a wait: when it sends another request it has given up the wait,
  // and would read the late answer to the wait as the answer to this request.
  if (Waiter::waiting() && dialect() == Dialect::legacy) store_.cancel_wait(*this);
  switch (decoder_.op()) {
    case Op::validate:
      return true;
    case Op::set:
      return set();
    case Op::compare_set:
      return compare_set();
    case Op::get:
      return get();
    case Op::add:
      return add();
    case Op::check:
      return check();
    case Op::wait:
      return wait();
    case Op::get_num_keys:
      return reply(static_cast<std::int64_t>(store_.size()));
    case Op::delete_key:
      return delete_key();
    case Op::append:
      return append();
    case Op::multi_get:
      return multi_get();
    case Op::multi_set:
      return multi_set();
    case Op::cancel_wait:
      store_.cancel_wait(*this);
      return reply(kWaitCancelled);
    case Op::ping:
      return reply(static_cast<std::uint32_t>(decoder_.number()));
    case Op::queue_push:
      return queue_push();
    case Op::queue_pop:
      return queue_pop();
    case Op::queue_len:
      return reply(static_cast<std::int64_t>(store_.queue_length(key())));
    case Op::list_keys:
      return list_keys();
    case Op::barrier:
      return barrier();
  }
  return fail("unknown operation");
}

bool Session::set() {
  if (std::string* value = decoder_.large_field()) return done(store_.set(key(), std::move(*value)));
  return done(store_.set(key(), decoder_.field(1)));
}

bool Session::append() {
  return done(store_.append(key(), decoder_.field(1)));
}

bool Session::compare_set() {
  const Store::Compared result = store_.compare_set(key(), decoder_.field(1), decoder_.field(2));
  return done(result.status) && reply_bytes(result.current);
}

bool Session::get() {
  const std::string* value = store_.find(key());
  return reply_bytes(value == nullptr ? std::string_view() : std::string_view(*value));
}

bool Session::add() {
  const Store::Sum sum = store_.add(key(), decoder_.number());
  return done(sum.status) && reply(sum.value);
}

bool Session::check() {
  for (std::size_t i = 0; i < decoder_.field_count(); ++i) {
    if (!store_.present(decoder_.field(i))) return reply(kNotAllPresent);
  }
  return reply(kAllPresent);
}

bool Session::wait() {
  if (!may_wait()) return false;
  if (decoder_.field_count() == 1) {
    const std::string_view one = key();
    if (!done(store_.wait(*this, {&one, 1}))) return false;
  } else {
    keys_.clear();
    for (std::size_t i = 0; i < decoder_.field_count(); ++i) keys_.push_back(decoder_.field(i));
    const bool good = done(store_.wait(*this, keys_));
    if (keys_.capacity() > kKeptBufferBytes / sizeof(keys_[0])) release(keys_);
    if (!good) return false;
  }
  return Waiter::waiting() || reply(kStopWaiting);
}

bool Session::delete_key() {
  return reply(std::int64_t{store_.erase(key()) ? 1 : 0});
}

bool Session::multi_get() {
  // The sizes are summed before a byte is copied: the same 8 MiB value, asked for 131,072 times, must not be
  // gathered first.
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < decoder_.field_count(); ++i) {
    const std::string* value = store_.find(decoder_.field(i));
    bytes += sizeof(std::uint64_t) + (value == nullptr ? 0 : value->size());
  }
  if (!room_for_reply(bytes)) return false;
  for (std::size_t i = 0; i < decoder_.field_count(); ++i) {
    const std::string* value = store_.find(decoder_.field(i));
    append_bytes(output_, value == nullptr ? std::string_view() : std::string_view(*value));
  }
  return true;
}

bool Session::multi_set() {
  for (std::size_t i = 0; i + 1 < decoder_.field_count(); i += 2) {
    if (!done(store_.set(decoder_.field(i), decoder_.field(i + 1)))) return false;
  }
  return true;
}

bool Session::queue_push() {
  std::string* value = decoder_.large_field();
  return done(
      store_.queue_push(key(), value != nullptr ? std::move(*value) : std::string(decoder_.field(1))));
}

bool Session::queue_pop() {
  std::size_t length = 0;
  const auto item = store_.queue_pop(key(), length);
  if (!reply(static_cast<std::int64_t>(length))) return false;
  return !item || reply_bytes(*item);
}

bool Session::list_keys() {
  const std::size_t bytes = sizeof(std::int64_t) + store_.key_bytes() + store_.size() * sizeof(std::uint64_t);
  if (!room_for_reply(bytes)) return false;
  append_integer(output_, static_cast<std::int64_t>(store_.size()));
  store_.for_each_key([this](std::string_view name) { append_bytes(output_, name); });
  return true;
}

bool Session::barrier() {
  if (!may_wait()) return false;
  if (!done(store_.barrier(*this, key(), decoder_.number()))) return false;
  return Waiter::waiting() || reply(kStopWaiting);
}

bool Session::may_wait() {
  if (!Waiter::waiting()) return room_for_reply(sizeof(kStopWaiting));
  return fail("a second wait began before the first was over or cancelled");
}

bool Session::room_for_reply(std::size_t bytes) {
  const std::size_t unread = output_.size() - sent_;
  if (bytes > kMaxUnreadOutputBytes || unread > kMaxUnreadOutputBytes - bytes)
    return fail("replies of " + std::to_string(unread + bytes) + " bytes wait unread, more than the " +
                std::to_string(kMaxUnreadOutputBytes) + " allowed");
  const std::size_t needed = output_.size() + bytes;
  if (needed <= std::max(output_.capacity(), kKeptBufferBytes)) return true;
  // A string takes this much memory when it grows, and holds the old memory as well until it has grown.
  const std::size_t grown = std::max(needed, 2 * output_.capacity());
  if (!owner_.room_for(grown))
    return fail(
        "the clients of this store have so many bytes of requests and replies under way that there is "
        "no room for a reply that needs " +
        std::to_string(grown));
  output_.reserve(needed);
  return true;
}

bool Session::done(StoreStatus status) {
  switch (status) {
    case StoreStatus::ok:
      return true;
    case StoreStatus::full:
      return fail("the store holds " + std::to_string(store_.memory()) + " bytes and would pass its cap of " +
                  std::to_string(store_.max_memory()) + "; delete keys that are no longer needed");
    case StoreStatus::not_a_number:
      break;
  }
  return fail("add or barrier on a key whose value is not a decimal number");
}

bool Session::fail(std::string why) {
  error_ = std::move(why);
  return false;
}

template <typename Integer>
bool Session::reply(Integer value) {
  if (!room_for_reply(sizeof(value))) return false;
  append_integer(output_, value);
  return true;
}

bool Session::reply_bytes(std::string_view bytes) {
  if (!room_for_reply(sizeof(std::uint64_t) + bytes.size())) return false;
  append_bytes(output_, bytes);
  return true;
}

}  // namespace muster::rendezvous::c10d
