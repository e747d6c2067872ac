// SPDX-License-Identifier: Apache-2.0
// safetensors_copy FROM TO: reads a file and writes what it holds, through our reader and writer.
#include "muster/error.hpp"
#include "worker_sdk/nn/checkpoint/safetensors.hpp"

#include <cstdio>

using namespace muster::checkpoint;

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    const SafetensorsFile file(argv[1]);
    std::vector<std::vector<std::byte>> bytes;
    std::vector<TensorView> tensors;
    for (const StoredTensor& tensor : file.tensors()) {
      file.read(tensor, bytes.emplace_back(tensor.bytes));
      tensors.push_back({tensor.name, tensor.type, tensor.shape, bytes.back().data()});
    }
    write_safetensors(argv[2], tensors, file.metadata());
    return 0;
  } catch (const muster::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
