// SPDX-License-Identifier: Apache-2.0
// Compares facts between the ranks before the first step.
#pragma once

#include "worker_sdk/comm/process_group.hpp"
#include "worker_sdk/store/store_client.hpp"

#include <functional>
#include <string>

namespace muster::parallel {

/// "rank 0 has A, rank 3 has B", of the first line in which two texts differ.
std::string first_differing_line(const std::string& first, const std::string& other, int rank);

/// What the ranks must have alike.
struct Topic {
  std::string name;     ///< part of the names of keys in a store
  std::string unsaid;   ///< what a rank that does not come has not said: "which model it trains"
  std::string refusal;  ///< begins the error: "the ranks train different models; "
  std::string advice;   ///< ends it: "give every rank the same ones"
  /// Tells how two texts differ: rank 0's, and that of the first rank with a different one.
  std::function<std::string(const std::string& first, const std::string& other, int rank)> difference =
      first_differing_line;
};

/// Throws Error (mismatch) on every rank alike where the ranks' `lines` are not all equal. They compare over
/// `store`, which works even where collectives cannot, because only the name, rank, size and deadline of
/// `group` are read: there a rank that does not come is named by the Error (deadline). `store` null: over the
/// group, with two small collectives if all is equal. `group` has more than one rank.
void agree(ProcessGroup& group, StoreClient* store, const Topic& topic, const std::string& lines);

/// The same for the model, as describe_layout() describes it.
void require_same_layout(ProcessGroup& group, StoreClient* store, const std::string& description);

}  // namespace muster::parallel
