// SPDX-License-Identifier: Apache-2.0
// Tensors of a file into a model, by name.
#pragma once

#include "worker_sdk/nn/checkpoint/tensor_files.hpp"

#include <span>
#include <string>
#include <vector>

namespace muster::checkpoint {

/// Fills every destination, or none, reading only what they take. The file has these tensors as F32 and no
/// others, but for names that begin with `aside`, which are left to the caller. Throws Error
/// (invalid_argument) that names the first that differs, in the order of `to`, and both shapes.
void restore(const TensorFiles& file, std::span<const Destination> to, const std::string& aside = "");

/// Fills every destination, or none, from a file that may have other tensors, too. Throws as restore().
void fill(const TensorFiles& file, std::span<const Destination> to);

/// Fills the destinations from weights of another training, in torchvision's names; types of floats are
/// converted. "num_batches_tracked" is ignored. Tensors whose names begin with `head` ("fc.") may differ in
/// their first extent, the classes, or be missing: they keep their values. All others must match. Returns a
/// line for people: "60 tensors from FILE; fc.weight [10, 512] starts anew, the file has [1000, 512]; ...".
/// Throws Error (invalid_argument) that names every difference, before anything is written.
std::string init_from(const TensorFiles& file, std::span<const Destination> to, const std::string& head);

/// The part of a name up to its last dot, with it: "fc." for "fc.weight".
std::string layer_of(const std::string& parameter);

}  // namespace muster::checkpoint
