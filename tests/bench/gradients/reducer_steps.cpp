// SPDX-License-Identifier: Apache-2.0
// Steps of the reducer with the gradients of ResNet-18 over shared memory, ranks as threads of this process.
//
// usage: reducer_steps RANKS BACKWARD_MS STEPS
//
// "Backward" burns BACKWARD_MS of processor time, spread over the parameters as their work is, and reports
// each gradient as it would. One line for each way of summing, the ways in turn in every round: its name, the
// medians over the steps, in ms, of communication, of exposed communication and of the whole step; of each
// step the smallest over the ranks, which is that of the rank that came last: what the others have more, they
// waited for it. And the same of a step that reduces nothing.
#include "tests/support/shm_groups.hpp"
#include "worker_sdk/parallel/compression.hpp"
#include "worker_sdk/parallel/power_sgd.hpp"
#include "worker_sdk/parallel/reducer.hpp"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <thread>

namespace muster {
namespace {

using Clock = std::chrono::steady_clock;

struct Layer {
  ParameterSpec spec;
  double work = 0;  ///< share of backward
};

void add_unit(std::vector<Layer>& layers, const std::string& conv, const std::string& norm, std::int64_t in,
              std::int64_t out, std::int64_t kernel, std::int64_t side) {
  ParameterSpec weight;
  weight.name = conv + ".weight";
  weight.shape = {out, in, kernel, kernel};
  const auto work = static_cast<double>(weight.elements()) * static_cast<double>(side * side);
  layers.push_back({std::move(weight), work});
  for (const char* part : {".weight", ".bias"}) {
    ParameterSpec spec;
    spec.name = norm + part;
    spec.shape = {out};
    layers.push_back({std::move(spec), 0});
  }
}

/// ResNet-18 with the stem for CIFAR: 11,173,962 parameters.
std::vector<Layer> resnet18() {
  std::vector<Layer> layers;
  add_unit(layers, "conv1", "bn1", 3, 64, 3, 32);
  std::int64_t in = 64;
  std::int64_t side = 32;
  for (int stage = 1; stage <= 4; ++stage) {
    const std::int64_t out = 32 << stage;
    if (stage > 1) side /= 2;
    for (int block = 0; block < 2; ++block) {
      const std::string name = "layer" + std::to_string(stage) + "." + std::to_string(block) + ".";
      add_unit(layers, name + "conv1", name + "bn1", in, out, 3, side);
      add_unit(layers, name + "conv2", name + "bn2", out, out, 3, side);
      if (in != out) add_unit(layers, name + "downsample.0", name + "downsample.1", in, out, 1, side);
      in = out;
    }
  }
  ParameterSpec weight;
  weight.name = "fc.weight";
  weight.shape = {10, 512};
  ParameterSpec bias;
  bias.name = "fc.bias";
  bias.shape = {10};
  layers.push_back({std::move(weight), 0});
  layers.push_back({std::move(bias), 0});
  return layers;
}

/// Until this thread has had `ms` more of a processor, however many others want it.
void burn(double ms) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
  };
  const double end = now() + ms;
  while (now() < end) {
  }
}

struct Way {
  std::string name;
  ReducerOptions options;
};

std::vector<Way> ways_of(int ranks) {
  PowerSgdOptions low_rank;
  low_rank.start_step = 0;
  std::vector<Way> ways(5);
  ways[0].name = "all_reduce f32";
  ways[1].name = "bf16";
  ways[1].options.hook = make_half_hook(DataType::bf16);
  ways[2].name = "f16";
  ways[2].options.hook = make_half_hook(DataType::f16);
  ways[3].name = "PowerSGD, rank 2";
  ways[3].options.hook = make_power_sgd_hook(low_rank);
  // Its price over the ranks alone: one micro-batch on each.
  ways[4].name = "fixed tree";
  ways[4].options.deterministic_micro_batches = ranks;
  return ways;
}

