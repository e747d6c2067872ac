// SPDX-License-Identifier: Apache-2.0
// What the ranks of a world tell one another over the store.
#include "worker_sdk/comm/plugin/failure_channel.hpp"

#include "catch.hpp"
#include "tests/integration/comm/rank_processes.hpp"
#include "worker_sdk/store/tcp_store.hpp"

#include <condition_variable>
#include <mutex>

namespace muster::plugin {
namespace {

constexpr auto kLong = std::chrono::seconds(30);

/// Waits for the failure of a group.
class Listener : public FailureListener {
 public:
  void group_failed(ErrorCode, const std::string& text) noexcept override {
    const std::lock_guard lock(mutex_);
    text_ = text;
    changed_.notify_all();
  }

  /// "" when none comes.
  std::string text() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kLong, [this] { return !text_.empty(); });
    return text_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string text_;
};

TEST_CASE("all ranks learn of every group's failure, and of the same one") {
  const test::StoreProcess server;
  const auto store = connect_store("127.0.0.1", server.port());
  Listener world[2];
  Listener child[2];
  FailureChannel one(*store, "channel/");
  FailureChannel two(*store, "channel/");
  one.join("world", world[0]);
  two.join("world", world[1]);
  one.join("world/1.0", child[0]);
  two.join("world/1.0", child[1]);
  one.tell("world", ErrorCode::aborted, "of rank 0");
  two.tell("world", ErrorCode::aborted, "of rank 1");
  two.tell("world/1.0", ErrorCode::backend, "of the child\nin two lines");
  const std::string text = world[0].text();
  CHECK((text == "of rank 0" || text == "of rank 1"));
  CHECK(world[1].text() == text);
  for (Listener& listener : child) CHECK(listener.text() == "of the child\nin two lines");
}

/// A store whose connection breaks off after some requests that change it: as of a rank that is killed.
class DyingStore : public TcpStore {
 public:
  DyingStore(int port, int requests)
      : TcpStore("127.0.0.1", port, StoreOptions{}), port_(port), requests_(requests) {}

  void set(std::string_view key, std::string_view value) override {
    use();
    TcpStore::set(key, value);
  }

  std::int64_t add(std::string_view key, std::int64_t delta) override {
    use();
    return TcpStore::add(key, delta);
  }

  std::string compare_set(std::string_view key, std::string_view expected,
                          std::string_view desired) override {
    use();
    return TcpStore::compare_set(key, expected, desired);
  }

  std::unique_ptr<StoreClient> clone() override { return std::make_unique<DyingStore>(port_, requests_); }

 private:
  void use() {
    if (requests_-- == 0) throw Error(ErrorCode::store, "the rank was killed");
  }

  int port_;
  int requests_;
};

TEST_CASE("a rank that dies while it tells does not silence the others") {
  const test::StoreProcess server;
  const auto store = connect_store("127.0.0.1", server.port());
  for (int requests = 0; requests < 3; ++requests) {
    const std::string prefix = std::to_string(requests) + "/";
    Listener listener;
    Listener other;
    FailureChannel heir(*store, prefix);
    heir.join("world", listener);
    heir.join("world/1.0", other);
    {
      DyingStore dying(server.port(), requests);
      FailureChannel killed(dying, prefix);
      killed.tell("world/1.0", ErrorCode::aborted, "the last words");
    }
    heir.tell("world", ErrorCode::peer_lost, "that it was killed");
    INFO(requests);
    CHECK(listener.text() == "that it was killed");
    if (requests > 0) CHECK(other.text() == "the last words");
  }
}

}  // namespace
}  // namespace muster::plugin
