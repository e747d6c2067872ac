// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/process_group.hpp"

#include "rendezvous/base/fnv1a.hpp"
#include "worker_sdk/comm/call_queue.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

namespace muster {
namespace {

[[noreturn]] void refuse_stream(const Call& call, const std::string& group, std::string_view backend) {
  throw Error(ErrorCode::invalid_argument,
              describe(call) + " has a stream, and the group '" + group + "' has the backend '" +
                  std::string(backend) +
                  "', which moves memory of the host; give no stream, or ask for nccl (MUSTER_BACKEND=nccl)");
}

[[noreturn]] void refuse_memory(MemoryKind memory, const std::string& group, std::string_view backend) {
  const std::string where =
      "allocate: the group '" + group + "' has the backend '" + std::string(backend) + "'";
  throw Error(ErrorCode::unsupported,
              where + (memory == MemoryKind::device
                           ? " and so no memory of a device; ask for memory of the host, or for nccl "
                             "(MUSTER_BACKEND=nccl)"
                           : " alone, which exchanges no memory of the host; install the plug-in gloo on all "
                             "hosts, or ask for memory of the device"));
}

/// The error that ends a call, made of any exception, even one that nobody foresaw, because the other ranks
/// must not wait for this one.
Error as_error(const std::exception& thrown, const Call& call, const ProcessGroup& group) {
  if (const auto* error = dynamic_cast<const Error*>(&thrown)) return *error;
  const bool is_memory = dynamic_cast<const std::bad_alloc*>(&thrown) != nullptr;
  const std::string where = "rank " + std::to_string(group.plan().shown(group.rank())) + " of the group '" +
                            group.name() + "' in " + describe(call);
  if (is_memory) return Error(ErrorCode::out_of_memory, "no memory is left for " + where);
  return Error(ErrorCode::backend, where + " failed: " + thrown.what());
}

/// The most bytes of a list in a text; a list that is cut here usually still tells the call.
constexpr std::size_t kTextBytes = 160;

using ListText = std::array<char, kTextBytes>;

/// A hash of the list of new_group(); 0 stands for split(), which has no list.
std::uint64_t hash_of(std::span<const int> ranks) {
  return ranks.empty() ? 0 : fnv1a(ranks.data(), ranks.size_bytes()) | 1U;
}

ListText text_of(std::span<const int> ranks) {
  std::string text = ranks.empty() ? "split()" : "new_group() of " + std::to_string(ranks.size()) + " ranks:";
  for (const int rank : ranks) {
    if (text.size() + 16 >= kTextBytes) {
      text += " ...";
      break;
    }
    text += " " + std::to_string(rank);
  }
  ListText result{};
  std::memcpy(result.data(), text.data(), std::min(text.size(), kTextBytes - 1));
  return result;
}

}  // namespace

ProcessGroup::ProcessGroup(std::unique_ptr<Backend> backend, GroupPlan plan,
                           std::shared_ptr<GroupFactory> factory)
    : plan_(std::move(plan)), factory_(std::move(factory)), backend_(std::move(backend)) {
  if (!factory_) return;
  observer_ = factory_->observer(plan_);
  registration_ = factory_->registration(plan_, *backend_);
}

ProcessGroup::~ProcessGroup() {
  if (queue_ && !queue_->is_idle()) abort("it was destroyed with unfinished calls");
  queue_.reset();
}

/// Checks and numbers the calls of a batch. A field that does not matter to a call gets a fixed value, so
/// that it does not differ between ranks. Returns the kind of memory of the calls.
MemoryKind ProcessGroup::number(std::span<Operation> batch) {
  for (Operation& operation : batch) {
    Call& call = operation.call;
    if (!has_root(call.collective) && !is_point_to_point(call.collective)) call.root = 0;
    const bool is_collective = !is_point_to_point(call.collective);
    if (is_collective) call.tag = 0;
    call.algorithm = is_collective ? plan_.options.algorithm : Algorithm::direct;
    if (!is_reduction(call.collective)) call.op = ReduceOp::sum;
    if (call.collective == Collective::barrier) {
      call.type = DataType::u8;
      call.count = 0;
    }
    check_operation(operation, rank(), size());
    if (operation.stream != nullptr && !backend_->is_device()) refuse_stream(call, name(), backend());
    if (operation.call.collective != Collective::all_gather_v) continue;
    const std::span<const std::uint64_t> counts(operation.counts, static_cast<std::size_t>(size()));
    operation.call.signature = fnv1a(counts.data(), counts.size_bytes());
    operation.call.count = 0;
    for (const std::uint64_t count : counts) operation.call.count += count;
  }
  const MemoryKind memory = backend_->memory_of(batch);
  for (Operation& operation : batch) {
    operation.call.memory = memory;
    operation.call.sequence = is_point_to_point(operation.call.collective) ? sequence_ : ++sequence_;
  }
  return memory;
}

void ProcessGroup::count(std::span<const Operation> batch) {
  std::uint64_t sum = 0;
  for (const Operation& operation : batch) sum += payload_times_size(operation, rank(), size());
  payload_times_size_.fetch_add(sum, std::memory_order_relaxed);
}

Traffic ProcessGroup::traffic() const {
  const std::uint64_t parts = payload_times_size_.load(std::memory_order_relaxed);
  return {parts / static_cast<std::uint64_t>(size()), backend_->wire()};
}

/// Runs `body`, a part of `call`. Whatever it throws ends the call and comes out as an Error.
template <typename Body>
auto ProcessGroup::attempt(const Call& call, Body body) {
  try {
    return body();
  } catch (const std::exception& thrown) {
    const Error error = as_error(thrown, call, *this);
    fail(call, error);
    throw Error(error);
  }
}

/// Runs `body` with calls that have numbers behind `before`; `order_` must be held. A refused call does not
/// count: the next call gets its number.
template <typename Body>
auto ProcessGroup::numbered_behind(std::uint64_t before, Body body) {
  try {
    return body();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::invalid_argument) sequence_ = before;
    throw;
  }
}

