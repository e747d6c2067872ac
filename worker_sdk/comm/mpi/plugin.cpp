// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/deadline.hpp"
#include "worker_sdk/comm/message/plugin_group.hpp"
#include "worker_sdk/comm/mpi/mpi_library.hpp"
#include "worker_sdk/comm/mpi/mpi_transport.hpp"
#include "worker_sdk/comm/mpi/tags.hpp"

#include <cstdint>
#include <string>

namespace muster::mpi {
namespace {

/// The time within which all ranks of mpirun must have called the first broadcast.
constexpr auto kStartTime = std::chrono::minutes(5);

void check_world(const muster_plugin_group_options& options) {
  int rank = 0;
  int size = 0;
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  for (int member = 0; member < options.size; ++member)
    if (options.world_ranks[member] >= size)
      throw Error(ErrorCode::mismatch, "the world has a rank " + std::to_string(options.world_ranks[member]) +
                                           " and mpirun started " + std::to_string(size) +
                                           " ranks; give the world mpirun's ranks or choose another backend");
  if (options.world_ranks[options.rank] != rank)
    throw Error(ErrorCode::mismatch,
                "rank " + std::to_string(options.world_ranks[options.rank]) + " of the world is rank " +
                    std::to_string(rank) +
                    " of mpirun; give the world mpirun's ranks or choose another backend");
}

/// Brings all ranks together at the store, because making a communicator has no deadline of its own. Returns
/// the group's number, which the first rank has put there before it came.
std::int64_t meet(const muster_plugin_group_options& options, const plugin::Host& host) {
  message::say_here(options, host);
  const auto deadline = message::Clock::now() + std::chrono::milliseconds(options.join_timeout_ms);
  for (int rank = 0; rank < options.size; ++rank) {
    try {
      host.get("here/" + std::to_string(rank), left_until(deadline));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::deadline) throw;
      throw message::too_late(options, message::list_absent(options, host));
    }
  }
  return std::stoll(host.get(plugin::kNumberKey, std::chrono::milliseconds(options.join_timeout_ms)));
}

std::unique_ptr<message::Transport> connect(const muster_plugin_group_options& options,
                                            const plugin::Host& host) {
  initialize();
  // If MPI lets in one thread at a time, a second group that is made in another order on another rank would
  // wait for ever; so the making of a group ends before any rank is told that this one has come.
  static std::mutex making;
  const std::unique_lock one_at_a_time =
      takes_all_threads() ? std::unique_lock<std::mutex>() : std::unique_lock(making, std::try_to_lock);
  if (!one_at_a_time && !takes_all_threads())
    throw Error(ErrorCode::state,
                "two groups are made at the same time, which MPI allows only if it was "
                "initialised with MPI_THREAD_MULTIPLE; make them one after another");
  const std::int64_t number = meet(options, host);
  const auto lock = guard();
  check_world(options);
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Group group = MPI_GROUP_NULL;
  check(MPI_Comm_group(MPI_COMM_WORLD, &world), "MPI_Comm_group");
  check(MPI_Group_incl(world, options.size, options.world_ranks, &group), "MPI_Group_incl");
  MPI_Comm communicator = MPI_COMM_NULL;
  const int code = MPI_Comm_create_group(MPI_COMM_WORLD, group, tag_of_group(number), &communicator);
  MPI_Group_free(&group);
  MPI_Group_free(&world);
  check(code, "MPI_Comm_create_group");
  check(MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return std::make_unique<MpiTransport>(communicator);
}

void wait_for(MPI_Request& request, const char* what) {
  const auto deadline = message::Clock::now() + kStartTime;
  Poll poll;
  for (int done = 0;; poll.pause()) {
    {
      const auto lock = guard();
      check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), what);
    }
    if (done != 0) return;
    if (message::Clock::now() >= deadline)
      throw Error(ErrorCode::deadline,
                  "not all ranks of mpirun came together within 5 minutes; see which of "
                  "them did not make the world");
  }
}

std::string probe(int) {
  require_mpirun();
  return "";
}

constexpr plugin::Maker kMaker = message::maker_of<connect>("mpi", probe);
constexpr muster_plugin kTable = plugin::table_of<kMaker>();

}  // namespace
}  // namespace muster::mpi

// A broadcast by MPI from before there is a store, by which the ranks of mpirun learn where the store is.
extern "C" {
[[gnu::visibility("default")]] int32_t muster_mpi_broadcast(void* data, size_t bytes, int32_t root,
                                                            muster_plugin_error* error);
[[gnu::visibility("default")]] int32_t muster_mpi_rank_and_size(int32_t* rank, int32_t* size,
                                                                muster_plugin_error* error);
}

const muster_plugin* muster_plugin_entry() {
  return &muster::mpi::kTable;
}

int32_t muster_mpi_broadcast(void* data, size_t bytes, int32_t root, muster_plugin_error* error) {
  return muster::plugin::guarded(error, muster::message::kWords, [&] {
    muster::mpi::initialize();
    MPI_Request request = MPI_REQUEST_NULL;
    {
      const auto lock = muster::mpi::guard();
      muster::mpi::check(MPI_Ibcast(data, static_cast<int>(bytes), MPI_BYTE, root, MPI_COMM_WORLD, &request),
                         "MPI_Ibcast");
    }
    muster::mpi::wait_for(request, "MPI_Ibcast");
  });
}

int32_t muster_mpi_rank_and_size(int32_t* rank, int32_t* size, muster_plugin_error* error) {
  return muster::plugin::guarded(error, muster::message::kWords, [&] {
    muster::mpi::initialize();
    const auto lock = muster::mpi::guard();
    muster::mpi::check(MPI_Comm_rank(MPI_COMM_WORLD, rank), "MPI_Comm_rank");
    muster::mpi::check(MPI_Comm_size(MPI_COMM_WORLD, size), "MPI_Comm_size");
  });
}
