// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/process_group.hpp"

#include "rendezvous/base/fnv1a.hpp"
#include "worker_sdk/comm/call_queue.hpp"

#include <algorithm>
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
  const std::string where =
      "rank " + std::to_string(group.rank()) + " of the group '" + group.name() + "' in " + describe(call);
  if (is_memory) return Error(ErrorCode::out_of_memory, "no memory is left for " + where);
  return Error(ErrorCode::backend, where + " failed: " + thrown.what());
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
  backend_->abort(ErrorCode::aborted,
                  "the group '" + name() + "' was aborted by rank " + std::to_string(rank()) + ": " + reason);
}

void ProcessGroup::launch(const std::function<void()>& work) {
  check_alive();
  backend_->launch(work);
}

}  // namespace muster
