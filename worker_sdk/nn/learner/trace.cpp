// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/learner/trace.hpp"

#include "rendezvous/base/output_file.hpp"
#include "rendezvous/base/text.hpp"
#include "worker_sdk/comm/texts.hpp"
#include "worker_sdk/nn/learner/text.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

namespace muster::train {
namespace {

double microseconds(std::chrono::nanoseconds time) {
  return static_cast<double>(time.count()) * 1e-3;
}

std::string metadata(const char* what, int rank, int lane, const std::string& name) {
  return format("{\"ph\": \"M\", \"name\": \"%s\", \"pid\": %d, \"tid\": %d, \"args\": {\"name\": ", what,
                rank, lane) +
         json_text(name) + "}},\n";
}

std::string names_of(int rank, const std::string& host, const TraceRecorder& recorder) {
  std::string text = metadata("process_name", rank, 0, "rank " + std::to_string(rank) + " (" + host + ")");
  for (const auto& [lane, name] :
       {std::pair(Lane::compute, "compute"), std::pair(Lane::communication, "communication"),
        std::pair(Lane::gathering, "gathering")})
    if (lane != Lane::gathering || recorder.uses(lane))
      text += metadata("thread_name", rank, static_cast<int>(lane), name);
  return text;
}

std::string bytes_of(const std::vector<double>& numbers) {
  if (numbers.empty()) return {};
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(double)};
}

std::vector<double> numbers_of(const std::string& bytes) {
  std::vector<double> numbers(bytes.size() / sizeof(double));
  if (!numbers.empty()) std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(double));
  return numbers;
}

[[noreturn]] void refuse_place(const std::string& path, const std::string& why) {
  throw Error(ErrorCode::io,
              "cannot write the trace " + path + ": " + why + "; give a place with room with --profile");
}

void write_file(const std::string& path, const std::vector<std::string>& events, const std::string& note) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << "{\"displayTimeUnit\": \"ms\",\n\"otherData\": {\"straggler\": " << json_text(note)
       << "},\n\"traceEvents\": [\n";
  for (const std::string& text : events) file << text;
  file << "{\"ph\": \"i\", \"name\": " << json_text(note)
       << ", \"pid\": 0, \"tid\": 0, \"ts\": 0, \"s\": \"g\"}\n]}\n";
  file.close();
  if (!file) refuse_place(path, std::strerror(errno));
}

}  // namespace

void TraceRecorder::span(const char* name, Lane lane, Time begin, Time end, std::int64_t step) {
  if (spans_.size() < capacity_)
    spans_.push_back({name, begin, end - begin, static_cast<std::int32_t>(step), lane});
  else
    ++left_out_;
}

void TraceRecorder::buckets(const StepTiming& timing, const char* call, std::int64_t step) {
  if (timing.met > timing.meeting)
    span("wait for late ranks", Lane::communication, timing.meeting, timing.met, step);
  for (const BucketTiming& bucket : timing.buckets) {
    span(call, Lane::communication, bucket.started, bucket.reduced, step);
    if (bucket.stepped > bucket.reduced)
      span("optimizer", Lane::communication, bucket.reduced, bucket.stepped, step);
  }
}

std::string TraceRecorder::events(int rank, Time origin) const {
  std::string text;
  for (const Span& span : spans_)
    text += format(
        "{\"ph\": \"X\", \"name\": \"%s\", \"pid\": %d, \"tid\": %d, \"ts\": %.3f, \"dur\": %.3f, \"args\": "
        "{\"step\": "
        "%d}},\n",
        span.name, rank, static_cast<int>(span.lane), microseconds(span.begin - origin),
        microseconds(span.length), static_cast<int>(span.step));
  return text;
}

Straggler find_straggler(const std::vector<std::vector<double>>& waits) {
  Straggler found;
  if (waits.empty()) return found;
  std::size_t steps = waits[0].size();
  for (const auto& rank : waits) steps = std::min(steps, rank.size());
  std::vector<std::int64_t> last(waits.size());
  std::vector<double> lateness(waits.size());
  for (std::size_t step = 0; step < steps; ++step) {
    std::size_t shortest = 0;
    double longest = 0;
    for (std::size_t rank = 0; rank < waits.size(); ++rank) {
      if (waits[rank][step] < waits[shortest][step]) shortest = rank;
      longest = std::max(longest, waits[rank][step]);
    }
    ++last[shortest];
    lateness[shortest] += longest - waits[shortest][step];
  }
  const auto most = std::max_element(last.begin(), last.end());
  const auto rank = static_cast<std::size_t>(most - last.begin());
  found.rank = static_cast<int>(rank);
  found.steps = *most;
  found.of = static_cast<std::int64_t>(steps);
  if (*most > 0) found.lateness = lateness[rank] / static_cast<double>(*most);
  return found;
}

std::string describe(const Straggler& straggler, int ranks) {
  if (ranks == 1) return "one rank, which waits for no other";
  if (straggler.of == 0) return "which rank arrives last is not known: no wait for gradients was measured";
  return format("rank %d arrives last in %lld of %lld steps, %.3f ms after the first on average",
                straggler.rank, static_cast<long long>(straggler.steps), static_cast<long long>(straggler.of),
                1000 * straggler.lateness);
}

TraceRecorder::Time shared_origin(ProcessGroup* group, int node, int nodes) {
  using Clock = std::chrono::steady_clock;
  if (group == nullptr || group->size() == 1) return Clock::now();
  std::vector<std::int64_t> origins(static_cast<std::size_t>(nodes));
  std::int64_t& own = origins.at(static_cast<std::size_t>(node));
  group->barrier();
  own = Clock::now().time_since_epoch().count();
  group->all_reduce(origins.data(), origins.size(), DataType::i64, ReduceOp::max);
  return TraceRecorder::Time(Clock::duration(own));
}

void require_trace_place(const std::string& path) {
  const OutputPlace place = find_output_file(path);
  if (!place.obstacle.empty()) refuse_place(path, place.obstacle);
  std::error_code ignored;
  const bool was_there = std::filesystem::exists(place.path, ignored);
  const std::ofstream file(place.path, std::ios::binary | std::ios::app);
  if (!file) refuse_place(path, std::strerror(errno));
  if (!was_there) std::filesystem::remove(place.path, ignored);
}

std::string write_trace(const std::string& path, const TraceRecorder& recorder, TraceRecorder::Time origin,
                        const std::string& host, ProcessGroup* group) {
  const int rank = group == nullptr ? 0 : group->rank();
  std::vector<std::vector<double>> waits;
  for (const std::string& bytes : all_texts(group, bytes_of(recorder.waits())))
    waits.push_back(numbers_of(bytes));
  std::string note = describe(find_straggler(waits), static_cast<int>(waits.size()));
  const std::vector<std::string> events =
      texts_at_first(group, names_of(rank, host, recorder) + recorder.events(rank, origin));
  if (recorder.left_out() > 0)
    note += "; the trace is full, " + std::to_string(recorder.left_out()) + " spans at the end are left out";
  if (rank == 0) write_file(path, events, note);
  return note;
}

}  // namespace muster::train
