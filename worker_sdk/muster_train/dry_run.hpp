// SPDX-License-Identifier: Apache-2.0
// --dry-run: what a rank will take of memory, and the largest batch that there is room for.
#pragma once

#include "worker_sdk/muster_train/train_options.hpp"

#include <string>

namespace muster::examples {

/// The estimate for a rank of this job, as text or with `json` as one JSON object (schema "muster.memory" in
/// docs/training.md). Trains nothing and reads no image; joins no world, but asks the launcher's variables
/// how many ranks there are. Throws Error as the run itself would before its first step: (invalid_argument)
/// for wrong flags, (io) for a folder without images, (unsupported) for what this machine cannot compute.
std::string dry_run(TrainOptions options);

}  // namespace muster::examples