/// Of each step.
struct Sample {
  std::vector<double> communication, exposed, step;
};

/// The smallest over the ranks.
void keep_smallest(std::vector<double>& values, std::size_t step, double value) {
  if (values.size() <= step) values.resize(step + 1, value);
  values[step] = std::min(values[step], value);
}

double ms(std::chrono::nanoseconds time) {
  return static_cast<double>(time.count()) / 1e6;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

class Bench {
 public:
  Bench(int ranks, double backward_ms, int steps) : ranks_(ranks), backward_ms_(backward_ms), steps_(steps) {
    double whole = 0;
    for (const Layer& layer : layers_) whole += layer.work;
    for (Layer& layer : layers_) {
      layer.work /= whole;
      specs_.push_back(layer.spec);
    }
  }

  void run() {
    auto groups = shm::make_thread_groups(ranks_);
    std::vector<std::thread> threads;
    for (auto& group : groups) threads.emplace_back([&] { run_rank(*group); });
    for (std::thread& thread : threads) thread.join();
    for (const auto& [name, sample] : samples_)
      std::printf("%s\t%.2f\t%.2f\t%.2f\n", name.c_str(), median(sample.communication),
                  median(sample.exposed), median(sample.step));
  }

 private:
  void backward(const std::function<void(std::size_t)>& ready) const {
    for (std::size_t i = layers_.size(); i-- > 0;) {
      if (layers_[i].work > 0) burn(backward_ms_ * layers_[i].work);
      ready(i);
    }
  }

  /// Numbers without a pattern: neither low rank nor tiny.
  static void fill(Reducer& reducer, int rank) {
    auto word = static_cast<std::uint32_t>(rank + 1);
    for (std::size_t i = 0; i < reducer.elements(); ++i) {
      word = word * 1664525U + 1013904223U;
      reducer.gradients()[i] = static_cast<float>(static_cast<std::int32_t>(word)) * 0x1p-31F;
    }
  }

  void run_rank(ProcessGroup& group) {
    auto ways = ways_of(ranks_);
    std::vector<std::unique_ptr<Reducer>> reducers;
    for (const Way& way : ways) {
      reducers.push_back(std::make_unique<Reducer>(specs_, &group, way.options));
      fill(*reducers.back(), group.rank());
    }
    for (int step = -1; step < steps_; ++step) {  // the first warms up
      group.barrier();
      const auto began = Clock::now();
      backward([](std::size_t) {});
      note(step, "nothing", {}, {}, Clock::now() - began);
      for (std::size_t w = 0; w < ways.size(); ++w) {
        Reducer& reducer = *reducers[w];
        group.barrier();
        const auto start = Clock::now();
        reducer.begin_step(64);
        backward([&](std::size_t i) { reducer.gradient_ready(i); });
        reducer.finish_step();
        note(step, ways[w].name, reducer.timing().communication(), reducer.timing().exposed(),
             Clock::now() - start);
        fill(reducer, group.rank());
      }
    }
  }

  void note(int step, const std::string& name, std::chrono::nanoseconds communication,
            std::chrono::nanoseconds exposed, std::chrono::nanoseconds whole) {
    if (step < 0) return;
    const std::lock_guard lock(mutex_);
    Sample& sample = samples_[name];
    const auto index = static_cast<std::size_t>(step);
    keep_smallest(sample.communication, index, ms(communication));
    keep_smallest(sample.exposed, index, ms(exposed));
    keep_smallest(sample.step, index, ms(whole));
  }

  const int ranks_;
  const double backward_ms_;
  const int steps_;
  std::vector<Layer> layers_ = resnet18();
  std::vector<ParameterSpec> specs_;
  std::mutex mutex_;
  std::map<std::string, Sample> samples_;
};

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: reducer_steps RANKS BACKWARD_MS STEPS\n");
    return 2;
  }
  muster::Bench(std::atoi(argv[1]), std::atof(argv[2]), std::atoi(argv[3])).run();
  return 0;
}
