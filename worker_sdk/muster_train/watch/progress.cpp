// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/muster_train/watch/progress.hpp"

#include "worker_sdk/nn/learner/text.hpp"

namespace muster::train {
namespace {

constexpr Seconds kRedraw{0.1};
constexpr Seconds kLine{10};
constexpr std::size_t kBarWidth = 24;

/// To the start of the line, and clear it: what a terminal needs before it is drawn over.
constexpr const char* kRestart = "\r\x1b[K";

double rate(std::int64_t samples, Seconds time) {
  return time.count() > 0 ? static_cast<double>(samples) / time.count() : 0;
}

double mean(double sum, std::int64_t count) {
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

}  // namespace

void Window::add(const StepReport& report) {
  ++steps;
  samples += report.step.samples;
  loss += report.step.loss;
  correct += report.step.correct;
  times += report.step.times;
  payload += report.step.payload;
  if (report.step.skipped) ++skipped;
}

Score Window::score() const {
  return {samples, mean(loss, samples), mean(correct, samples)};
}

double Window::images_per_second(Seconds now) const {
  return rate(samples, now - began);
}

void Progress::begin_epoch(int epoch, Seconds now) {
  epoch_ = epoch;
  began_ = last_ = now;
  samples_ = 0;
  fresh_ = true;
  window_ = {};
  window_.began = now;
}

std::string Progress::step(const StepReport& report, Seconds now) {
  if (fresh_) first_step_ = report.epoch_step - 1;
  fresh_ = false;
  samples_ += report.step.samples;
  window_.add(report);
  const bool counted =
      options_.every > 0 && report.epoch_step % static_cast<std::size_t>(options_.every) == 0;
  const bool waited = now - last_ >= (options_.terminal ? kRedraw : kLine);
  if (counted || (waited && !options_.terminal && options_.every == 0)) {
    last_ = now;
    return line(report, now);
  }
  if (!waited || !options_.terminal) return "";
  last_ = now;
  return bar(report, now);
}

double Progress::remaining(const StepReport& report, Seconds now) const {
  const auto done = static_cast<double>(report.epoch_step - first_step_);
  return (now - began_).count() / done * static_cast<double>(report.epoch_steps - report.epoch_step);
}

std::string Progress::line(const StepReport& report, Seconds now) {
  const Score score = window_.score();
  const double step = mean((now - window_.began).count(), window_.steps);
  const double waiting = mean(window_.times.data_wait, window_.steps);
  const std::string text = (options_.terminal ? kRestart : "") +
                           format(
                               "epoch %d/%d  step %zu/%zu  loss %.3f  accuracy %.1f %%  %.0f images/s  batch "
                               "%.3f s, of it data %.3f s  "
                               "ETA %s\n",
                               epoch_ + 1, options_.epochs, report.epoch_step, report.epoch_steps,
                               score.mean_loss, 100 * score.accuracy, window_.images_per_second(now), step,
                               waiting, clock_time(remaining(report, now)).c_str());
  window_ = {};
  window_.began = now;
  return text;
}

std::string Progress::bar(const StepReport& report, Seconds now) const {
  const Score score = report.epoch_score();
  const std::size_t filled = kBarWidth * report.epoch_step / report.epoch_steps;
  return kRestart + format("epoch %d/%d  [", epoch_ + 1, options_.epochs) + std::string(filled, '=') +
         std::string(kBarWidth - filled, ' ') +
         format("] %zu/%zu  loss %.3f  accuracy %.1f %%  %.0f images/s  ETA %s", report.epoch_step,
                report.epoch_steps, score.mean_loss, 100 * score.accuracy, rate(samples_, now - began_),
                clock_time(remaining(report, now)).c_str());
}

std::string Progress::end_epoch(const Score& train, Seconds training, const Score& test) const {
  std::string text = options_.terminal ? kRestart : "";
  text += format("epoch %d/%d  loss %.3f  train %.1f %%", epoch_ + 1, options_.epochs, train.mean_loss,
                 100 * train.accuracy);
  if (test.samples > 0) text += format("  test %.1f %%", 100 * test.accuracy);
  return text + format("  %.0f images/s  %.1f s\n", rate(samples_, training), training.count());
}

}  // namespace muster::train
