// SPDX-License-Identifier: Apache-2.0
// steps MODEL f32|bf16 BATCH STEPS LR MOMENTUM FILE: reads parameters, buffers, images and labels (one byte
// each) from FILE, trains, writes the losses, parameters and buffers behind each other to stdout.
// steps MODEL: writes the names of parameters and buffers, in that order.
#include "worker_sdk/nn/loss.hpp"
#include "worker_sdk/nn/models/make_network.hpp"
#include "worker_sdk/nn/network.hpp"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <string>
#include <vector>

namespace {

using namespace muster::nn;
using Tensors = std::vector<std::vector<float>>;

Tensors read(std::ifstream& in, const std::vector<muster::ParameterSpec>& specs) {
  Tensors tensors;
  for (const auto& spec : specs) {
    std::vector<float>& tensor = tensors.emplace_back(spec.elements());
    in.read(reinterpret_cast<char*>(tensor.data()),
            static_cast<std::streamsize>(tensor.size() * sizeof(float)));
  }
  return tensors;
}

void write(const std::vector<float>& values) {
  std::fwrite(values.data(), sizeof(float), values.size(), stdout);
}

int run(char** argv) {
  NetworkOptions options;
  options.precision = std::string(argv[2]) == "bf16" ? Precision::bf16 : Precision::f32;
  const std::size_t batch = std::stoul(argv[3]);
  const float rate = std::stof(argv[5]);
  const float momentum = std::stof(argv[6]);
  const auto network = make_network(argv[1], options);
  const ModelSpec& spec = network->spec();

  std::ifstream in(argv[7], std::ios::binary);
  in.exceptions(std::ios::failbit | std::ios::badbit);
  Tensors values = read(in, spec.parameters);
  Tensors buffers = read(in, spec.buffers);
  std::vector<float> images(batch * 3072);
  in.read(reinterpret_cast<char*>(images.data()),
          static_cast<std::streamsize>(images.size() * sizeof(float)));
  std::vector<std::uint8_t> labels(batch);
  in.read(reinterpret_cast<char*>(labels.data()), static_cast<std::streamsize>(batch));

  Tensors gradients, velocities;
  std::vector<ParameterSlot> slots;
  for (std::vector<float>& value : values) {
    gradients.emplace_back(value.size());
    velocities.emplace_back(value.size());
  }
  for (std::size_t i = 0; i < values.size(); ++i) slots.push_back({values[i].data(), gradients[i].data()});
  std::vector<float*> places;
  for (std::vector<float>& buffer : buffers) places.push_back(buffer.data());
  network->bind(slots, places);

  std::vector<float> losses, logits_gradient(batch * 10);
  for (int step = 0; step < std::atoi(argv[4]); ++step) {
    const float* logits = network->forward(images.data(), static_cast<std::int64_t>(batch), Mode::train);
    const BatchScore score = softmax_cross_entropy(logits, labels.data(), batch, 10, logits_gradient.data());
    losses.push_back(static_cast<float>(score.loss / static_cast<double>(batch)));
    network->backward(logits_gradient.data(), [](std::size_t) {});
    for (std::size_t i = 0; i < values.size(); ++i)
      for (std::size_t k = 0; k < values[i].size(); ++k) {
        velocities[i][k] = momentum * velocities[i][k] + gradients[i][k] / static_cast<float>(batch);
        values[i][k] -= rate * velocities[i][k];
      }
    network->parameters_changed();
  }
  write(losses);
  for (const auto& value : values) write(value);
  for (const auto& buffer : buffers) write(buffer);
  return std::fflush(stdout) == 0 ? 0 : 1;
}

int print_names(const char* model) {
  const ModelSpec spec = model_spec(model);
  for (const auto* list : {&spec.parameters, &spec.buffers})
    for (const auto& tensor : *list) std::printf("%s\n", tensor.name.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 2) return print_names(argv[1]);
    return argc == 8 ? run(argv) : 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "steps: %s\n", error.what());
    return 1;
  }
}
