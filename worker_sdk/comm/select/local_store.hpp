// SPDX-License-Identifier: Apache-2.0
// A store of one process, for a world of one that has no store.
#pragma once

#include "worker_sdk/store/store_client.hpp"

#include <memory>

namespace muster {

std::unique_ptr<StoreClient> make_local_store();

}  // namespace muster
