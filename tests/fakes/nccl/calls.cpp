// SPDX-License-Identifier: Apache-2.0
// The calls that move data, alone and in groups.
#include "tests/fakes/nccl/comm.hpp"
#include "tests/fakes/nccl/rules.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace fake {
namespace {

struct Waiting {
  ncclComm_t comm;
  Operation operation;
};

/// What this thread has between ncclGroupStart() and ncclGroupEnd().
struct OpenGroup {
  int depth = 0;
  std::vector<Waiting> operations;
  ncclResult_t result = ncclSuccess;
};

thread_local OpenGroup open_group;

/// Claims the communicator for this thread until release(). A broken rule when another thread has it.
bool claim(ncclComm& comm, const char* function) {
  const std::lock_guard lock(comm.user_mutex);
  if (comm.user && *comm.user != std::this_thread::get_id()) {
    violate(rules::kOneThread, std::string(function) + " while another thread uses the communicator");
    return false;
  }
  comm.user = std::this_thread::get_id();
  return true;
}

void release(ncclComm& comm) {
  const std::lock_guard lock(comm.user_mutex);
  comm.user.reset();
}

/// What the GPU would touch.
std::pair<std::size_t, std::size_t> extents(const ncclComm& comm, const Operation& operation) {
  const Descriptor& call = operation.call;
  const std::size_t part =
      static_cast<std::size_t>(call.count) * size_of(static_cast<ncclDataType_t>(call.type));
  const std::size_t whole = part * static_cast<std::size_t>(comm.size);
  const bool is_root = comm.rank == call.root;
  if (operation.is_message)
    return operation.sends ? std::pair(part, std::size_t{0}) : std::pair(std::size_t{0}, part);
  switch (call.kind) {
    case Kind::reduce:
      return {part, is_root ? part : 0};
    case Kind::broadcast:
      return {is_root ? part : 0, part};
    case Kind::gather:
      return {part, is_root ? whole : 0};
    case Kind::scatter:
      return {is_root ? whole : 0, part};
    case Kind::all_gather:
      return {part, whole};
    case Kind::reduce_scatter:
      return {whole, part};
    case Kind::all_to_all:
      return {whole, whole};
    default:
      return {part, part};
  }
}

ncclResult_t check_arguments(const ncclComm& comm, const Operation& operation, const char* function) {
  const int root = operation.is_message ? operation.peer : operation.call.root;
  if (root < 0 || root >= comm.size) {
    violate(rules::kRootInRange, std::string(function) + " with " + std::to_string(root));
    return ncclInvalidArgument;
  }
  const auto [in, out] = extents(comm, operation);
  if ((in == 0 || is_device_memory(operation.in, in)) && (out == 0 || is_device_memory(operation.out, out)))
    return ncclSuccess;
  violate(rules::kDeviceMemory, function);
  return ncclInvalidArgument;
}

/// Ends the group: launches per communicator, in the order in which they came up.
ncclResult_t end_group() {
  const auto operations = std::exchange(open_group.operations, {});
  ncclResult_t result = std::exchange(open_group.result, ncclSuccess);
  std::vector<ncclComm_t> comms;
  for (const Waiting& waiting : operations)
    if (std::find(comms.begin(), comms.end(), waiting.comm) == comms.end()) comms.push_back(waiting.comm);
  for (ncclComm_t comm : comms) {
    std::vector<Operation> own;
    for (const Waiting& waiting : operations)
      if (waiting.comm == comm) own.push_back(waiting.operation);
    const ncclResult_t launched =
        result == ncclSuccess || result == ncclInProgress ? launch(comm, own) : result;
    if (launched != ncclSuccess) result = launched;
    release(*comm);
  }
  return result;
}

ncclResult_t submit(ncclComm_t comm, const Operation& operation, const char* function) {
  if (!is_alive(comm, function)) return ncclInvalidArgument;
  if (!claim(*comm, function)) return ncclInvalidUsage;
  // The real one would use a context that the program has not chosen, and may not want.
  ncclResult_t result = current_device() < 0 ? ncclUnhandledCudaError : check_state(*comm, function);
  if (result == ncclSuccess) result = check_arguments(*comm, operation, function);
  if (result == ncclSuccess)
    open_group.operations.push_back({comm, operation});
  else if (open_group.depth > 0)
    open_group.result = result;
  if (open_group.depth > 0) {
    if (result != ncclSuccess) release(*comm);
    return result;
  }
  if (result == ncclSuccess) return end_group();
  release(*comm);
  return result;
}

ncclResult_t collective(Kind kind, const void* in, void* out, std::size_t count, ncclDataType_t type, int op,
                        int root, ncclComm_t comm, CUstream stream, const char* function) {
  Operation operation;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  (void)cuStreamIsCapturing(stream, &status);
  operation.call = {kind, type, op, root, count, status != CU_STREAM_CAPTURE_STATUS_NONE ? 1 : 0};
  operation.in = static_cast<const std::byte*>(in);
  operation.out = static_cast<std::byte*>(out);
  operation.stream = stream;
  return submit(comm, operation, function);
}

ncclResult_t message(bool sends, const void* in, void* out, std::size_t count, ncclDataType_t type, int peer,
                     ncclComm_t comm, CUstream stream, const char* function) {
  Operation operation;
  operation.is_message = true;
  operation.sends = sends;
  operation.peer = peer;
  operation.call = {Kind::all_reduce, type, 0, 0, count};
  operation.in = static_cast<const std::byte*>(in);
  operation.out = static_cast<std::byte*>(out);
  operation.stream = stream;
  return submit(comm, operation, function);
}

/// How long what can only hang does so, unless it is cut before: tests end all the same.
constexpr auto kHangs = std::chrono::seconds(10);

/// One task of a communicator on a stream: operations keep the order in which they were launched, whatever
/// streams they are on.
template <typename Run>
void put_on_stream(ncclComm_t comm, CUstream stream, Run run) {
  enqueue(stream, [comm, run, graphs = comm->graphs] {
    const bool is_late = comm->revoked.load();
    if (is_late) violate(rules::kRevoked, "the launch of a graph with its calls");
    const std::uint64_t turn = comm->next_turn++;
    const std::uint64_t number = run.counts ? ++comm->collectives : 0;
    comm->tasks.fetch_add(1);
    return [comm, run, turn, number, until = std::chrono::steady_clock::now() + kHangs, is_late] {
      if (is_late)
        (void)comm->wait([until] { return std::chrono::steady_clock::now() >= until; });
      else if (trouble(comm->device) == CUDA_SUCCESS && comm->wait([&] { return comm->turn.load() == turn; }))
        (void)run(number);
      comm->turn.store(turn + 1);
      comm->tasks.fetch_sub(1);
    };
  });
}

struct RunCollective {
  ncclComm_t comm;
  Operation operation;
  std::string fault;
  bool counts = true;

