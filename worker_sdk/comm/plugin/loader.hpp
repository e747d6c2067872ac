// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/comm/plugin/table.hpp"

#include <string>

namespace muster::plugin {

/// A backend's shared object, libmuster_<name>.so, loaded once and never unloaded: its library may have
/// threads. Looked for in the folder MUSTER_PLUGIN_PATH (not in programs with raised privileges), else beside
/// the object that holds this function: in muster/ (libmuster.so), and from a program's folder in
/// ../lib/muster/, or what else the distribution calls lib. Throws Error (unsupported) that names the file
/// and what to install.
const muster_plugin& load_plugin(const std::string& name);

/// Whether this process can use a plug-in.
struct Usability {
  std::string reason_against;  ///< "" when it can
  std::string device;          ///< as muster_plugin::probe
};

Usability probe_plugin(const std::string& name, int local_rank);

/// Another function of a loaded plug-in; throws Error (unsupported) when it has none of that name.
void* plugin_function(const std::string& name, const char* function);

/// libmuster_<name>.so of the same places, for any purpose. Null, and `reason`, where it cannot be loaded.
void* open_plugin(const std::string& name, std::string& reason);

}  // namespace muster::plugin
