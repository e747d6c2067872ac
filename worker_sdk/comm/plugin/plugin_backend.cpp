// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/plugin/plugin_backend.hpp"

#include "worker_sdk/comm/join_alarm.hpp"
#include "worker_sdk/comm/plugin/loader.hpp"

#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace muster::plugin {
namespace {

using Clock = std::chrono::steady_clock;

/// How long a failed rank waits for the store to say what the group's first failure was.
constexpr auto kAgreementTime = std::chrono::seconds(2);
/// How long a rank that loses a peer in its first call waits for another cause: a peer that still joins the
/// group when a third rank dies closes its connections first and tells why right after that. Those who watch
/// their peers on a host look twice, 20 ms apart, before they say that one is lost.
constexpr auto kCauseTime = std::chrono::milliseconds(75);
/// How long a rank that cannot connect waits for news of one that has died.
constexpr auto kAlarmTime = std::chrono::milliseconds(1000);

void set_error(muster_plugin_error* error, ErrorCode code, const std::string& text) {
  if (error == nullptr) return;
  error->code = static_cast<int32_t>(code);
  const std::size_t length = std::min(text.size(), sizeof(error->text) - 1);
  std::memcpy(error->text, text.data(), length);
  error->text[length] = '\0';
}

muster_plugin_operation converted(const Operation& operation) {
  muster_plugin_operation plain{};
  plain.sequence = operation.call.sequence;
  plain.count = operation.call.count;
  plain.signature = operation.call.signature;
  plain.root = operation.call.root;
  plain.tag = operation.call.tag;
  plain.collective = static_cast<std::uint8_t>(operation.call.collective);
  plain.type = static_cast<std::uint8_t>(operation.call.type);
  plain.op = static_cast<std::uint8_t>(operation.call.op);
  plain.in = operation.in;
  plain.out = operation.out;
  plain.counts = operation.counts.empty() ? nullptr : operation.counts.data();
  plain.stream = operation.stream;
  return plain;
}

void log_line(const char* text) {
  std::fprintf(stderr, "muster: %s\n", text);
}

}  // namespace

/// The store below the group's prefix, as create() sees it, and over a connection of its own for watchdogs.
struct PluginBackend::Keys {
  static std::string full(const PluginBackend& self, const char* key) {
    return "muster/" + std::string(self.plugin_.name) + "/" + self.key_ + "/" + key;
  }

  static void give(const std::string& text, void** value, size_t* bytes) {
    *value = std::malloc(std::max<std::size_t>(text.size(), 1));
    if (*value == nullptr) throw Error(ErrorCode::out_of_memory, "no memory for a value of the store");
    std::memcpy(*value, text.data(), text.size());
    *bytes = text.size();
  }

  static int32_t set(void* context, const char* key, const void* value, size_t bytes,
                     muster_plugin_error* error) {
    return guarded(context, error, [&](PluginBackend& self) {
      store_of(self).set(full(self, key), std::string_view(static_cast<const char*>(value), bytes));
    });
  }

  static int32_t get(void* context, const char* key, int64_t limit_ms, void** value, size_t* bytes,
                     muster_plugin_error* error) {
    return guarded(context, error, [&](PluginBackend& self) {
      StoreClient& store = store_of(self);
      wait_for_key(store, full(self, key), std::chrono::milliseconds(limit_ms), self.join_alarm_.get());
      give(store.get(full(self, key)), value, bytes);
    });
  }

  static int32_t post(void* context, const char* key, const void* value, size_t bytes,
                      muster_plugin_error* error) {
    return guarded(context, error, [&](PluginBackend& self) {
      const std::lock_guard lock(self.side_mutex_);
      self.side_store_->set(full(self, key), std::string_view(static_cast<const char*>(value), bytes));
    });
  }

  static int32_t peek(void* context, const char* key, void** value, size_t* bytes,
                      muster_plugin_error* error) {
    return guarded(context, error, [&](PluginBackend& self) {
      const std::lock_guard lock(self.side_mutex_);
      *value = nullptr;
      *bytes = 0;
      if (self.side_store_->check({full(self, key)}))
        give(self.side_store_->get(full(self, key)), value, bytes);
    });
  }

  static StoreClient& store_of(PluginBackend& self) {
    if (self.store_ == nullptr)
      throw Error(ErrorCode::state, "a plug-in may wait for keys of the store in create() only");
    return *self.store_;
  }

