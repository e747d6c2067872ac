// SPDX-License-Identifier: Apache-2.0
// Skipping, with a reason, in Catch2 2 and 3 alike.
#pragma once

#include <string>

namespace muster::test {

/// Prints "skipped: <reason>", which the summary of a run names. The program exits 77, which CTest reports as
/// skipped, if every case that ran said so and no check failed. The caller returns from its test case.
void skip(const std::string& reason);

/// Whether skip() was called since the last call of this; for the program's main.
bool take_skipped();

/// The directory with CIFAR-10's binary files: MUSTER_TEST_CIFAR10, else ../shared/data/cifar-10-batches-bin
/// next to the source folder. Empty, after skip(), when it holds no data_batch_1.bin.
std::string cifar10_directory();

}  // namespace muster::test
