// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/nccl/group.hpp"

#include "muster/error.hpp"
#include "rendezvous/base/quiet_thread.hpp"

#include <algorithm>
#include <utility>

namespace muster::nccl {
namespace {

using std::chrono::milliseconds;

/// The time for freeing a group that has failed, and for peers that are gone or do not leave.
constexpr auto kLeaveTime = milliseconds(1500);
/// The time for freeing a group whose ranks all leave, because NCCL frees what each rank shares with its
/// peers.
constexpr auto kFreeTime = milliseconds(15000);
/// The interval in which a leaving rank checks whether the others leave.
constexpr auto kLeavingPeriod = milliseconds(100);
/// The time that a refused call waits for its cause, longer than the watchdog looks for it.
constexpr auto kExplainTime = milliseconds(2000);

}  // namespace

Group::Group(const Library& api, const muster_plugin_group_options& options, const plugin::Host& host)
    : api_(api),
      host_(host),
      name_(options.group),
      place_{options.rank, options.size},
      timeout_(options.timeout_ms),
      report_after_(options.report_after_ms),
      communicator_(api, std::max(0, options.device >= 0 ? options.device : options.local_rank), name_),
      board_(host_, options.rank, options.size) {
  const std::chrono::milliseconds limit(options.join_timeout_ms);
  const auto end = Clock::now() + limit;
  const Joined joined = join(host_, api, place_.rank, place_.size, limit, name_, [&] {
    device_ = std::make_shared<Device>(api, choose_device(api, options.local_rank, options.device));
    return this_member(api, place_.rank, device_->index(), options.hosts[place_.rank]);
  });
  const std::vector<int> world_ranks(options.world_ranks, options.world_ranks + options.size);
  peers_ = std::make_unique<Peers>(joined.members, place_.rank, world_ranks);
  const DeviceGuard guard = device_->make_current();
  communicator_.init(joined.id, place_.rank, place_.size, [&] {
    if (const auto aborted = host_.aborted()) throw *aborted;
    if (const auto gone = peers_->find_gone())
      throw Error(ErrorCode::peer_lost, here() + ": " + peers_->name_of(*gone) +
                                            " ended while the communicator was made; look at its output");
    if (Clock::now() < end) return;
    throw Error(ErrorCode::deadline,
                here() + ": NCCL did not connect the " + std::to_string(place_.size) + " ranks within " +
                    std::to_string(limit.count()) +
                    " ms; see which rank is slow with NCCL_DEBUG=INFO, and check that the "
                    "interface (NCCL_SOCKET_IFNAME) reaches the other hosts");
  });
  thread_ = quiet_thread([this] { watch(); });
}

Group::~Group() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  const auto patience = patience_to_leave();
  const bool works = !failed_.load();
  try {
    const DeviceGuard guard = device_->make_current();
    if (works) {
      board_.leave();
      deregister_regions(patience);
    } else if (!revoked_) {
      (void)communicator_.revoke(kLeaveTime);
    }
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch) the store is gone, or another rank is
  }
  try {
    const DeviceGuard guard = device_->make_current();
    if (!communicator_.close(works ? kFreeTime : kLeaveTime, patience)) {
      host_.log(here() +
                ": NCCL did not come back from freeing its communicator, and a thread is left in it; "
                "destroy graphs with its calls before the group");
      // Freeing memory would wait for the calls on the device.
      return;
    }
    for (const Region& region : regions_)
      if (region.memory != nullptr) (void)api_.ncclMemFree(region.memory);
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch) the store is gone, or the device is
  }
}

std::string Group::here() const {
  return "rank " + std::to_string(place_.rank) + " of the group '" + name_ + "'";
}

bool Group::set_failure(const Error& error) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return false;
    failure_ = error;
    failed_.store(true);
  }
  wake_.notify_all();
  return true;
}

void Group::abort(ErrorCode code, const std::string& text) noexcept {
  (void)set_failure(Error(code, text));
}

void Group::declare(const Error& error) noexcept {
  if (set_failure(error)) host_.fail_group(error);
}

void Group::fail(const Error& error) {
  declare(error);
  check_failure();
  throw error;
}

void Group::check_failure() const {
  if (!failed_.load()) return;
  const std::lock_guard lock(mutex_);
  throw Error(*failure_);
}