void ProcessGroup::execute(std::span<const Operation> batch) {
  check_alive();
  if (observer_)
    for (const Operation& operation : batch)
      attempt(operation.call, [&] { observer_->entering(operation.call); });
  attempt(batch.back().call, [&] {
    count(batch);
    backend_->run(batch);
  });
}

void ProcessGroup::completed(std::span<const Operation> batch) {
  if (!observer_) return;
  for (const Operation& operation : batch) observer_->completed(operation.call);
}

void ProcessGroup::check_alive() {
  if (!has_failed_) return;
  const std::lock_guard lock(failure_mutex_);
  throw *failure_;
}

/// Ends a call with `error`. Unless only its arguments were wrong, the calls of all ranks end.
void ProcessGroup::fail(const Call& call, const Error& error) {
  if (observer_) observer_->failed(call, error);
  if (error.code() == ErrorCode::invalid_argument) return;
  {
    const std::lock_guard lock(failure_mutex_);
    if (!failure_) failure_ = error;
  }
  has_failed_ = true;
  backend_->abort(error.code(), error.what());
}

CallQueue& ProcessGroup::queue() {
  if (!queue_) queue_ = std::make_unique<CallQueue>(*this);
  return *queue_;
}

void ProcessGroup::run(Operation operation) {
  const std::lock_guard lock(order_);
  run_numbered(std::span(&operation, 1));
}

void ProcessGroup::run(std::vector<Operation> batch) {
  if (batch.empty()) return;
  const std::lock_guard lock(order_);
  run_numbered(batch);
}

/// Numbers and runs a batch; `order_` must be held.
void ProcessGroup::run_numbered(std::span<Operation> batch) {
  const std::uint64_t before = sequence_;
  const MemoryKind memory = number(batch);
  if (queue_) queue_->drain();
  numbered_behind(before, [&] { execute(batch); });
  if (memory == MemoryKind::device && batch.back().stream == nullptr) wait_for_device(batch);
  completed(batch);
}

/// Waits for calls on the backend's own stream. The backend keeps their deadline.
void ProcessGroup::wait_for_device(std::span<const Operation> batch) {
  const Call& call = batch.back().call;
  attempt(call, [&] { make_device_work(backend_->last_run(), describe(call))->wait(); });
}

std::shared_ptr<Work> ProcessGroup::start(std::vector<Operation> batch) {
  if (batch.empty()) return make_finished_work();
  const std::lock_guard lock(order_);
  const std::uint64_t before = sequence_;
  if (number(batch) == MemoryKind::host) return queue().push(std::move(batch));
  if (queue_) queue_->drain();
  numbered_behind(before, [&] { execute(batch); });
  completed(batch);
  return make_device_work(backend_->last_run(), describe(batch.front().call));
}

void ProcessGroup::barrier() {
  run(operation_of(Collective::barrier, 0, DataType::u8, nullptr, nullptr));
}

void ProcessGroup::broadcast(void* data, std::size_t bytes, int root) {
  Operation operation = operation_of(Collective::broadcast, bytes, DataType::u8, data, data);
  operation.call.root = root;
  run(operation);
}

void ProcessGroup::all_reduce(void* data, std::size_t count, DataType type, ReduceOp op) {
  Operation operation = operation_of(Collective::all_reduce, count, type, data, data);
  operation.call.op = op;
  run(operation);
}

void* ProcessGroup::allocate(std::size_t bytes, MemoryKind memory) {
  constexpr std::size_t kLimit = std::size_t{1} << 43;
  if (bytes > kLimit)
    throw Error(ErrorCode::invalid_argument, "allocate: " + std::to_string(bytes) + " bytes are too many");
  if (!backend_->has(memory)) refuse_memory(memory, name(), backend());
  const std::lock_guard lock(order_);
  if (queue_) queue_->drain();
  Call call;
  call.collective = Collective::allocate;
  call.count = bytes;
  call.memory = memory;
  call.algorithm = plan_.options.algorithm;
  const std::uint64_t before = sequence_;
  call.sequence = ++sequence_;
  check_alive();
  return numbered_behind(before, [&] {
    return attempt(call, [&] {
      if (observer_) observer_->entering(call);
      void* const place = backend_->allocate(call);
      if (observer_) observer_->completed(call);
      return place;
    });
  });
}

