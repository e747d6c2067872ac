// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/store/tcp_store.hpp"

#include "muster/error.hpp"
#include "rendezvous/base/deadline.hpp"
#include "rendezvous/base/random.hpp"
#include "rendezvous/c10d/request_encoder.hpp"
#include "rendezvous/protocol/limits.hpp"
#include "worker_sdk/store/backoff.hpp"
#include "worker_sdk/store/store_text.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>
#include <utility>

namespace muster {
namespace {

namespace c10d = rendezvous::c10d;
using c10d::RequestEncoder;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// The longest value taken from a server, in bytes. PyTorch's server takes 8 MiB at a time, and append can
/// make longer values.
constexpr std::uint64_t kMaxReceivedBytes = std::uint64_t{1} << 30;
/// Bytes of the pieces in which a value is read: a false length costs no memory before its bytes come.
constexpr std::size_t kReadPieceBytes = std::size_t{1} << 20;
/// The most keys of a list: a server that announces more than a store can hold is out of step.
constexpr std::int64_t kMostListedKeys = std::int64_t{1} << 28;
/// The longest attempt to connect to one address, so that the other addresses get a try as well.
constexpr auto kLongestAttempt = std::chrono::seconds(15);
/// The time that an ended wait allows for the answer to its cancel, which the server owes at once.
constexpr auto kCancelGrace = milliseconds(500);

/// The key as PyTorch's client stores it. Servers close the connection on a longer key or value, so it is
/// refused here.
std::string stored(std::string_view key) {
  if (key.size() + 1 > rendezvous::kMaxKeyBytes)
    throw Error(ErrorCode::invalid_argument,
                "a store key of " + std::to_string(key.size()) + " bytes; at most " +
                    std::to_string(rendezvous::kMaxKeyBytes - 1) + " are allowed");
  return "/" + std::string(key);
}

std::string_view checked(std::string_view value) {
  if (value.size() > rendezvous::kMaxValueBytes)
    throw Error(ErrorCode::invalid_argument, "a store value of " + std::to_string(value.size()) +
                                                 " bytes; at most " +
                                                 std::to_string(rendezvous::kMaxValueBytes) + " are allowed");
  return value;
}

std::vector<std::string> stored(const std::vector<std::string>& keys) {
  if (keys.size() > rendezvous::kMaxKeysPerRequest)
    throw Error(ErrorCode::invalid_argument,
                std::to_string(keys.size()) + " store keys in one call; at most " +
                    std::to_string(rendezvous::kMaxKeysPerRequest) + " are allowed");
  std::vector<std::string> result;
  for (const std::string& key : keys) result.push_back(stored(key));
  return result;
}

/// The bytes that `write` makes with an encoder.
template <typename Write>
std::string request(Write write) {
  std::string bytes;
  RequestEncoder encoder(bytes);
  write(encoder);
  return bytes;
}

/// Sleeps until `deadline`. False if `waker` was readable before.
bool sleep_until(Deadline deadline, int waker) {
  while (steady_clock::now() < deadline) {
    pollfd entry{waker, POLLIN, 0};
    if (poll(&entry, 1, poll_time(deadline)) > 0) return false;
  }
  return true;
}

}  // namespace

TcpStore::TcpStore(std::string host, int port, StoreOptions options, int waker)
    : host_(std::move(host)), port_(port), options_(options) {
  if (host_.empty())
    throw Error(ErrorCode::invalid_argument, "the store's host name is empty; set MASTER_ADDR");
  if (port_ < 1 || port_ > 65535)
    throw Error(ErrorCode::invalid_argument,
                "the store's port " + std::to_string(port_) + " is outside 1..65535; set MASTER_PORT");
  connect(waker);
}

TcpStore::TcpStore(Stream stream, std::string host, int port, StoreOptions options)
    : host_(std::move(host)), port_(port), options_(options), stream_(std::move(stream)) {
  shake_hands(stream_, deadline_in(options_.timeout));
}

Deadline TcpStore::deadline_in(milliseconds timeout) const {
  // The limit is a year, which stands for "for ever", so that the sum does not overflow.
  return steady_clock::now() +
         std::clamp<milliseconds>(timeout, milliseconds(0), std::chrono::hours(24 * 365));
}

Stream TcpStore::connect_once(Deadline deadline, int waker) {
  std::string cause;
  for (const SocketAddress& address : resolve(host_, port_, deadline)) {
    try {
      const Deadline attempt = std::min<Deadline>(deadline, steady_clock::now() + kLongestAttempt);
      Stream stream = Stream::connect(address, attempt, waker);
      shake_hands(stream, attempt);
      stream.forget_waker();
      return stream;
    } catch (const std::runtime_error& error) {
      cause = error.what();
    }
  }
  throw std::runtime_error(cause);
}

void TcpStore::connect(int waker) {
  const WaitLimit limit = options_.connect_timeout.value_or(options_.timeout);
  const Deadline deadline = deadline_in(limit.left);
  std::minstd_rand random(static_cast<unsigned>(random_number()));
  std::uniform_real_distribution<double> uniform(0, 1);
  Backoff backoff(options_.first_delay, options_.longest_delay);
  for (int attempts = 1;; ++attempts) {
    std::string cause;
    try {
      stream_ = connect_once(deadline, waker);
      return;
    } catch (const std::runtime_error& error) {
      cause = error.what();
    }
    const auto next = steady_clock::now() +
                      std::chrono::duration_cast<steady_clock::duration>(backoff.next(uniform(random)));
    if (!sleep_until(std::min(next, deadline), waker) || next >= deadline)
      throw Error(ErrorCode::store,
                  "no connection to the store at " + host_ + ":" + std::to_string(port_) + " within " +
                      seconds_text(limit.given) + " (" + std::to_string(attempts) +
                      " attempts, the last one: " + cause +
                      "); see that the job's store runs and that MASTER_ADDR and MASTER_PORT name it");
  }
}

void TcpStore::shake_hands(Stream& stream, Deadline deadline) const {
  const auto nonce = static_cast<std::uint32_t>(getpid());
  stream.send(request([&](RequestEncoder& encoder) {
                encoder.validate();
                encoder.ping(nonce);
              }),
              deadline);
  std::uint32_t answer = 0;
  stream.receive(&answer, sizeof(answer), deadline);
  if (answer != nonce)
    throw std::runtime_error("the server's handshake is not that of a PyTorch store (torch 2.5 or later)");
}

/// Sends a request and reads its reply.
void TcpStore::exchange(const char* what, const std::string& request,
                        const std::function<void(Deadline)>& read_reply) {
  guarded(what, request, [&](Deadline deadline) {
    stream_.send(request, deadline);
    if (!read_reply) return;
    settle(deadline);
    if (is_silent()) throw StreamTimeout("the server gave no answer in time");
    read_reply(deadline);
  });
}

/// Runs one exchange. A failure in the middle of it leaves the stream out of step, so the stream is closed.
void TcpStore::guarded(const char* what, const std::string& request,
                       const std::function<void(Deadline)>& body) {
  const std::string where = std::string(what) + " at the store " + host_ + ":" + std::to_string(port_);
  if (!broken_.empty())
    throw Error(ErrorCode::store,
                where + ": the connection was closed earlier (" + broken_ + "); connect again");
  if (request.size() > rendezvous::kMaxRequestBytes)
    throw Error(ErrorCode::invalid_argument,
                where + ": the request has " + std::to_string(request.size()) + " bytes, the store takes " +
                    std::to_string(rendezvous::kMaxRequestBytes) + " at once; split it");
  try {
    body(deadline_in(options_.timeout));
  } catch (const Error&) {
    throw;
  } catch (const StreamTimeout& error) {
    broken_ = error.what();
    stream_.close();
    throw Error(ErrorCode::store, where + ": " + broken_ + " (" + seconds_text(options_.timeout) +
                                      "); the store is overloaded, stopped or unreachable");
  } catch (const std::runtime_error& error) {
    broken_ = error.what();
    stream_.close();
    // Servers of this protocol answer a wrong request by ending the connection.
    const std::string refusal =
        what == std::string_view("add") ? ", or the value of the key is no number, which ends it, too" : "";
    throw Error(ErrorCode::store, where + ": " + broken_ +
                                      "; the job's store has ended or the network is down, so end this rank" +
                                      refusal);
  } catch (...) {
    stream_.close();
    broken_ = "out of memory";  // a text short enough to need no memory
    throw;
  }
}

std::uint8_t TcpStore::read_byte(Deadline deadline) {
  std::uint8_t value = 0;
  stream_.receive(&value, sizeof(value), deadline);
  return value;
}

std::int64_t TcpStore::read_number(Deadline deadline) {
  std::int64_t value = 0;
  stream_.receive(&value, sizeof(value), deadline);
  return value;
}

std::string TcpStore::read_value(Deadline deadline) {
  std::uint64_t length = 0;
  stream_.receive(&length, sizeof(length), deadline);
  if (length > kMaxReceivedBytes)
    throw std::runtime_error("the server announces a value of " + std::to_string(length) +
                             " bytes; at most " + std::to_string(kMaxReceivedBytes) + " are taken");
  std::string value;
  while (value.size() < length) {
    const std::size_t begin = value.size();
    value.resize(static_cast<std::size_t>(std::min<std::uint64_t>(length, begin + kReadPieceBytes)));
    stream_.receive(value.data() + begin, value.size() - begin, deadline);
  }
  return value;
}

void TcpStore::set(std::string_view key, std::string_view value) {
  exchange("set", request([&](RequestEncoder& encoder) { encoder.set(stored(key), checked(value)); }),
           nullptr);
}

std::string TcpStore::get(std::string_view key) {
  return get(key, options_.timeout);
}

std::string TcpStore::get(std::string_view key, WaitLimit limit) {
  wait({std::string(key)}, limit);
  std::string value;
  exchange("get", request([&](RequestEncoder& encoder) { encoder.get(stored(key)); }),
           [&](Deadline deadline) { value = read_value(deadline); });
  return value;
}

std::int64_t TcpStore::add(std::string_view key, std::int64_t delta) {
  std::int64_t sum = 0;
  exchange("add", request([&](RequestEncoder& encoder) { encoder.add(stored(key), delta); }),
           [&](Deadline deadline) { sum = read_number(deadline); });
  return sum;
}

std::string TcpStore::compare_set(std::string_view key, std::string_view expected, std::string_view desired) {
  std::string value;
  exchange("compare_set", request([&](RequestEncoder& encoder) {
             encoder.compare_set(stored(key), checked(expected), checked(desired));
           }),
           [&](Deadline deadline) { value = read_value(deadline); });
  return value;
}

bool TcpStore::check(const std::vector<std::string>& keys) {
  std::uint8_t missing = 0;
  exchange("check", request([&](RequestEncoder& encoder) { encoder.check(stored(keys)); }),
           [&](Deadline deadline) { missing = read_byte(deadline); });
  return missing == c10d::kAllPresent;
}

void TcpStore::wait(const std::vector<std::string>& keys) {
  wait(keys, options_.timeout);
}

void TcpStore::wait(const std::vector<std::string>& keys, WaitLimit limit) {
  const Deadline wait_deadline = deadline_in(limit.left);
  const std::string bytes = request([&](RequestEncoder& encoder) { encoder.wait(stored(keys)); });
  guarded("wait", bytes, [&](Deadline deadline) {
    settle(wait_deadline);
    if (!is_silent()) {
      stream_.send(bytes, deadline);
      if (stream_.readable(wait_deadline)) return read_wait_answer();
      if (cancel_wait()) return;
    }
    throw Error(ErrorCode::deadline,
                "waited " + seconds_text(limit.given) + " at the store " + host_ + ":" +
                    std::to_string(port_) + " for the key" + (keys.size() == 1 ? " " : "s ") + list_of(keys) +
                    (is_silent() ? ", and the store answers nothing; it is overloaded, stopped or unreachable"
                                 : ", which no rank has set; a rank is late or gone"));
  });
}

bool TcpStore::wait_or_wake(const std::vector<std::string>& keys, int descriptor, milliseconds timeout) {
  const Deadline wait_deadline = deadline_in(timeout);
  const std::string bytes = request([&](RequestEncoder& encoder) { encoder.wait(stored(keys)); });
  bool there = true;
  guarded("wait", bytes, [&](Deadline deadline) {
    settle(wait_deadline);
    if (is_silent()) {
      there = false;
      return;
    }
    stream_.send(bytes, deadline);
    if (stream_.readable_before(descriptor, wait_deadline)) return read_wait_answer();
    there = cancel_wait();
  });
  return there;
}

/// Reads the answer to a wait, once there is data to read.
void TcpStore::read_wait_answer() {
  if (read_byte(deadline_in(kCancelGrace)) != c10d::kStopWaiting)
    throw std::runtime_error("an unknown answer to a wait");
}

/// Cancels a wait. Returns whether the wait was answered nevertheless.
bool TcpStore::cancel_wait() {
  const Deadline deadline = deadline_in(kCancelGrace);
  stream_.send(request([](RequestEncoder& encoder) { encoder.cancel_wait(); }), deadline);
  owed_ = Owed::answer;
  return settle(deadline);
}

/// Reads the answers that the server owes to a cancelled wait, as far as they come before `deadline`: the
/// cancel's 1 alone, or 0 (the wait was just answered; returns true) and then the 1.
bool TcpStore::settle(Deadline deadline) {
  bool answered = false;
  while (owed_ != Owed::nothing && stream_.readable(deadline)) {
    const std::uint8_t byte = read_byte(deadline);
    if (byte == c10d::kWaitCancelled) {
      owed_ = Owed::nothing;
    } else if (byte == c10d::kStopWaiting && owed_ == Owed::answer) {
      owed_ = Owed::acknowledgement;
      answered = true;
    } else {
      throw std::runtime_error("an unknown answer to a cancelled wait");
    }
  }
  return answered;
}

bool TcpStore::delete_key(std::string_view key) {
  std::int64_t removed = 0;
  exchange("delete_key", request([&](RequestEncoder& encoder) { encoder.delete_key(stored(key)); }),
           [&](Deadline deadline) { removed = read_number(deadline); });
  return removed == 1;
}

void TcpStore::append(std::string_view key, std::string_view value) {
  exchange("append", request([&](RequestEncoder& encoder) { encoder.append(stored(key), checked(value)); }),
           nullptr);
}

std::vector<std::string> TcpStore::multi_get(const std::vector<std::string>& keys) {
  std::vector<std::string> values;
  if (keys.empty()) return values;
  wait(keys);
  exchange("multi_get", request([&](RequestEncoder& encoder) { encoder.multi_get(stored(keys)); }),
           [&](Deadline deadline) {
             for (std::size_t i = 0; i < keys.size(); ++i) values.push_back(read_value(deadline));
           });
  return values;
}

void TcpStore::multi_set(const std::vector<std::pair<std::string, std::string>>& pairs) {
  if (pairs.empty()) return;
  if (pairs.size() > rendezvous::kMaxKeysPerRequest)
    throw Error(ErrorCode::invalid_argument,
                std::to_string(pairs.size()) + " store keys in one call; at most " +
                    std::to_string(rendezvous::kMaxKeysPerRequest) + " are allowed");
  std::vector<std::pair<std::string, std::string>> entries;
  entries.reserve(pairs.size());
  for (const auto& [key, value] : pairs) entries.emplace_back(stored(key), checked(value));
  exchange("multi_set", request([&](RequestEncoder& encoder) { encoder.multi_set(entries); }), nullptr);
}

void TcpStore::queue_push(std::string_view queue, std::string_view value) {
  exchange("queue_push",
           request([&](RequestEncoder& encoder) { encoder.queue_push(stored(queue), checked(value)); }),
           nullptr);
}

/// Waits for an item and takes it. Another rank may take it between the wait and the pop; then this waits
/// again.
std::string TcpStore::queue_pop(std::string_view queue, milliseconds timeout) {
  const Deadline end = deadline_in(timeout);
  while (true) {
    wait({std::string(queue)}, WaitLimit(left_until(end), timeout));
    std::optional<std::string> item;
    exchange("queue_pop", request([&](RequestEncoder& encoder) { encoder.queue_pop(stored(queue)); }),
             [&](Deadline deadline) {
               if (read_number(deadline) > 0) item = read_value(deadline);
             });
    if (item) return std::move(*item);
  }
}

std::int64_t TcpStore::queue_len(std::string_view queue) {
  std::int64_t length = 0;
  exchange("queue_len", request([&](RequestEncoder& encoder) { encoder.queue_len(stored(queue)); }),
           [&](Deadline deadline) { length = read_number(deadline); });
  return length;
}

std::vector<std::string> TcpStore::list_keys() {
  std::vector<std::string> names;
  exchange("list_keys", request([](RequestEncoder& encoder) { encoder.list_keys(); }),
           [&](Deadline deadline) {
             const std::int64_t count = read_number(deadline);
             if (count < 0 || count > kMostListedKeys)
               throw std::runtime_error("the server announces " + std::to_string(count) + " keys");
             for (std::int64_t i = 0; i < count; ++i) {
               std::string name = read_value(deadline);
               // A client without PyTorch's habit of a leading "/" may have set keys as well.
               names.push_back(name.starts_with('/') ? name.substr(1) : std::move(name));
             }
           });
  return names;
}

std::int64_t TcpStore::num_keys() {
  std::int64_t count = 0;
  exchange("num_keys", request([](RequestEncoder& encoder) { encoder.num_keys(); }),
           [&](Deadline deadline) { count = read_number(deadline); });
  return count;
}

std::unique_ptr<StoreClient> TcpStore::clone() {
  return std::make_unique<TcpStore>(host_, port_, options_);
}

std::unique_ptr<StoreClient> TcpStore::clone_within(milliseconds limit, int descriptor) {
  StoreOptions options = options_;
  options.connect_timeout = limit;
  return std::make_unique<TcpStore>(host_, port_, options, descriptor);
}

std::unique_ptr<StoreClient> connect_store(const std::string& host, int port, const StoreOptions& options) {
  return std::make_unique<TcpStore>(host, port, options);
}

}  // namespace muster