Communicator::Patience Group::patience(const Call& call) {
  return [this, call, end = Clock::now() + timeout_] {
    check_failure();
    if (Clock::now() < end) return;
    fail(Error(ErrorCode::deadline, here() + " waited " + std::to_string(timeout_.count()) +
                                        " ms for NCCL to take " + describe(call) + "; it has not" +
                                        missing_from(call)));
  };
}

bool Group::have_all_left() const {
  for (int peer = 0; peer < place_.size; ++peer) {
    if (peer == place_.rank) continue;
    const auto record = board_.read(peer);
    if (!record || !record->left) return false;
  }
  return true;
}

/// The patience for leaving a group that works. It is short if another rank has failed, has ended without
/// leaving, or still makes calls.
Communicator::Patience Group::patience_to_leave() {
  const auto begin = Clock::now();
  return [this, end = begin + kFreeTime, look_at = begin + kLeavingPeriod, alone_since = begin]() mutable {
    const auto now = Clock::now();
    if (now < look_at) return;
    look_at = now + kLeavingPeriod;
    const bool is_alone = host_.aborted() || peers_->find_gone() || !have_all_left();
    if (!is_alone) alone_since = now;
    if (now >= end || now - alone_since >= kLeaveTime)
      throw Error(ErrorCode::deadline, here() + " waits too long to leave");
  };
}

/// Fails the group after NCCL did not take a call. The usual cause is that another rank has ended, so the
/// watchdog gets time to find that first.
void Group::refuse(const Call& call, const Error& error) {
  check_failure();
  const Error own(error.code(), here() + ": " + describe(call) + ": " + error.what());
  {
    std::unique_lock lock(mutex_);
    refused_.emplace(call, own);
    wake_.notify_all();
    (void)wake_.wait_for(lock, kExplainTime, [this] { return failed_.load(); });
  }
  fail(own);
}

void Group::check_buffers(const Operation& operation) const {
  const std::size_t in = bytes_in(operation, place_.rank, place_.size);
  const std::size_t out = bytes_out(operation, place_.rank, place_.size);
  if ((in > 0 && !device_->is_reachable(operation.in)) || (out > 0 && !device_->is_reachable(operation.out)))
    throw Error(
        ErrorCode::invalid_argument,
        describe(operation.call) + " has a buffer in host memory, which device " +
            std::to_string(device_->index()) + " cannot reach; give " +
            (operation.stream != nullptr
                 ? "memory of the device (cudaMalloc, cuMemAlloc, muster_alloc_device), or no stream"
                 : "memory of the device, or install the plug-in gloo, over which the ranks of several "
                   "hosts exchange memory of the host"));
  if (operation.call.collective == Collective::all_to_all && operation.in == operation.out &&
      operation.stream != nullptr && device_->is_capturing(stream_of(operation)))
    throw Error(ErrorCode::invalid_argument,
                describe(operation.call) +
                    " in place needs memory of its own, which a graph cannot keep; give two buffers");
}

/// The operation as NCCL can take it: with a stream, and with a copied input for an all_to_all in place.
Operation Group::prepared(Operation operation, Batch& batch) {
  if (operation.stream == nullptr) operation.stream = device_->stream();
  const std::size_t in = bytes_in(operation, place_.rank, place_.size);
  if (operation.call.collective != Collective::all_to_all || operation.in != operation.out || in == 0)
    return operation;
  const CUstream stream = stream_of(operation);
  void* const copy = batch.scratch(in, stream);
  check(api_, api_.cuMemcpyDtoDAsync(plugin::number_of(copy), plugin::number_of(operation.in), in, stream),
        "copying the input of " + describe(operation.call));
  operation.in = copy;
  return operation;
}

void Group::run_group(std::vector<Operation> calls) {
  auto batch = std::make_shared<Batch>(device_, calls.front().call);
  std::vector<CUstream> streams;
  for (Operation& operation : calls) {
    operation = prepared(operation, *batch);
    const CUstream stream = stream_of(operation);
    if (std::find(streams.begin(), streams.end(), stream) == streams.end()) streams.push_back(stream);
  }
  const auto issue_all = [&](ncclComm_t comm) {
    ncclResult_t result = api_.ncclGroupStart();
    for (const Operation& operation : calls)
      if (result == ncclSuccess || result == ncclInProgress)
        result = issue(api_, comm, operation, place_, device_->word());
    const ncclResult_t ended = api_.ncclGroupEnd();
    return result == ncclSuccess || result == ncclInProgress ? ended : result;
  };
  try {
    communicator_.run("it", issue_all, patience(calls.front().call));
  } catch (const Error& error) {
    refuse(calls.front().call, error);
  }
  // No event is recorded on a stream that is being captured in a graph, because such an event could not be
  // queried.
  std::erase_if(streams, [this](CUstream stream) { return device_->is_capturing(stream); });
  batch->mark(streams);
  newest_ = batch;
  {
    const std::lock_guard lock(mutex_);
    if (!streams.empty()) pending_.push_back(std::move(batch));
  }
  if (sleeps_long_.load()) wake_.notify_all();
}

