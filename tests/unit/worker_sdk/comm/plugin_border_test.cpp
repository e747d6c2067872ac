// SPDX-License-Identifier: Apache-2.0
// How calls and errors cross between the SDK and a plug-in, without a shared object between them.
#include "catch.hpp"
#include "worker_sdk/comm/plugin/plugin_side.hpp"

#include <cstdlib>
#include <functional>
#include <map>
#include <stdexcept>

namespace muster::plugin {
namespace {

class Looks final : public Completion {
 public:
  bool test() override { return ++looks_ == 2; }

 private:
  int looks_ = 0;
};

class TestGroup final : public Group {
 public:
  void run(std::span<const Operation> batch) override {
    seen = batch;
    if (body) body();
  }

  void abort(ErrorCode code, const std::string& text) noexcept override { aborted.emplace(code, text); }

  std::string missing() const override { return "rank 3 (host b)"; }

  std::unique_ptr<Completion> last_run() override { return std::make_unique<Looks>(); }

  std::span<const Operation> seen;
  std::function<void()> body;
  std::optional<Error> aborted;
};

std::string probe(int local_rank) {
  if (local_rank > 0) throw Error(ErrorCode::unsupported, "there is one device");
  return std::string(100, 'd');
}

std::unique_ptr<Group> create(const muster_plugin_group_options& options, const Host& host) {
  host.get(options.group, std::chrono::milliseconds(7));
  return std::make_unique<TestGroup>();
}

constexpr Maker kMaker{.name = "test",
                       .is_device = true,
                       .words = {"no memory", "it failed: "},
                       .probe = probe,
                       .create = create};
constexpr muster_plugin kTable = table_of<kMaker>();

/// The SDK's side: a store in a map.
struct Keys {
  std::map<std::string, std::string> values;
  std::int64_t limit = 0;
  std::optional<Error> failure;

  static Keys& of(void* context) { return *static_cast<Keys*>(context); }

  static void give(const std::string& text, void** value, std::size_t* bytes) {
    *value = std::malloc(text.size() + 1);
    std::memcpy(*value, text.data(), text.size());
    *bytes = text.size();
  }

  muster_plugin_host table() {
    muster_plugin_host host{};
    host.context = this;
    host.store_get = [](void* context, const char* key, std::int64_t limit_ms, void** value,
                        std::size_t* bytes, muster_plugin_error* error) {
      return guarded(error, kMaker.words, [&] {
        of(context).limit = limit_ms;
        const auto found = of(context).values.find(key);
        if (found == of(context).values.end()) throw Error(ErrorCode::deadline, std::string("no ") + key);
        give(found->second, value, bytes);
      });
    };
    host.post = [](void* context, const char* key, const void* value, std::size_t bytes,
                   muster_plugin_error* error) {
      return guarded(error, kMaker.words,
                     [&] { of(context).values[key].assign(static_cast<const char*>(value), bytes); });
    };
    host.peek = [](void* context, const char* key, void** value, std::size_t* bytes,
                   muster_plugin_error* error) {
      return guarded(error, kMaker.words, [&] {
        *value = nullptr;
        if (of(context).values.contains(key)) give(of(context).values[key], value, bytes);
      });
    };
    host.release = std::free;
    host.aborted = [](void* context, muster_plugin_error* error) {
      const auto& known = of(context).failure;
      return known ? report(error, known->code(), known->what()) : 0;
    };
    return host;
  }
};

void check_error(const std::optional<Error>& error, ErrorCode code, const std::string& text) {
  REQUIRE(error.has_value());
  CHECK(error->code() == code);
  CHECK(error->what() == text);
}

TEST_CASE("a call crosses as it is, and what it throws as an Error") {
  TestGroup group;
  void* const handle = static_cast<Group*>(&group);
  const Operation operations[2] = {};
  const auto run = [&] { return try_call(kTable.run, handle, &operations[0], std::size_t{2}); };
  CHECK_FALSE(run().has_value());
  CHECK(group.seen.data() == &operations[0]);
  CHECK(group.seen.size() == 2);
  group.body = [] { throw Error(ErrorCode::mismatch, "two calls"); };
  check_error(run(), ErrorCode::mismatch, "two calls");
  group.body = [] { throw Error(ErrorCode::peer_lost, std::string(5000, 'x')); };
  check_error(run(), ErrorCode::peer_lost, std::string(sizeof(muster_plugin_error::text) - 1, 'x'));
  group.body = [] { throw std::bad_alloc(); };
  check_error(run(), ErrorCode::out_of_memory, "no memory");
  group.body = [] { throw std::runtime_error("an odd thing"); };
  check_error(run(), ErrorCode::backend, "it failed: an odd thing");
}

TEST_CASE("a group behind the table does what Backend says") {
  Keys keys;
  keys.values["world"] = "1";
  const muster_plugin_host host = keys.table();
  muster_plugin_group_options options{};
  options.group = "world";
  void* group = nullptr;
  CHECK_FALSE(try_call(kTable.create, &options, &host, &group).has_value());
  CHECK(keys.limit == 7);
  void* token = nullptr;
  std::int32_t done = 1;
  CHECK_FALSE(try_call(kTable.mark, group, &token).has_value());
  CHECK_FALSE(try_call(kTable.test, token, &done).has_value());
  CHECK(done == 0);
  CHECK_FALSE(try_call(kTable.test, token, &done).has_value());
  CHECK(done == 1);
  kTable.release_token(token);
  char missing[8] = "";
  kTable.describe_wait(group, missing, sizeof(missing));
  CHECK(std::string(missing) == "rank 3 ");
  kTable.abort(group, static_cast<std::int32_t>(ErrorCode::aborted), "no more data");
  check_error(static_cast<TestGroup*>(static_cast<Group*>(group))->aborted, ErrorCode::aborted,
              "no more data");
  kTable.destroy(group);
  // What the store reports to the plug-in, the plug-in reports to the SDK.
  options.group = "nowhere";
  check_error(try_call(kTable.create, &options, &host, &group), ErrorCode::deadline, "no nowhere");
}

TEST_CASE("a probe gives the device, cut to its place, or says why not") {
  char device[kDeviceBytes] = "";
  CHECK_FALSE(try_call(kTable.probe, 0, device).has_value());
  CHECK(std::string(device) == std::string(kDeviceBytes - 1, 'd'));
  check_error(try_call(kTable.probe, 1, device), ErrorCode::unsupported, "there is one device");
}

TEST_CASE("a plug-in has the store and the failure of its group through Host") {
  Keys keys;
  const muster_plugin_host table = keys.table();
  const Host host(table);
  CHECK_FALSE(host.peek("key").has_value());
  host.post("key", std::string("a\0b", 3));
  CHECK(host.peek("key") == std::string("a\0b", 3));
  CHECK(host.get("key", std::chrono::milliseconds(1)) == std::string("a\0b", 3));
  CHECK_THROWS_WITH(host.get("other", std::chrono::milliseconds(1)), "no other");
  CHECK_FALSE(host.aborted().has_value());
  keys.failure.emplace(ErrorCode::peer_lost, "rank 1 has died");
  check_error(host.aborted(), ErrorCode::peer_lost, "rank 1 has died");
}

}  // namespace
}  // namespace muster::plugin
