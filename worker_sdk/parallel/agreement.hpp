// SPDX-License-Identifier: Apache-2.0
// What the ranks compare or give each other before the first step.
#pragma once

#include "worker_sdk/comm/process_group.hpp"
#include "worker_sdk/store/store_client.hpp"

#include <functional>
#include <string>

namespace muster::parallel {

/// Throws Error (mismatch) on every rank alike when the ranks' descriptions of the model (describe_layout())
/// are not all equal. They compare over `store`; null: over the group, with two small collectives where they
/// are equal. `group` has more than one rank.
void require_same_layout(ProcessGroup& group, StoreClient* store, const std::string& description);

/// The subject that the ranks compare over the store.
struct Topic {
  std::string name;  ///< part of the keys' names
  std::string text;  ///< "which model it trains": what a rank that does not come has not said
  /// Says how two descriptions differ: rank 0's, and that of the first rank whose one is another.
  std::function<std::string(const std::string& first, const std::string& other, int rank)> difference;
};

/// Whether all ranks have the same description: "" where they have, else what Topic::difference() says of
/// the first rank that has another one; the same on every rank. Works where collectives cannot, and leaves
/// the group alone: of `group` it uses name, rank, size and the deadline. A rank that does not come is named
/// by the Error (deadline).
std::string difference_over_store(const ProcessGroup& group, StoreClient& store, const Topic& topic,
                                  const std::string& description);

}  // namespace muster::parallel
