// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/plugin/loader.hpp"

#include "muster/error.hpp"
#include "worker_sdk/comm/plugin/border.hpp"
#include "worker_sdk/comm/plugin/release.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <sstream>
#include <vector>

namespace muster::plugin {
namespace {

/// The package to install if a plug-in is missing.
std::string advice(const std::string& name) {
  if (name == "gloo") return "install Gloo (Debian: libgloo0) and Muster's backends";
  if (name == "mpi") return "install Open MPI (Debian: libopenmpi3, openmpi-bin) and Muster's backends";
  if (name == "nccl")
    return "install NCCL (pip install nvidia-nccl-cu12, NVIDIA's libnccl2), a driver of 535 or later and "
           "Muster's backends";
  return "known backends are shm, gloo, mpi, nccl and hierarchical";
}

Error cannot_load(const std::string& name, const std::string& cause) {
  return Error(ErrorCode::unsupported,
               "the backend '" + name + "' cannot be loaded: " + cause + "; " + advice(name) +
                   ", or set MUSTER_PLUGIN_PATH to the folder that holds libmuster_" + name + ".so");
}

bool is_plain_name(const std::string& name) {
  if (name.empty() || name.size() > 32) return false;
  return name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string::npos;
}

/// The folders that are searched, in their order.
std::vector<std::string> plugin_folders() {
  const char* const given = secure_getenv("MUSTER_PLUGIN_PATH");
  if (given != nullptr && *given != '\0') return {given};
  Dl_info info{};
  std::string object;
  if (dladdr(reinterpret_cast<void*>(&load_plugin), &info) != 0 && info.dli_fname != nullptr)
    object = info.dli_fname;
  // A program's name is the word it was called by, which may be no path; a shared object's name is its path.
  if (object.find('/') == std::string::npos || access(object.c_str(), F_OK) != 0) object = "/proc/self/exe";
  char path[PATH_MAX];
  if (realpath(object.c_str(), path) == nullptr) return {};
  const std::string folder = std::string(path).substr(0, std::string_view(path).rfind('/'));
  std::vector<std::string> folders{folder + "/muster"};  // beside libmuster.so
  std::istringstream libraries(MUSTER_LIBRARY_FOLDERS);  // relative to the folder of a program
  for (std::string library; std::getline(libraries, library, ':');)
    folders.push_back(folder + "/" + library + "/muster");
  return folders;
}

void* open_object(const std::string& name) {
  if (!is_plain_name(name)) throw cannot_load(name, "that is no name of a backend");
  std::string reason;
  void* const handle = open_plugin(name, reason);
  if (handle == nullptr) throw cannot_load(name, reason);
  return handle;
}

}  // namespace

/// Opens a plug-in. The handle stays open for ever: dlopen counts, so a second call is cheap and gives the
/// same object.
void* open_plugin(const std::string& name, std::string& reason) {
  std::string tried;
  for (const std::string& folder : plugin_folders()) {
    const std::string path = folder + "/libmuster_" + name + ".so";
    if (access(path.c_str(), F_OK) != 0) {
      tried += (tried.empty() ? "" : ", ") + path;
      continue;
    }
    void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) reason = dlerror();
    return handle;
  }
  reason = "there is no " + tried;
  return nullptr;
}

const muster_plugin& load_plugin(const std::string& name) {
  void* const handle = open_object(name);
  void* const symbol = dlsym(handle, kTableEntry);
  if (symbol == nullptr) throw cannot_load(name, dlerror());
  const muster_plugin* const plugin = reinterpret_cast<muster_plugin_entry_fn>(symbol)();
  if (plugin == nullptr || plugin->version != kTableVersion)
    throw Error(ErrorCode::unsupported,
                "the backend '" + name + "' cannot be loaded: " +
                    say_both_releases(handle, plugin == nullptr ? 0 : plugin->version, kTableVersion) +
                    "; install the same version of both, or set MUSTER_PLUGIN_PATH to the folder of its own "
                    "plug-ins");
  return *plugin;
}

Usability probe_plugin(const std::string& name, int local_rank) {
  try {
    const muster_plugin& plugin = load_plugin(name);
    char device[kDeviceBytes] = "";
    if (const auto error = try_call(plugin.probe, local_rank, device)) return {error->what(), ""};
    return {"", device};
  } catch (const Error& error) {
    return {error.what(), ""};
  }
}

void* plugin_function(const std::string& name, const char* function) {
  void* const symbol = dlsym(open_object(name), function);
  if (symbol == nullptr) throw cannot_load(name, dlerror());
  return symbol;
}

}  // namespace muster::plugin