void Group::run(std::span<const Operation> batch) {
  check_failure();
  const DeviceGuard guard = device_->make_current();
  for (const Operation& operation : batch) check_buffers(operation);
  auto groups = groups_of(batch);
  for (const auto& calls : groups)
    for (const Operation& operation : calls) board_.record(operation.call);
  for (const auto& calls : groups)
    for (const Operation& operation : calls) check_supported(operation.call);
  for (auto& calls : groups) run_group(std::move(calls));
}

bool Group::observe(Batch& batch) {
  if (batch.is_confirmed()) return true;
  bool done = false;
  try {
    done = batch.is_done();
  } catch (const Error& error) {
    fail(Error(error.code(), here() + ": " + error.what()));
  }
  // The failure is checked after the events, because calls that a revoked communicator leaves unfinished look
  // done as well.
  check_failure();
  if (done) batch.confirm();
  return done;
}

/// The completion of one batch, which it keeps alive.
class Group::LastRun final : public Completion {
 public:
  LastRun(Group& group, std::shared_ptr<Batch> batch) : group_(group), batch_(std::move(batch)) {}

  bool test() override { return batch_ == nullptr || group_.observe(*batch_); }

 private:
  Group& group_;
  std::shared_ptr<Batch> batch_;
};

std::unique_ptr<Completion> Group::last_run() {
  return std::make_unique<LastRun>(*this, newest_);
}

void Group::launch(const std::function<void()>& work) {
  check_failure();
  try {
    communicator_.launch(work);
  } catch (const Error&) {
    check_failure();
    throw;
  }
}

void* Group::allocate(const Call& call) {
  check_failure();
  const DeviceGuard guard = device_->make_current();
  board_.record(call);
  // A window begins and ends at NCCL's pages.
  constexpr std::size_t kPage = NCCL_WIN_REQUIRED_ALIGNMENT;
  const std::size_t whole = (std::max<std::size_t>(call.count, 1) + kPage - 1) / kPage * kPage;
  regions_.emplace_back();
  Region& region = regions_.back();
  const ncclResult_t result = api_.ncclMemAlloc(&region.memory, whole);
  if (result != ncclSuccess)
    fail(Error(ErrorCode::out_of_memory, here() + ": no memory on device " +
                                             std::to_string(device_->index()) + " for " + describe(call) +
                                             ": " + api_.ncclGetErrorString(result)));
  check(api_, api_.cuMemsetD8Async(plugin::number_of(region.memory), 0, whole, device_->clearing()),
        "clearing " + describe(call));
  check(api_, api_.cuStreamSynchronize(device_->clearing()), "clearing " + describe(call));
  register_region(region, whole, call);
  return region.memory;
}

void Group::register_region(Region& region, std::size_t bytes, const Call& call) {
  try {
    const auto wait = patience(call);
    if (api_.ncclCommWindowRegister != nullptr)
      communicator_.run(
          "ncclCommWindowRegister",
          [&](ncclComm_t comm) {
            return api_.ncclCommWindowRegister(comm, region.memory, bytes, &region.window,
                                               NCCL_WIN_COLL_SYMMETRIC);
          },
          wait);
    // A machine without symmetric memory gives no window; then the older registration helps.
    if (region.window == nullptr)
      communicator_.run(
          "ncclCommRegister",
          [&](ncclComm_t comm) { return api_.ncclCommRegister(comm, region.memory, bytes, &region.handle); },
          wait);
  } catch (const Error& error) {
    refuse(call, error);
  }
}

void Group::deregister_regions(const Communicator::Patience& patience) {
  for (Region& region : regions_) {
    if (region.window != nullptr)
      communicator_.run(
          "ncclCommWindowDeregister",
          [&](ncclComm_t comm) { return api_.ncclCommWindowDeregister(comm, region.window); }, patience);
    if (region.handle != nullptr)
      communicator_.run(
          "ncclCommDeregister", [&](ncclComm_t comm) { return api_.ncclCommDeregister(comm, region.handle); },
          patience);
  }
}

}  // namespace muster::nccl
