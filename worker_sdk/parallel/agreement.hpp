// SPDX-License-Identifier: Apache-2.0
// Compares facts between the ranks before the first step.
#pragma once

#include "worker_sdk/comm/process_group.hpp"
#include "worker_sdk/store/store_client.hpp"

#include <functional>
#include <string>

namespace muster::parallel {

/// Throws Error (mismatch) on every rank alike when the ranks' descriptions of the model (describe_layout())
/// are not all equal. They compare over `store`; null: over the group, with two small collectives if they are
/// equal. `group` has more than one rank.
void require_same_layout(ProcessGroup& group, StoreClient* store, const std::string& description);

/// The subject that the ranks compare over the store.
struct Topic {
  std::string name;  ///< part of the names of the keys
  std::string text;  ///< what a rank that does not come has not said: "which model it trains"
  /// Tells how two descriptions differ: rank 0's, and that of the first rank with a different one.
  std::function<std::string(const std::string& first, const std::string& other, int rank)> difference;
};

/// Compares the descriptions of all ranks: "" if they are equal, else the text of Topic::difference() about
/// the first rank with a different one; the same on every rank. It works even where collectives cannot,
/// because it only reads the name, rank, size and deadline of `group`. A rank that does not come is named by
/// the Error (deadline).
std::string difference_over_store(const ProcessGroup& group, StoreClient& store, const Topic& topic,
                                  const std::string& description);

}  // namespace muster::parallel