  bool operator()(std::uint64_t number) const {
    if (!fault.empty()) return comm->wait([] { return false; });
    return run_collective(*comm, operation, number);
  }
};

struct RunMessages {
  ncclComm_t comm;
  std::vector<Operation> messages;
  std::string fault;
  bool counts = false;

  bool operator()(std::uint64_t) const {
    if (!fault.empty()) return comm->wait([] { return false; });
    return run_messages(*comm, messages);
  }
};

}  // namespace

ncclResult_t check_state(ncclComm& comm, const char* function) {
  if (comm.revoked.load()) {
    violate(rules::kRevoked, function);
    return ncclInvalidUsage;
  }
  if (comm.finalizing.load()) {
    violate(rules::kFinalized, function);
    return ncclInvalidUsage;
  }
  if (comm.state.load() == ncclInProgress || std::chrono::steady_clock::now() < comm.busy_until) {
    violate(rules::kInProgress, function);
    return ncclInvalidUsage;
  }
  return comm.state.load();
}

ncclResult_t launch(ncclComm_t comm, const std::vector<Operation>& operations) {
  std::vector<Operation> collectives;
  std::vector<Operation> messages;
  std::string fault;
  for (const Operation& operation : operations) {
    (operation.is_message ? messages : collectives).push_back(operation);
    const std::string found = fault_at(std::to_string(++comm->issued), comm->rank);
    if (!found.empty()) fault = found;
  }
  if (fault == "fail") return ncclSystemError;
  // NCCL promises no order inside a group, so the fake takes them the other way round.
  for (auto operation = collectives.rbegin(); operation != collectives.rend(); ++operation)
    put_on_stream(comm, operation->stream, RunCollective{comm, *operation, fault});
  if (!messages.empty()) put_on_stream(comm, messages.front().stream, RunMessages{comm, messages, fault});
  if (fault == "remote") comm->state = ncclRemoteError;
  if (comm->blocking) return ncclSuccess;
  // A thread of NCCL's launches them, for longer where it connects to a new peer.
  comm->busy_until = std::chrono::steady_clock::now() + std::chrono::microseconds(300);
  return ncclInProgress;
}

}  // namespace fake

