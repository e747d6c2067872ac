// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/muster_train/watch/run_log.hpp"

#include "muster/error.hpp"
#include "rendezvous/base/output_file.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <fcntl.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace muster::train {
namespace {

JsonLine line_of(const char* event, const Position& position, Seconds now) {
  JsonLine line;
  line.add("event", event).add("seconds", now.count()).add("step", position.step);
  return line;
}

using Part = std::pair<const char*, double>;

/// Names of the parts of a step in files, with their mean in ms.
std::array<Part, 7> parts_of(const Window& window) {
  const double scale = 1000.0 / static_cast<double>(window.steps);
  const StepTimes& t = window.times;
  return {{{"data_wait_ms", t.data_wait * scale},
           {"forward_ms", t.forward * scale},
           {"backward_ms", t.backward * scale},
           {"communication_ms", t.communication * scale},
           {"exposed_communication_ms", (t.exposed + t.late) * scale},
           {"optimizer_ms", t.optimizer * scale},
           {"step_ms", t.total * scale}}};
}

/// A terminal or a pipe takes lines as a file does.
std::ofstream open_metrics(const std::string& path) {
  std::string why = find_output(path).obstacle;
  std::ofstream file;
  if (why.empty()) {
    // Without it, a pipe that nobody reads would hold the run here for ever.
    const UniqueFd reached(
        ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666));
    if (reached) file.open(path, std::ios::binary | std::ios::app);
    if (!reached || !file) why = errno == ENXIO ? "nobody reads it" : std::strerror(errno);
  }
  if (!why.empty())
    throw Error(ErrorCode::io,
                "cannot write metrics to " + path + ": " + why + "; give another file with --metrics");
  return file;
}

}  // namespace

RunLog::RunLog(const LogOptions& options, std::function<void(const std::string&)> write)
    : options_(options), write_(std::move(write)), progress_(options.progress) {
  if (!options.metrics.empty()) metrics_ = open_metrics(options.metrics);
  if (!options.tensorboard.empty()) events_.emplace(options.tensorboard);
}

void RunLog::start(const JsonLine& facts) {
  write_json(facts);
}

void RunLog::begin_epoch(int epoch, Seconds now) {
  progress_.begin_epoch(epoch, now);
  begin_window(now);
}

void RunLog::begin_window(Seconds now) {
  window_ = {};
  window_.began = now;
}

void RunLog::step(const StepReport& report, Seconds now) {
  window_.add(report);
  last_ = report;
  last_at_ = now;
  if (window_.steps >= options_.metrics_every) write_window();
  const std::string text = progress_.step(report, now);
  if (!text.empty()) write_(text);
}

void RunLog::write_window() {
  if (window_.steps == 0) return;
  const Score score = window_.score();
  const double speed = window_.images_per_second(last_at_);
  JsonLine line = line_of("step", last_.position, last_at_);
  line.add("epoch", std::int64_t{last_.position.epoch} + 1)
      .add("loss", score.mean_loss)
      .add("accuracy", score.accuracy)
      .add("learning_rate", static_cast<double>(last_.learning_rate))
      .add("images_per_second", speed);
  for (const auto& [name, milliseconds] : parts_of(window_)) line.add(name, milliseconds);
  line.add("payload_bytes", static_cast<std::int64_t>(window_.payload) / window_.steps);
  if (last_.step.loss_scale > 0)
    line.add("loss_scale", last_.step.loss_scale).add("skipped_steps", window_.skipped);
  write_json(line);
  if (events_) {
    const std::int64_t step = last_.position.step;
    events_->add("train/loss", step, static_cast<float>(score.mean_loss));
    events_->add("train/accuracy", step, static_cast<float>(score.accuracy));
    events_->add("train/learning_rate", step, last_.learning_rate);
    events_->add("speed/images_per_second", step, static_cast<float>(speed));
    for (const auto& [name, milliseconds] : parts_of(window_))
      events_->add(std::string("time/") + name, step, static_cast<float>(milliseconds));
    flush_events();
  }
  begin_window(last_at_);
}

void RunLog::end_epoch(const Position& position, const Score& train, Seconds training, const Score& test,
                       Seconds now) {
  write_window();
  write_(progress_.end_epoch(train, training, test));
  JsonLine line = line_of("epoch", position, now);
  line.add("epoch", std::int64_t{position.epoch} + 1)
      .add("train_loss", train.mean_loss)
      .add("train_accuracy", train.accuracy)
      .add("train_seconds", training.count());
  if (test.samples > 0) line.add("test_loss", test.mean_loss).add("test_accuracy", test.accuracy);
  write_json(line);
  if (!events_) return;
  events_->add("epoch/train_loss", position.step, static_cast<float>(train.mean_loss));
  events_->add("epoch/train_accuracy", position.step, static_cast<float>(train.accuracy));
  events_->add("epoch/seconds", position.step, static_cast<float>(training.count()));
  if (test.samples > 0) {
    events_->add("test/loss", position.step, static_cast<float>(test.mean_loss));
    events_->add("test/accuracy", position.step, static_cast<float>(test.accuracy));
  }
  flush_events();
}

void RunLog::evaluation(const Position& position, const Score& test, Seconds now) {
  write_json(line_of("evaluation", position, now)
                 .add("test_loss", test.mean_loss)
                 .add("test_accuracy", test.accuracy)
                 .add("test_images", test.samples));
}

void RunLog::memory(const Position& position, const MemoryTable& memory, Seconds now) {
  const auto bytes = [](std::size_t count) { return static_cast<std::int64_t>(count); };
  write_json(line_of("memory", position, now)
                 .add("parameters", bytes(memory.parameters))
                 .add("gradients", bytes(memory.gradients))
                 .add("optimizer_state", bytes(memory.optimizer_state))
                 .add("average", bytes(memory.average))
                 .add("checkpoint", bytes(memory.checkpoint))
                 .add("activations", bytes(memory.activations))
                 .add("workspace", bytes(memory.workspace))
                 .add("data", bytes(memory.data))
                 .add("peak_resident", bytes(memory.peak_resident)));
}

void RunLog::replicas(const ReplicaFigures& figures, const Position& position, Seconds now) {
  write_json(line_of("replicas", position, now)
                 .add("replicas", std::int64_t{figures.replicas})
                 .add("first_bytes", static_cast<std::int64_t>(figures.first_bytes))
                 .add("other_bytes", static_cast<std::int64_t>(figures.other_bytes))
                 .add("parameter_bytes_out", figures.parameters_out)
                 .add("gradient_bytes_in", figures.gradients_in)
                 .add("sample_bytes_out", figures.samples_out)
                 .add("logit_bytes_in", figures.logits_in)
                 .add("copying_ms", 1000 * figures.copying)
                 .add("adding_ms", 1000 * figures.adding));
}

void RunLog::note(const char* event, const std::string& text, const Position& position, Seconds now) {
  write_window();
  write_((options_.progress.terminal ? "\r\x1b[K" : "") + text + "\n");
  write_json(line_of(event, position, now).add("text", text));
}

void RunLog::write_json(const JsonLine& line) {
  if (!metrics_.is_open() || metrics_failed_) return;
  metrics_ << line.text() << '\n' << std::flush;
  if (metrics_) return;
  metrics_failed_ = true;
  write_("metrics can no longer be written to " + options_.metrics + "; the run goes on without them\n");
}

void RunLog::flush_events() {
  if (events_failed_ || events_->flush()) return;
  events_failed_ = true;
  write_("events can no longer be written to " + events_->path() + "; the run goes on without them\n");
}

}  // namespace muster::train
