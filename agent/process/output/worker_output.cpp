// SPDX-License-Identifier: Apache-2.0
#include "agent/process/output/worker_output.hpp"

#include "agent/process/output/output_room.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <utility>

namespace muster::agent {

WorkerOutput::WorkerOutput(const boost::asio::any_io_executor& executor, OutputSpec spec, OutputNames names,
                           int workers, StandardStreams ours)
    : room_(std::make_shared<OutputRoom>(executor, std::move(spec), std::move(names), workers,
                                         std::move(ours))) {}

WorkerOutput::~WorkerOutput() {
  room_->abandon();
}

WorkerStreams WorkerOutput::open(int round, int local_rank, int rank) {
  return room_->open(round, local_rank, rank);
}

void WorkerOutput::started(int local_rank) {
  room_->started(local_rank);
}

void WorkerOutput::exited(int local_rank) {
  room_->exited(local_rank);
}

void WorkerOutput::drain(std::chrono::milliseconds at_most, std::function<void()> done) {
  room_->drain(at_most, std::move(done));
}

void WorkerOutput::finish(std::chrono::milliseconds at_most, std::function<void()> done) {
  room_->finish(at_most, std::move(done));
}

std::vector<std::string> WorkerOutput::last_lines(int local_rank) const {
  return room_->last_lines(local_rank);
}

void WorkerOutput::resize() {
  room_->resize();
}

std::vector<std::string> WorkerOutput::notes() const {
  return room_->notes();
}

}  // namespace muster::agent
