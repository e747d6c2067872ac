// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/plugin/plugin_backend.hpp"

#include "worker_sdk/comm/join_alarm.hpp"
#include "worker_sdk/comm/plugin/border.hpp"
#include "worker_sdk/comm/plugin/loader.hpp"
#include "worker_sdk/comm/store_lease.hpp"

#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <utility>

namespace muster::plugin {
namespace {

using Clock = std::chrono::steady_clock;

/// The time that a failed rank waits for the store to tell the group's first failure.
constexpr auto kAgreementTime = std::chrono::seconds(2);
/// The time that a rank which loses a peer in its first call waits for another cause: a peer that still joins
/// the group when a third rank dies closes its connections first and tells why right after that. Ranks that
/// watch their peers on a host look twice, 20 ms apart, before they report one as lost.
constexpr auto kCauseTime = std::chrono::milliseconds(75);
/// The time that a rank which cannot connect waits for news of a rank that has died.
constexpr auto kAlarmTime = std::chrono::milliseconds(1000);

void log_line(const char* text) {
  std::fprintf(stderr, "muster: %s\n", text);
}

}  // namespace

/// The functions that the plug-in calls. Its part of the store lies below the group's prefix.
struct PluginBackend::HostSide {
  static constexpr Words kWords{"no memory for a value of the store", ""};

  static PluginBackend& of(void* context) { return *static_cast<PluginBackend*>(context); }

  static std::string full(const PluginBackend& self, const char* key) {
    return "muster/" + std::string(self.plugin_.name) + "/" + self.key_ + "/" + key;
  }

  static void give(const std::string& text, void** value, std::size_t* bytes) {
    *value = std::malloc(std::max<std::size_t>(text.size(), 1));
    if (*value == nullptr) throw std::bad_alloc();
    std::memcpy(*value, text.data(), text.size());
    *bytes = text.size();
  }

  static StoreClient& store_of(const PluginBackend& self) {
    if (self.store_ == nullptr)
      throw Error(ErrorCode::state, "a plug-in may wait for keys of the store in create() only");
    return *self.store_;
  }

  static std::int32_t store_set(void* context, const char* key, const void* value, std::size_t bytes,
                                muster_plugin_error* error) {
    return guarded(error, kWords, [&, &self = of(context)] {
      store_of(self).set(full(self, key), std::string_view(static_cast<const char*>(value), bytes));
    });
  }

  static std::int32_t store_get(void* context, const char* key, std::int64_t limit_ms, void** value,
                                std::size_t* bytes, muster_plugin_error* error) {
    return guarded(error, kWords, [&, &self = of(context)] {
      StoreClient& store = store_of(self);
      wait_for_key(store, full(self, key), std::chrono::milliseconds(limit_ms), self.join_alarm_.get());
      give(store.get(full(self, key)), value, bytes);
    });
  }

  static std::int32_t post(void* context, const char* key, const void* value, std::size_t bytes,
                           muster_plugin_error* error) {
    return guarded(error, kWords, [&, &self = of(context)] {
      const std::lock_guard lock(self.side_mutex_);
      self.side_store_->set(full(self, key), std::string_view(static_cast<const char*>(value), bytes));
    });
  }

  static std::int32_t peek(void* context, const char* key, void** value, std::size_t* bytes,
                           muster_plugin_error* error) {
    return guarded(error, kWords, [&, &self = of(context)] {
      const std::lock_guard lock(self.side_mutex_);
      *value = nullptr;
      *bytes = 0;
      if (self.side_store_->check({full(self, key)}))
        give(self.side_store_->get(full(self, key)), value, bytes);
    });
  }

  static std::int32_t aborted(void* context, muster_plugin_error* error) {
    const auto known = of(context).failure();
    return known ? report(error, known->code(), known->what()) : 0;
  }

  static void fail_group(void* context, std::int32_t code, const char* text) noexcept {
    PluginBackend& self = of(context);
    if (self.remember(static_cast<ErrorCode>(code), text))
      self.channel_->tell(self.key_, static_cast<ErrorCode>(code), text);
  }