void ProcessGroup::abort(const std::string& reason) {
  backend_->abort(ErrorCode::aborted, "the group '" + name() + "' was aborted by rank " +
                                          std::to_string(plan_.shown(rank())) + ": " + reason);
}

void ProcessGroup::launch(const std::function<void()>& work) {
  check_alive();
  backend_->launch(work);
}

/// Fails because the lists differ. All ranks know that rank 0 and `other` differ, so all tell each other
/// their lists.
void ProcessGroup::refuse_lists(std::span<const int> ranks, int other) {
  const ListText mine = text_of(ranks);
  std::vector<ListText> texts(static_cast<std::size_t>(size()));
  const Operation operation =
      operation_of(Collective::all_gather, mine.size(), DataType::u8, mine.data(), texts.data());
  run(operation);
  const auto said = [&texts](int rank) {
    ListText& text = texts[static_cast<std::size_t>(rank)];
    text.back() = '\0';
    return "rank " + std::to_string(rank) + " called " + text.data();
  };
  const Error error(ErrorCode::mismatch,
                    "the ranks of the group '" + name() + "' do not agree on the group to make: " + said(0) +
                        ", " + said(other) +
                        "; call the same function on all ranks, with the same list in the same order");
  fail(operation.call, error);
  throw error;
}

/// Makes a new group. `ranks` is the list of new_group(); empty for split().
std::unique_ptr<ProcessGroup> ProcessGroup::make_child(int color, int key, std::span<const int> ranks) {
  if (!factory_) throw Error(ErrorCode::unsupported, "the group '" + name() + "' cannot be split");

  struct Choice {
    std::int32_t color;
    std::int32_t key;
    std::uint64_t list;
  };

  std::vector<Choice> choices(static_cast<std::size_t>(size()));
  const Choice mine{color, key, hash_of(ranks)};
  run(operation_of(Collective::all_gather, sizeof(mine), DataType::u8, &mine, choices.data()));
  const auto other = std::find_if(choices.begin(), choices.end(), [&choices](const Choice& choice) {
    return choice.list != choices.front().list;
  });
  if (other != choices.end()) refuse_lists(ranks, static_cast<int>(other - choices.begin()));
  const std::uint64_t child = ++children_;
  if (color < 0) return nullptr;
  std::vector<int> members;
  for (int peer = 0; peer < size(); ++peer)
    if (choices[static_cast<std::size_t>(peer)].color == color) members.push_back(peer);
  std::stable_sort(members.begin(), members.end(), [&choices](int a, int b) {
    return choices[static_cast<std::size_t>(a)].key < choices[static_cast<std::size_t>(b)].key;
  });
  GroupPlan plan;
  plan.options = plan_.options;
  // The ranks of the new group have met already, so making it may take as long as any other call.
  plan.options.join_timeout = std::chrono::milliseconds(0);
  plan.options.name += "/" + std::to_string(child) + "." + std::to_string(color);
  plan.size = static_cast<int>(members.size());
  for (int position = 0; position < plan.size; ++position) {
    const auto peer = static_cast<std::size_t>(members[static_cast<std::size_t>(position)]);
    if (static_cast<int>(peer) == rank()) plan.rank = position;
    plan.members.push_back(plan_.members.empty() ? static_cast<int>(peer) : plan_.members[peer]);
    // Of a rank that has failed everybody speaks by its number in the world.
    plan.shown_ranks.push_back(plan_.shown(static_cast<int>(peer)));
  }
  auto backend = factory_->make(plan);
  return std::make_unique<ProcessGroup>(std::move(backend), std::move(plan), factory_);
}

std::unique_ptr<ProcessGroup> ProcessGroup::split(int color, int key) {
  return make_child(color, key, {});
}

std::unique_ptr<ProcessGroup> ProcessGroup::new_group(std::span<const int> ranks) {
  int position = -1;
  std::vector<bool> used(static_cast<std::size_t>(size()));
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const int peer = ranks[i];
    if (peer < 0 || peer >= size() || used[static_cast<std::size_t>(peer)])
      throw Error(ErrorCode::invalid_argument,
                  "new_group: rank " + std::to_string(peer) +
                      (peer < 0 || peer >= size() ? " is outside 0.." : " twice; 0..") +
                      std::to_string(size() - 1) + " are possible, each once");
    used[static_cast<std::size_t>(peer)] = true;
    if (peer == rank()) position = static_cast<int>(i);
  }
  if (ranks.empty()) throw Error(ErrorCode::invalid_argument, "new_group: no ranks");
  return make_child(position < 0 ? -1 : 0, position, ranks);
}

}  // namespace muster
