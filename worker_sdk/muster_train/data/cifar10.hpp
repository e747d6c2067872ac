// SPDX-License-Identifier: Apache-2.0
// Reads CIFAR-10's binary version (Krizhevsky, https://www.cs.toronto.edu/~kriz/cifar.html).
#pragma once

#include "worker_sdk/nn/data/images.hpp"

#include <cstddef>
#include <filesystem>

namespace muster::data {

inline constexpr std::size_t kCifar10RecordBytes = 1 + kImageBytes;
inline constexpr std::size_t kCifar10TrainImages = 50000;

/// Reads whichever of data_batch_1.bin to data_batch_5.bin are in `folder`, in this order, and
/// test_batch.bin. Any whole number of records is valid. Throws Error (io) that names the file, its size and
/// what to do.
/// Without `needs_training` there may be none of the five.
ImageData load_cifar10(const std::filesystem::path& folder, bool needs_training = true);

/// Images of a set.
struct ImageCounts {
  std::size_t train = 0;
  std::size_t test = 0;
};

/// Those that load_cifar10() would read, by the sizes of the files. Throws as it does, but for what is in
/// them.
ImageCounts count_cifar10(const std::filesystem::path& folder, bool needs_training = true);

}  // namespace muster::data