  template <typename Body>
  static int32_t guarded(void* context, muster_plugin_error* error, const Body& body) noexcept {
    try {
      body(*static_cast<PluginBackend*>(context));
      return 0;
    } catch (const Error& failure) {
      set_error(error, failure.code(), failure.what());
      return static_cast<int32_t>(failure.code());
    } catch (const std::exception& failure) {
      set_error(error, ErrorCode::backend, failure.what());
      return static_cast<int32_t>(ErrorCode::backend);
    }
  }
};

PluginBackend::PluginBackend(const std::string& name, const GroupPlan& plan, const GroupKey& key,
                             const Surroundings& surroundings, StoreClient& store,
                             std::shared_ptr<FailureChannel> channel)
    : plugin_(load_plugin(name)),
      rank_(plan.rank),
      group_name_(plan.options.name),
      report_after_(plan.options.report_after),
      key_(key.text),
      channel_(std::move(channel)),
      host_(make_host()),
      join_alarm_(plan.alarm ? plan.alarm : std::make_shared<JoinAlarm>()) {
  channel_->join(key_, *this);
  try {
    create(plan, surroundings, store);
  } catch (...) {
    channel_->leave(key_);
    throw;
  }
}

muster_plugin_host PluginBackend::make_host() {
  muster_plugin_host host{};
  host.context = this;
  host.store_set = Keys::set;
  host.store_get = Keys::get;
  host.release = std::free;
  host.post = Keys::post;
  host.peek = Keys::peek;
  host.aborted = host_aborted;
  host.fail_group = host_fail_group;
  host.log = host_log;
  return host;
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
  options.run_id = surroundings.run_id.c_str();
  options.world_ranks = members.data();
  options.hosts = hosts.data();
  const std::vector<std::int32_t> shown(surroundings.shown_ranks.begin(), surroundings.shown_ranks.end());
  options.shown_ranks = shown.empty() ? nullptr : shown.data();
  options.interface_name =
      surroundings.interface_name.empty() ? nullptr : surroundings.interface_name.c_str();
  const std::string address = surroundings.address.empty() ? store.local_address() : surroundings.address;
  options.address = address.empty() ? nullptr : address.c_str();
  // Only device backends have watchdogs; the others need no second connection.
  if (is_device()) side_store_ = store.clone();
  store_ = &store;
  muster_plugin_error error{};
  const int32_t code = plugin_.create(&options, &host_, &group_, &error);
  store_ = nullptr;
  if (code == static_cast<int32_t>(ErrorCode::backend)) prefer_alarm(error);
  if (code != 0) fail(error);
  const std::lock_guard lock(mutex_);
  can_abort_ = true;
  if (!local_ || plugin_.abort == nullptr) return;
  can_abort_ = false;
  plugin_.abort(group_, static_cast<int32_t>(local_->code), local_->text.c_str());
}

/// A connection that cannot be made is often the first sign of a rank that has died; who watches it says so a
/// moment later, by name.
void PluginBackend::prefer_alarm(muster_plugin_error& error) const {
  pollfd rung{join_alarm_->descriptor(), POLLIN, 0};
  (void)::poll(&rung, 1, static_cast<int>(kAlarmTime.count()));
  try {
    join_alarm_->check();
  } catch (const Error& known) {
    set_error(&error, known.code(), known.what());
  }
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
  operations_.clear();
  for (const Operation& operation : batch) operations_.push_back(converted(operation));
  muster_plugin_error error{};
  const int32_t code = plugin_.run(group_, operations_.data(), operations_.size(), &error);
  {
    std::unique_lock lock(mutex_);
    entered_at_.reset();
    if (code == static_cast<int32_t>(ErrorCode::peer_lost) && !has_run_)
      told_.wait_for(lock, kCauseTime, [this] { return agreed_.has_value(); });
  }
  if (code != 0) fail(error);
  has_run_ = has_run_ || std::any_of(batch.begin(), batch.end(), [](const Operation& operation) {
               return !is_point_to_point(operation.call.collective);
             });
}

/// Throws what all ranks of the group throw: the failure that reached the store first.
void PluginBackend::fail(const muster_plugin_error& error) {
  const auto code = static_cast<ErrorCode>(error.code);
  // A call with a wrong argument is none; but a rank that cannot join has others that wait for it.
  if (code == ErrorCode::invalid_argument && group_ != nullptr) throw Error(code, error.text);
  if (remember(code, error.text)) channel_->tell(key_, code, error.text);
  std::unique_lock lock(mutex_);
  throw_failure(lock);
}