  static void log(void*, const char* text) { log_line(text); }
};

PluginBackend::PluginBackend(const std::string& name, const GroupPlan& plan, const GroupKey& key,
                             const Surroundings& surroundings, StoreClient& store,
                             std::shared_ptr<FailureChannel> channel)
    : plugin_(load_plugin(name)),
      rank_(plan.shown(plan.rank)),
      group_name_(plan.options.name),
      report_after_(plan.options.report_after),
      key_(key.text),
      channel_(std::move(channel)),
      host_{.context = this,
            .store_set = HostSide::store_set,
            .store_get = HostSide::store_get,
            .release = std::free,
            .post = HostSide::post,
            .peek = HostSide::peek,
            .aborted = HostSide::aborted,
            .fail_group = HostSide::fail_group,
            .log = HostSide::log},
      join_alarm_(plan.alarm ? plan.alarm : std::make_shared<JoinAlarm>()) {
  channel_->join(key_, *this);
  try {
    create(plan, surroundings, store);
  } catch (...) {
    channel_->leave(key_);
    throw;
  }
}

void PluginBackend::create(const GroupPlan& plan, const Surroundings& surroundings, StoreClient& store) {
  std::vector<const char*> hosts;
  for (const std::string& host : surroundings.hosts) hosts.push_back(host.c_str());
  hosts.resize(static_cast<std::size_t>(plan.size), "");
  std::vector<std::int32_t> members(plan.members.begin(), plan.members.end());
  for (auto rank = static_cast<std::int32_t>(members.size()); rank < plan.size; ++rank)
    members.push_back(rank);
  muster_plugin_group_options options{};
  options.rank = plan.rank;
  options.size = plan.size;
  options.local_rank = surroundings.local_rank;
  options.device = surroundings.device;
  options.timeout_ms = plan.options.timeout.count();
  options.join_timeout_ms = plan.options.join_limit().count();
  options.report_after_ms = plan.options.report_after.count();
  options.group = group_name_.c_str();
  options.world_ranks = members.data();
  options.hosts = hosts.data();
  const std::vector<std::int32_t> shown(plan.shown_ranks.begin(), plan.shown_ranks.end());
  options.shown_ranks = shown.empty() ? nullptr : shown.data();
  options.interface_name =
      surroundings.interface_name.empty() ? nullptr : surroundings.interface_name.c_str();
  const std::string address = surroundings.address.empty() ? store.local_address() : surroundings.address;
  options.address = address.empty() ? nullptr : address.c_str();
  try {
    // Only device backends have a watchdog, which needs a second connection to the store.
    if (is_device()) side_store_ = connect_again(store, plan.options.join_limit(), join_alarm_.get());
    if (plan.rank == 0 && !surroundings.counter.empty())
      store.set(HostSide::full(*this, plugin::kNumberKey),
                std::to_string(store.add(surroundings.counter, 1)));
  } catch (const Error& error) {
    fail(error);
  }
  store_ = &store;
  const auto error = try_call(plugin_.create, &options, &host_, &group_);
  store_ = nullptr;
  if (error) fail(error->code() == ErrorCode::backend ? known_cause(*error) : *error);
  const std::lock_guard lock(mutex_);
  can_abort_ = true;
  if (local_) end_calls(*local_);
}

/// The error to report for `error`. A connection that cannot be made is often the first sign of a rank that
/// has died; the rank that watches the dead one reports it by name a moment later.
Error PluginBackend::known_cause(const Error& error) const {
  pollfd rung{join_alarm_->descriptor(), POLLIN, 0};
  (void)::poll(&rung, 1, static_cast<int>(kAlarmTime.count()));
  try {
    join_alarm_->check();
  } catch (const Error& known) {
    return known;
  }
  return error;
}

PluginBackend::~PluginBackend() {
  {
    std::unique_lock lock(mutex_);
    if (local_) told_.wait_for(lock, kAgreementTime, [this] { return agreed_.has_value(); });
  }
  channel_->leave(key_);
  plugin_.destroy(group_);
  for (void* memory : memory_) std::free(memory);
}

void PluginBackend::run(std::span<const Operation> batch) {
  if (batch.empty()) return;
  {
    std::unique_lock lock(mutex_);
    if (local_) throw_failure(lock);
    current_ = batch.front().call;
    entered_at_ = Clock::now();
    reported_ = false;
  }
  const auto error = try_call(plugin_.run, group_, batch.data(), batch.size());
  {
    std::unique_lock lock(mutex_);
    entered_at_.reset();
    if (error && error->code() == ErrorCode::peer_lost && !has_run_)
      told_.wait_for(lock, kCauseTime, [this] { return agreed_.has_value(); });
  }
  if (error) fail(*error);
  has_run_ = has_run_ || std::any_of(batch.begin(), batch.end(), [](const Operation& operation) {
               return !is_point_to_point(operation.call.collective);
             });
}

/// Fails the group and throws the error that all its ranks throw: the failure that reached the store first.
void PluginBackend::fail(const Error& error) {
  // A wrong argument does not fail the group, except in a rank that cannot join, for which others wait.
  if (error.code() == ErrorCode::invalid_argument && group_ != nullptr) throw Error(error);
  if (remember(error.code(), error.what())) channel_->tell(key_, error.code(), error.what());
  std::unique_lock lock(mutex_);
  throw_failure(lock);
}

/// Throws the group's failure once the store has it: the other ranks can know the cause then, so this rank
/// may close its connections.
void PluginBackend::throw_failure(std::unique_lock<std::mutex>& lock) {
  told_.wait_for(lock, kAgreementTime, [this] { return agreed_.has_value(); });
  if (!agreed_) agreed_ = local_;
  throw *agreed_;
}

std::optional<Error> PluginBackend::failure() {
  const std::lock_guard lock(mutex_);
  return agreed_ ? agreed_ : local_;
}

/// Notes the group's failure on this rank. False when it has failed before.
bool PluginBackend::remember(ErrorCode code, const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (local_) return false;
  local_.emplace(code, text);
  return true;
}

/// Makes the plug-in's calls end, at most once. `mutex_` must be held.
void PluginBackend::end_calls(const Error& error) noexcept {
  if (std::exchange(can_abort_, false))
    plugin_.abort(group_, static_cast<std::int32_t>(error.code()), error.what());
}

void PluginBackend::group_failed(ErrorCode code, const std::string& text) noexcept {
  std::function<void(const Error&)> tell;
  {
    const std::lock_guard lock(mutex_);
    agreed_.emplace(code, text);
    if (!local_) local_ = agreed_;
    join_alarm_->ring(code, text);
    told_.notify_all();
    end_calls(*agreed_);
    tell = on_failure_;
  }
  if (tell) tell(Error(code, text));
}

void PluginBackend::on_failure(std::function<void(const Error&)> told) {
  std::optional<Error> known;
  {
    const std::lock_guard lock(mutex_);
    on_failure_ = told;
    known = agreed_;
  }
  if (known) told(*known);
}

bool PluginBackend::is_host(const void* memory) {
  std::int32_t is_host = 0;
  if (const auto error = try_call(plugin_.classify, group_, memory, &is_host)) fail(*error);
  return is_host != 0;
}

/// Runs `work` inside the plug-in. An exception of `work` does not pass through the plug-in, and does not
/// fail the group.
void PluginBackend::launch(const std::function<void()>& work) {
  if (!is_device()) return work();

  struct Guarded {
    const std::function<void()>& work;
    std::exception_ptr thrown;
  } guarded_work{work, nullptr};

  const auto run = [](void* context) {
    auto& all = *static_cast<Guarded*>(context);
    try {
      all.work();
    } catch (...) {
      all.thrown = std::current_exception();
    }
  };
  const auto error =
      try_call(plugin_.launch, group_, static_cast<void (*)(void*)>(run), static_cast<void*>(&guarded_work));
  if (guarded_work.thrown) std::rethrow_exception(guarded_work.thrown);
  if (error) fail(*error);
}

void PluginBackend::abort(ErrorCode code, const std::string& text) noexcept {
  if (!remember(code, text)) return;
  channel_->tell(key_, code, text);
  std::unique_lock lock(mutex_);
  // group_failed() ends the plug-in's calls. The others must learn the cause before they see the calls end,
  // or they would name this rank as the cause. On the channel's own thread they know the cause already.
  if (!channel_->is_delivering())
    told_.wait_for(lock, kAgreementTime, [this] { return agreed_.has_value(); });
  end_calls(*local_);
}

void PluginBackend::look(Clock::time_point now) noexcept {
  if (report_after_.count() <= 0) return;
  const std::lock_guard lock(mutex_);
  if (!entered_at_ || reported_ || now - *entered_at_ < report_after_) return;
  reported_ = true;
  const auto waited = now - *entered_at_;
  char missing[512] = "";
  plugin_.describe_wait(group_, missing, sizeof(missing));
  const std::string text = "rank " + std::to_string(rank_) + " waits in the group '" + group_name_ +
                           "' since " + std::to_string(waited / std::chrono::seconds(1)) + " s (" +
                           describe(current_) + ")" +
                           (missing[0] == '\0' ? std::string() : " for " + std::string(missing));
  log_line(text.c_str());
}

void* PluginBackend::allocate(const Call& call) {
  const auto bytes = static_cast<std::size_t>(std::max<std::uint64_t>(call.count, 1));
  void* memory = nullptr;
  if (is_device()) {
    {
      std::unique_lock lock(mutex_);
      if (local_) throw_failure(lock);
    }
    if (const auto error = try_call(plugin_.allocate, group_, &call, &memory)) fail(*error);
    return memory;
  }
  Operation operation;
  operation.call = call;
  run(std::span(&operation, 1));
  constexpr std::size_t kAlignment = 4096;
  memory = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  if (memory == nullptr)
    throw Error(ErrorCode::out_of_memory, "allocate: no memory for " + std::to_string(bytes) + " bytes");
  std::memset(memory, 0, bytes);
  memory_.push_back(memory);
  return memory;
}

Wire PluginBackend::wire() const {
  Wire wire;
  plugin_.wire(group_, &wire);
  return wire;
}

class PluginBackend::Token final : public Completion {
 public:
  Token(PluginBackend& backend, void* token) : backend_(backend), token_(token) {}

  ~Token() override { backend_.plugin_.release_token(token_); }

  Token(const Token&) = delete;
  Token& operator=(const Token&) = delete;

  bool test() override {
    std::int32_t done = 0;
    if (const auto error = try_call(backend_.plugin_.test, token_, &done)) backend_.fail(*error);
    return done != 0;
  }

 private:
  PluginBackend& backend_;
  void* token_;
};

std::unique_ptr<Completion> PluginBackend::last_run() {
  if (!is_device()) return nullptr;
  void* token = nullptr;
  if (const auto error = try_call(plugin_.mark, group_, &token)) fail(*error);
  return std::make_unique<Token>(*this, token);
}

}  // namespace muster::plugin
