// SPDX-License-Identifier: Apache-2.0
// muster-gpu-check: whole steps of every model on a GPU against the same steps by the CPU's parts, an eager
// step for tools that look at single kernels, images a second, and the time of each call. The usage is below.
#include "muster/error.hpp"
#include "tests/gpu/measure.hpp"
#include "tests/gpu/plan_check.hpp"
#include "tests/gpu/random_start.hpp"
#include "tests/gpu/row_check.hpp"
#include "tests/unit/worker_sdk/nn/gpu/host_ops.hpp"
#include "tests/unit/worker_sdk/nn/model_tensors.hpp"
#include "worker_sdk/nn/built_in.hpp"
#include "worker_sdk/nn/cpu/processors.hpp"
#include "worker_sdk/nn/data/images.hpp"
#include "worker_sdk/nn/gpu/cuda/cuda_ops.hpp"
#include "worker_sdk/nn/learner/learner.hpp"
#include "worker_sdk/nn/loss.hpp"
#include "worker_sdk/nn/models/make_network.hpp"
#include "worker_sdk/nn/network.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace muster;           // NOLINT(google-build-using-namespace) a program of one file
using namespace muster::nn::gpu;  // NOLINT(google-build-using-namespace)

constexpr std::size_t kBatch = 32;

constexpr const char* kUsage =
    "usage: muster-gpu-check steps                  compares steps of every network with those of the CPU\n"
    "       muster-gpu-check eager MODEL BATCH [f32|bf16|f16]   makes steps with every option, call by call, "
    "in "
    "one "
    "precision\n"
    "                                               or both: for compute-sanitizer\n"
    "       muster-gpu-check measure MODEL BATCH plain|autotuned    prints images a second in bf16, or fp16 "
    "where the GPU has none\n"
    "       muster-gpu-check kernels MODEL BATCH    prints time, bytes and GB/s of each call of such a step\n"
    "       muster-gpu-check plans                  prints and judges cuDNN's plans for 32-bit floats\n"
    "       muster-gpu-check rows                   compares every layer of rows with the host's kernels\n"
    "       muster-gpu-check row-kernels BATCH      prints the same as kernels for every layer of rows\n";

const char* name_of(nn::Precision precision) {
  constexpr const char* kNames[] = {"f32", "tf32", "bf16", "f16"};
  return kNames[static_cast<int>(precision)];
}

/// The gradients of one step, parameter by parameter, and the loss.
struct Step {
  std::vector<std::vector<float>> gradients;
  double loss = 0;
};

train::LearnerTask task_of(const std::string& model, nn::Precision precision, std::size_t batch) {
  train::LearnerTask task;
  task.batch_size = batch;
  task.loader.augmentation = {4, true, 9};
  task.options.model = model;
  task.options.precision = precision;
  task.options.seed = 1;
  return task;
}

/// `nudge`: every other number of the input is the next larger float.
Step on_cpu(const train::LearnerTask& task, nn::Precision precision, const data::Images& images,
            std::span<const std::uint32_t> batch, bool nudge = false) {
  nn::NetworkOptions how;
  how.precision = precision;
  const auto network = nn::make_network(task.options.model, how);
  test::ModelTensors tensors(network->spec(), task.options.seed);
  network->bind(tensors.slots, tensors.places);
  std::vector<float> input(batch.size() * data::kImageBytes);
  std::vector<std::uint8_t> labels(batch.size());
  std::vector<float> gradient(batch.size() * 10);
  data::gather(images, batch, task.loader.normalization, task.loader.augmentation, 3, input.data(),
               labels.data());
  for (std::size_t i = 0; nudge && i < input.size(); i += 2)
    input[i] = std::nextafter(input[i], std::numeric_limits<float>::infinity());
  const float* logits =
      network->forward(input.data(), static_cast<std::int64_t>(batch.size()), nn::Mode::train);
  Step step;
  step.loss = nn::softmax_cross_entropy(logits, labels.data(), batch.size(), 10, gradient.data()).loss;
  network->backward(gradient.data(), [](std::size_t) {});
  step.gradients = tensors.gradients;
  return step;
}

/// The second of two equal steps (a rate of zero), which is a recorded one.
Step on_device(Ops& ops, const train::LearnerTask& task, const data::ImageData& data,
               const std::vector<std::uint32_t>& batch) {
  train::Learner learner(task, data, nullptr, &ops);
  learner.begin_epoch({batch, batch}, 3);
  Step step;
  for (int i = 0; i < 2; ++i) step.loss = learner.step({1, 0, batch.size(), {}}).loss;
  for (std::size_t i = 0; i < learner.spec().parameters.size(); ++i)
    step.gradients.push_back(learner.gradient(i));
  return step;
}

