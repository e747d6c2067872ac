// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/plugin/plugin_release.hpp"

#include "worker_sdk/comm/plugin/release.hpp"

const char muster_plugin_release[] =
    MUSTER_PLUGIN_VERSION(MUSTER_VERSION_MAJOR, MUSTER_VERSION_MINOR, MUSTER_VERSION_PATCH);
