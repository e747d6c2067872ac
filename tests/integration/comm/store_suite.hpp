// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/store/store_client.hpp"

namespace muster::test {

/// Every method of the store, which must be fresh.
void exercise_store(StoreClient& store);

/// Every method of the store's client against the server on this host's `port`. It must be fresh.
void exercise_store(int port);

}  // namespace muster::test