Step on_gpu(const train::LearnerTask& task, const data::ImageData& data,
            const std::vector<std::uint32_t>& batch) {
  CudaOps ops(0, false);
  return on_device(ops, task, data, batch);
}

/// The same step in bf16 on this processor: by its own instructions, or, of networks that are not computed in
/// bf16 there, by the kernels of the GPU in this process.
Step rounded_on_host(const train::LearnerTask& task, const data::ImageData& data,
                     const std::vector<std::uint32_t>& batch, const Step& wanted) {
  Step rounded = on_cpu(task, nn::Precision::bf16, data.train, batch);
  if (rounded.gradients != wanted.gradients) return rounded;
  HostOps host;
  return on_device(host, task, data, batch);
}

/// How far each gradient may be from the CPU's in f32, as a share of its length: where the last bit of the
/// input moves it far, as in deep networks with batch norm, four times that. fp16 rounds 13 bits earlier. In
/// bf16 it is twice what bf16 on the processor is off, so that rounding is allowed what rounding does here;
/// empty where this processor has no instructions for bf16 to compare with.
std::vector<double> bounds(const train::LearnerTask& task, const data::ImageData& data,
                           const std::vector<std::uint32_t>& batch, const Step& wanted) {
  constexpr double kLastBits = 0.01;
  std::vector<double> result(wanted.gradients.size(), kLastBits);
  if (task.options.precision != nn::Precision::bf16) {
    const Step nudged = on_cpu(task, nn::Precision::f32, data.train, batch, true);
    const double times = task.options.precision == nn::Precision::f16 ? 4 * 8192 : 4;
    for (std::size_t i = 0; i < result.size(); ++i)
      result[i] = std::max(result[i], times * test::apart(wanted.gradients[i], nudged.gradients[i]));
    return result;
  }
  if (!nn::supports(nn::Precision::bf16)) return {};
  const Step rounded = rounded_on_host(task, data, batch, wanted);
  for (std::size_t i = 0; i < result.size(); ++i)
    result[i] += 2 * test::apart(wanted.gradients[i], rounded.gradients[i]);
  return result;
}

bool compare(const std::string& model, nn::Precision precision) {
  const train::LearnerTask task = task_of(model, precision, kBatch);
  const data::ImageData data = {random_images(200), random_images(10), ""};
  std::vector<std::uint32_t> batch(kBatch);
  std::iota(batch.begin(), batch.end(), 40U);
  const Step wanted = on_cpu(task, nn::Precision::f32, data.train, batch);
  const std::vector<double> allowed = bounds(task, data, batch, wanted);
  const Step got = on_gpu(task, data, batch);
  const Step again = on_gpu(task, data, batch);
  const nn::ModelSpec spec = nn::model_spec(model);
  const bool same = got.gradients == again.gradients && got.loss == again.loss;
  const double loss = std::abs(got.loss / wanted.loss - 1);
  bool passed = same && loss < (precision == nn::Precision::f32 ? 1e-4 : 0.02);
  std::printf("%s, %s: loss off by %.1e, %s\n", model.c_str(), name_of(precision), loss,
              same ? "same bits twice" : "OTHER BITS THE SECOND TIME");
  if (allowed.empty())
    std::printf("skipped: gradients of %s in bf16: this processor has none to compare with\n", model.c_str());
  double worst = 0;
  for (std::size_t i = 0; i < allowed.size(); ++i) {
    const double off = test::apart(wanted.gradients[i], got.gradients[i]);
    worst = std::max(worst, off);
    if (off <= allowed[i]) continue;
    passed = false;
    std::printf("  the gradient of %s is off by %.1e of its length, %.1e allowed\n",
                spec.parameters[i].name.c_str(), off, allowed[i]);
  }
  std::printf("  gradients off by at most %.1e: %s\n", worst, passed ? "ok" : "FAILED");
  return passed;
}

bool has_bf16() {
  const Library& api = library();
  require_device(api, 0);
  return capability_of(api, 0) >= 80;
}

/// All that this GPU computes in.
std::vector<nn::Precision> all_precisions() {
  if (!has_bf16()) return {nn::Precision::f32, nn::Precision::f16};
  return {nn::Precision::f32, nn::Precision::bf16, nn::Precision::f16};
}

int check_steps() {
  bool passed = true;
  for (const std::string& model : nn::model_names())
    for (const nn::Precision precision : all_precisions()) passed = compare(model, precision) && passed;
  return passed ? 0 : 1;
}

