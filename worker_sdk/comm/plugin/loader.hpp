// SPDX-License-Identifier: Apache-2.0
// Finds and loads the shared objects of backends.
#pragma once

#include "worker_sdk/comm/plugin/table.hpp"

#include <string>

namespace muster::plugin {

/// Loads a backend's shared object, libmuster_<name>.so, once; it is never unloaded, because its library may
/// have threads. It is looked for in the folder MUSTER_PLUGIN_PATH (not in programs with raised privileges),
/// else beside the object that holds this function: in muster/ (libmuster.so), and from a program's folder in
/// ../lib/muster/, or in the folder that the distribution has for lib. Throws Error (unsupported) that names
/// the file and what to install.
const muster_plugin& load_plugin(const std::string& name);

/// Whether this process can use a plug-in.
struct Usability {
  std::string reason_against;  ///< why this process cannot use it; "" when it can
  std::string device;          ///< the identity of the device, as muster_plugin::probe gives it
};

Usability probe_plugin(const std::string& name, int local_rank);

/// Another function of a loaded plug-in; throws Error (unsupported) when it has none of that name.
void* plugin_function(const std::string& name, const char* function);

/// Opens libmuster_<name>.so from the same folders, for any purpose. Null, and `reason`, if it cannot be
/// loaded.
void* open_plugin(const std::string& name, std::string& reason);

}  // namespace muster::plugin
