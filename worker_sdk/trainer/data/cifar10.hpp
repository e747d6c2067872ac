// SPDX-License-Identifier: Apache-2.0
// CIFAR-10 in its official binary layout (https://www.cs.toronto.edu/~kriz/cifar.html): records of 3,073
// bytes, one label byte, then 1,024 red, 1,024 green and 1,024 blue bytes, row by row.
#pragma once

#include "worker_sdk/trainer/data/images.hpp"

#include <filesystem>

namespace muster::data {

inline constexpr std::size_t kCifar10RecordBytes = 1 + kImageBytes;
inline constexpr std::size_t kCifar10TrainImages = 50000;

/// Reads whichever of data_batch_1.bin to data_batch_5.bin are in `folder`, in this order, and
/// test_batch.bin. Any whole number of records is valid. Throws Error (io) that names the file, its size and
/// what to do.
/// Without `needs_training` there may be none of the five.
ImageData load_cifar10(const std::filesystem::path& folder, bool needs_training = true);

}  // namespace muster::data
