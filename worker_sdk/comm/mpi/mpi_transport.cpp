// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/mpi/mpi_transport.hpp"

#include "worker_sdk/comm/mpi/mpi_library.hpp"
#include "worker_sdk/comm/mpi/tags.hpp"

#include <algorithm>
#include <vector>

namespace muster::mpi {
namespace {

using message::Clock;
using message::Key;

/// Bytes of one piece of a message; MPI counts in int, so longer messages are sent in pieces.
constexpr std::size_t kPieceBytes = std::size_t{1} << 30;
/// The time that the cancelling of a receive may take.
constexpr auto kCancelTime = std::chrono::milliseconds(100);

int bits_of_numbers(MPI_Comm communicator) {
  constexpr int kPromised = 32'767;
  int* largest = nullptr;
  int found = 0;
  check(MPI_Comm_get_attr(communicator, MPI_TAG_UB, static_cast<void*>(&largest), &found),
        "MPI_Comm_get_attr");
  return number_bits(found != 0 && largest != nullptr ? *largest : kPromised);
}

}  // namespace

/// A message as the MPI requests of its pieces.
class MpiTransport::Requests final : public message::Transfer {
 public:
  explicit Requests(MpiTransport& transport, bool is_send) : transport_(transport), is_send_(is_send) {}

  ~Requests() override {
    try {
      const auto until = Clock::now() + kCancelTime;
      for (MPI_Request& request : requests_) give_up(request, until);
    } catch (const Error&) {
      // No more can be done for the request.
    }
  }

  void add(MPI_Request request) { requests_.push_back(request); }

  bool wait(Clock::time_point deadline) override {
    Poll poll;
    while (!test()) {
      transport_.throw_if_interrupted();
      if (Clock::now() >= deadline) return test();
      poll.pause();
    }
    return true;
  }

 private:
  bool test() {
    const auto lock = guard();
    int done = 0;
    check(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE),
          "MPI_Testall");
    return done != 0;
  }

  void give_up(MPI_Request& request, Clock::time_point until) {
    if (request == MPI_REQUEST_NULL) return;
    const auto lock = guard();
    int done = 0;
    if (!is_send_) {
      MPI_Cancel(&request);
      while (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done == 0 &&
             Clock::now() < until) {
      }
    }
    if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
  }

  MpiTransport& transport_;
  bool is_send_;
  std::vector<MPI_Request> requests_;
};

MpiTransport::MpiTransport(MPI_Comm communicator)
    : communicator_(communicator), number_bits_(bits_of_numbers(communicator)) {}

// The communicator is not freed here: that would wait for the other ranks, and MPI_Finalize does it.
MpiTransport::~MpiTransport() = default;

bool MpiTransport::retire() noexcept {
  note_failure();
  return true;
}

std::unique_ptr<message::Transfer> MpiTransport::receive(int peer, Key key, void* data, std::size_t bytes) {
  auto requests = std::make_unique<Requests>(*this, false);
  const auto lock = guard();
  for (std::size_t begin = 0; begin < bytes; begin += kPieceBytes) {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Irecv(static_cast<std::byte*>(data) + begin,
                    static_cast<int>(std::min(kPieceBytes, bytes - begin)), MPI_BYTE, peer,
                    tag_of(key, number_bits_), communicator_, &request),
          "MPI_Irecv");
    requests->add(request);
  }
  return requests;
}

std::unique_ptr<message::Transfer> MpiTransport::send(int peer, Key key, const void* data,
                                                      std::size_t bytes) {
  auto requests = std::make_unique<Requests>(*this, true);
  const auto lock = guard();
  for (std::size_t begin = 0; begin < bytes; begin += kPieceBytes) {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Isend(static_cast<const std::byte*>(data) + begin,
                    static_cast<int>(std::min(kPieceBytes, bytes - begin)), MPI_BYTE, peer,
                    tag_of(key, number_bits_), communicator_, &request),
          "MPI_Isend");
    requests->add(request);
  }
  return requests;
}

void MpiTransport::interrupt(ErrorCode code, const std::string& text) noexcept {
  const std::lock_guard lock(mutex_);
  if (!interruption_) interruption_.emplace(code, text);
  interrupted_ = true;
}

void MpiTransport::throw_if_interrupted() {
  if (!interrupted_) return;
  const std::lock_guard lock(mutex_);
  throw *interruption_;
}

}  // namespace muster::mpi