/// When the store has it, the others can know it: then this rank may go and close its connections.
void PluginBackend::throw_failure(std::unique_lock<std::mutex>& lock) {
  told_.wait_for(lock, kAgreementTime, [this] { return agreed_.has_value(); });
  if (!agreed_) agreed_ = local_;
  throw Error(agreed_->code, agreed_->text);
}

std::optional<PluginBackend::Failure> PluginBackend::failure() {
  const std::lock_guard lock(mutex_);
  return agreed_ ? agreed_ : local_;
}

/// False when the group has failed before.
bool PluginBackend::remember(ErrorCode code, const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (local_) return false;
  local_ = Failure{code, text};
  return true;
}

void PluginBackend::group_failed(ErrorCode code, const std::string& text) noexcept {
  const std::lock_guard lock(mutex_);
  agreed_ = Failure{code, text};
  if (!local_) local_ = agreed_;
  join_alarm_->ring(code, text);
  told_.notify_all();
  if (!std::exchange(can_abort_, false) || plugin_.abort == nullptr) return;
  plugin_.abort(group_, static_cast<int32_t>(code), text.c_str());
}

void PluginBackend::abort(ErrorCode code, const std::string& text) noexcept {
  if (!remember(code, text)) return;
  channel_->tell(key_, code, text);
  std::unique_lock lock(mutex_);
  // group_failed() ends the plug-in's calls. What the others see of that must not come to them before the
  // cause, or they would name this rank. On the channel's own thread the cause is one that they know.
  if (!channel_->is_delivering())
    told_.wait_for(lock, kAgreementTime, [this] { return agreed_.has_value(); });
  if (!std::exchange(can_abort_, false) || plugin_.abort == nullptr) return;
  plugin_.abort(group_, static_cast<int32_t>(code), text.c_str());
}

void PluginBackend::look(Clock::time_point now) noexcept {
  if (report_after_.count() <= 0) return;
  const std::lock_guard lock(mutex_);
  if (!entered_at_ || reported_ || now - *entered_at_ < report_after_) return;
  reported_ = true;
  const auto waited = now - *entered_at_;
  char missing[512] = "";
  if (plugin_.describe_wait != nullptr) plugin_.describe_wait(group_, missing, sizeof(missing));
  const std::string text = "rank " + std::to_string(rank_) + " waits in the group '" + group_name_ +
                           "' since " + std::to_string(waited / std::chrono::seconds(1)) + " s (" +
                           describe(current_) + ")" +
                           (missing[0] == '\0' ? std::string() : " for " + std::string(missing));
  log_line(text.c_str());
}

void* PluginBackend::allocate(const Call& call) {
  const auto bytes = static_cast<std::size_t>(std::max<std::uint64_t>(call.count, 1));
  void* memory = nullptr;
  if (plugin_.allocate != nullptr) {
    {
      std::unique_lock lock(mutex_);
      if (local_) throw_failure(lock);
    }
    muster_plugin_error error{};
    if (plugin_.allocate(group_, call.sequence, bytes, &memory, &error) != 0) fail(error);
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

class PluginBackend::Token final : public Completion {
 public:
  Token(PluginBackend& backend, void* token) : backend_(backend), token_(token) {}

  ~Token() override { backend_.plugin_.release_token(backend_.group_, token_); }

  Token(const Token&) = delete;
  Token& operator=(const Token&) = delete;

  bool test() override {
    muster_plugin_error error{};
    int32_t done = 0;
    if (backend_.plugin_.test(backend_.group_, token_, &done, &error) != 0) backend_.fail(error);
    return done != 0;
  }

 private:
  PluginBackend& backend_;
  void* token_;
};

std::unique_ptr<Completion> PluginBackend::last_run() {
  if (!is_device()) return nullptr;
  void* token = nullptr;
  muster_plugin_error error{};
  if (plugin_.mark(group_, &token, &error) != 0) fail(error);
  return std::make_unique<Token>(*this, token);
}

int32_t PluginBackend::host_aborted(void* context, muster_plugin_error* error) {
  const auto known = static_cast<PluginBackend*>(context)->failure();
  if (!known) return 0;
  set_error(error, known->code, known->text);
  return static_cast<int32_t>(known->code);
}

void PluginBackend::host_fail_group(void* context, int32_t code, const char* text) {
  auto* const self = static_cast<PluginBackend*>(context);
  if (self->remember(static_cast<ErrorCode>(code), text))
    self->channel_->tell(self->key_, static_cast<ErrorCode>(code), text);
}

void PluginBackend::host_log(void*, int32_t, const char* text) {
  log_line(text);
}

}  // namespace muster::plugin
