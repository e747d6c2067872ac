// SPDX-License-Identifier: Apache-2.0
// The client of PyTorch's TCPStore protocol (dialect with VALIDATE and PING, torch 2.5 and later).
#pragma once

#include "worker_sdk/store/store_client.hpp"
#include "worker_sdk/store/stream.hpp"

#include <functional>
#include <string>
#include <vector>

namespace muster {

/// One connection with requests strictly in order. A wait that ends at its deadline is cancelled and leaves
/// the connection usable, even if the answer to the cancel comes late; any other broken exchange closes the
/// connection, and every later call gives the reason.
class TcpStore : public StoreClient {
 public:
  /// Connects with backoff; see connect_store(). Gives up as soon as `waker` (-1: none) is readable.
  TcpStore(std::string host, int port, StoreOptions options, int waker = -1);
  /// Takes over a connection and does the handshake on it. clone() connects to `host` and `port`.
  TcpStore(Stream stream, std::string host, int port, StoreOptions options);

  void set(std::string_view key, std::string_view value) override;
  std::string get(std::string_view key) override;
  std::string get(std::string_view key, WaitLimit limit) override;
  std::int64_t add(std::string_view key, std::int64_t delta) override;
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) override;
  bool check(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys, WaitLimit limit) override;
  bool wait_or_wake(const std::vector<std::string>& keys, int descriptor,
                    std::chrono::milliseconds timeout) override;
  bool delete_key(std::string_view key) override;
  void append(std::string_view key, std::string_view value) override;
  std::vector<std::string> multi_get(const std::vector<std::string>& keys) override;
  void multi_set(const std::vector<std::pair<std::string, std::string>>& pairs) override;
  void queue_push(std::string_view queue, std::string_view value) override;
  std::string queue_pop(std::string_view queue, std::chrono::milliseconds timeout) override;
  std::int64_t queue_len(std::string_view queue) override;
  std::vector<std::string> list_keys() override;
  std::int64_t num_keys() override;

  std::string local_address() const override { return stream_.local_address(); }

  void set_timeout(std::chrono::milliseconds timeout) override { options_.timeout = timeout; }

  bool is_silent() const override { return owed_ != Owed::nothing; }

  std::unique_ptr<StoreClient> clone() override;
  std::unique_ptr<StoreClient> clone_within(std::chrono::milliseconds limit, int descriptor) override;

 private:
  /// The reply that the server still owes to a wait that was cancelled.
  enum class Owed { nothing, answer, acknowledgement };

  void connect(int waker);
  Stream connect_once(Deadline deadline, int waker);
  void shake_hands(Stream& stream, Deadline deadline) const;
  void exchange(const char* what, const std::string& request,
                const std::function<void(Deadline)>& read_reply);
  void guarded(const char* what, const std::string& request, const std::function<void(Deadline)>& body);
  void read_wait_answer();
  bool cancel_wait();
  bool settle(Deadline deadline);
  std::uint8_t read_byte(Deadline deadline);
  std::int64_t read_number(Deadline deadline);
  std::string read_value(Deadline deadline);
  Deadline deadline_in(std::chrono::milliseconds timeout) const;

  std::string host_;
  int port_;
  StoreOptions options_;
  Stream stream_;
  Owed owed_ = Owed::nothing;
  std::string broken_;  ///< why the connection was closed; empty while it is open
};

/// Connects with backoff (`first_delay`, x1.5, 50 % jitter, at most 60 s) until `options.timeout`; then
/// throws, naming the address and the last cause.
std::unique_ptr<StoreClient> connect_store(const std::string& host, int port,
                                           const StoreOptions& options = {});

}  // namespace muster