/// What training takes by default, with crops and flips.
train::LearnerTask usual_task(const std::string& model, long batch) {
  const nn::Precision precision = has_bf16() ? nn::Precision::bf16 : nn::Precision::f16;
  train::LearnerTask task = task_of(model, precision, static_cast<std::size_t>(batch));
  task.options.optimizer.weight_decay = 5e-4;
  return task;
}

bool print_eager_step(const std::string& model, long batch, nn::Precision precision) {
  CudaOps ops(0, false);
  const EagerLosses losses = make_eager_step(ops, model, batch, precision);
  const bool passed = std::isfinite(losses.trained) && std::isfinite(losses.tested);
  std::printf("%s, %s, %ld images: loss %.4f, then %.4f: %s\n", model.c_str(), name_of(precision), batch,
              losses.trained, losses.tested, passed ? "ok" : "FAILED");
  return passed;
}

int check_eager(const std::string& model, long batch, const std::vector<nn::Precision>& precisions) {
  bool passed = true;
  for (const nn::Precision precision : precisions)
    passed = print_eager_step(model, batch, precision) && passed;
  return passed ? 0 : 1;
}

std::vector<nn::Precision> precisions_of(std::string_view text) {
  if (text == "f32") return {nn::Precision::f32};
  if (text == "bf16") return {nn::Precision::bf16};
  if (text == "f16") return {nn::Precision::f16};
  throw Error(ErrorCode::invalid_argument,
              "the precision '" + std::string(text) + "'; give f32, bf16 or f16");
}

int measure(const std::string& model, long batch, std::string_view how) {
  const bool autotune = how == "autotuned";
  if (!autotune && how != "plain")
    throw Error(ErrorCode::invalid_argument, "'" + std::string(how) + "'; give plain or autotuned");
  std::printf("| %s | %ld | muster%s | %.0f |\n", model.c_str(), batch, autotune ? ", autotuned" : "",
              images_per_second(usual_task(model, batch), autotune));
  return 0;
}

/// A figure, or "-" where there is nothing to compute one of.
std::string per_second(double amount, double seconds, double unit) {
  if (!(amount > 0) || !(seconds > 0)) return "-";
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f", amount / seconds / unit);
  return text;
}

int print_calls(const std::string& title, const std::vector<CallTime>& times) {
  double all = 0;
  for (const CallTime& time : times) all += time.seconds;
  std::printf("%s: %.3f ms for the calls of a step, one after the other\n", title.c_str(), all * 1e3);
  std::printf("| call | calls a step | us a step | share | MB a step | GB/s | TFLOP/s |\n");
  std::printf("|---|---|---|---|---|---|---|\n");
  for (const CallTime& time : times)
    std::printf("| %s | %zu | %.1f | %.1f %% | %.2f | %s | %s |\n", time.name.c_str(), time.calls,
                time.seconds * 1e6, 100 * time.seconds / all, time.bytes / 1e6,
                per_second(time.bytes, time.seconds, 1e9).c_str(),
                per_second(time.operations, time.seconds, 1e12).c_str());
  return 0;
}

/// The images of a step; none that a step cannot have.
long batch_of(const char* text) {
  char* end = nullptr;
  const long batch = std::strtol(text, &end, 10);
  if (*end != '\0' || batch < 1 || batch > 50'000)
    throw Error(ErrorCode::invalid_argument,
                std::string("a batch of '") + text + "' images; give a number from 1 to 50000");
  return batch;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string_view what = argc > 1 ? argv[1] : "";
    if (what == "steps") return check_steps();
    if (what == "eager" && argc == 4) return check_eager(argv[2], batch_of(argv[3]), all_precisions());
    if (what == "eager" && argc == 5) return check_eager(argv[2], batch_of(argv[3]), precisions_of(argv[4]));
    if (what == "measure" && argc == 5) return measure(argv[2], batch_of(argv[3]), argv[4]);
    if (what == "kernels" && argc == 4) {
      const long batch = batch_of(argv[3]);
      return print_calls(argv[2] + (", " + std::to_string(batch) + " images"),
                         call_times(usual_task(argv[2], batch), 5));
    }
    if (what == "plans") return check_plans() ? 0 : 1;
    if (what == "rows") {
      CudaOps ops(0, false);
      return check_rows(ops) ? 0 : 1;
    }
    if (what == "row-kernels" && argc == 3)
      return print_calls("layers of rows, " + std::string(argv[2]) + " images",
                         row_call_times(batch_of(argv[2]), 5));
    std::fputs(kUsage, stderr);
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "muster-gpu-check: %s\n", error.what());
    return 1;
  }
}