extern "C" {

FAKE_EXPORT ncclResult_t ncclGroupStart() {
  ++fake::open_group.depth;
  return ncclSuccess;
}

FAKE_EXPORT ncclResult_t ncclGroupEnd() {
  if (fake::open_group.depth == 0) {
    fake::violate(fake::rules::kOpenGroup, "ncclGroupEnd without ncclGroupStart");
    return ncclInvalidUsage;
  }
  if (--fake::open_group.depth > 0) return ncclSuccess;
  return fake::end_group();
}

FAKE_EXPORT ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t type,
                                       ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return fake::collective(fake::Kind::all_reduce, in, out, count, type, op, 0, comm, stream, "ncclAllReduce");
}

FAKE_EXPORT ncclResult_t ncclReduce(const void* in, void* out, std::size_t count, ncclDataType_t type,
                                    ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return fake::collective(fake::Kind::reduce, in, out, count, type, op, root, comm, stream, "ncclReduce");
}

FAKE_EXPORT ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t count, ncclDataType_t type,
                                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return fake::collective(fake::Kind::reduce_scatter, in, out, count, type, op, 0, comm, stream,
                          "ncclReduceScatter");
}

FAKE_EXPORT ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t count, ncclDataType_t type,
                                       int root, ncclComm_t comm, cudaStream_t stream) {
  return fake::collective(fake::Kind::broadcast, in, out, count, type, 0, root, comm, stream,
                          "ncclBroadcast");
}

FAKE_EXPORT ncclResult_t ncclAllGather(const void* in, void* out, std::size_t count, ncclDataType_t type,
                                       ncclComm_t comm, cudaStream_t stream) {
  return fake::collective(fake::Kind::all_gather, in, out, count, type, 0, 0, comm, stream, "ncclAllGather");
}

#ifndef FAKE_OLD_NCCL
FAKE_EXPORT ncclResult_t ncclAlltoAll(const void* in, void* out, std::size_t count, ncclDataType_t type,
                                      ncclComm_t comm, cudaStream_t stream) {
  return fake::collective(fake::Kind::all_to_all, in, out, count, type, 0, 0, comm, stream, "ncclAlltoAll");
}

FAKE_EXPORT ncclResult_t ncclGather(const void* in, void* out, std::size_t count, ncclDataType_t type,
                                    int root, ncclComm_t comm, cudaStream_t stream) {
  return fake::collective(fake::Kind::gather, in, out, count, type, 0, root, comm, stream, "ncclGather");
}

FAKE_EXPORT ncclResult_t ncclScatter(const void* in, void* out, std::size_t count, ncclDataType_t type,
                                     int root, ncclComm_t comm, cudaStream_t stream) {
  return fake::collective(fake::Kind::scatter, in, out, count, type, 0, root, comm, stream, "ncclScatter");
}
#endif

FAKE_EXPORT ncclResult_t ncclSend(const void* in, std::size_t count, ncclDataType_t type, int peer,
                                  ncclComm_t comm, cudaStream_t stream) {
  return fake::message(true, in, nullptr, count, type, peer, comm, stream, "ncclSend");
}

FAKE_EXPORT ncclResult_t ncclRecv(void* out, std::size_t count, ncclDataType_t type, int peer,
                                  ncclComm_t comm, cudaStream_t stream) {
  return fake::message(false, nullptr, out, count, type, peer, comm, stream, "ncclRecv");
}

}  // extern "C"
