// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/plugin/nvidia_library.hpp"

#include <glob.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>
#include <utility>
#include <vector>

namespace muster::plugin {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* const text = secure_getenv(name);
  return text == nullptr ? "" : text;
}

/// The folders of a list with colons, as one writes them without a slash at the end. What means the working
/// directory is left out: anybody may have put files there.
std::vector<std::string> folders_of(const std::string& list) {
  std::vector<std::string> folders;
  std::istringstream rest(list);
  for (std::string folder; std::getline(rest, folder, ':');) {
    while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
    if (folder.starts_with('/')) folders.push_back(folder);
  }
  return folders;
}

/// Characters that a pattern gives a meaning mean themselves.
std::string literal(const std::string& text) {
  std::string quoted;
  for (const char each : text) {
    if (std::string_view("*?[]\\").find(each) != std::string_view::npos) quoted += '\\';
    quoted += each;
  }
  return quoted;
}

/// The last file that fits a pattern, python3.10 behind python3.9; "" where none does.
std::string last_match(const std::string& pattern) {
  glob_t found{};
  std::string last;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
    for (std::size_t i = 0; i < found.gl_pathc; ++i) {
      const std::string path = found.gl_pathv[i];
      if (std::pair(path.size(), path) > std::pair(last.size(), last)) last = path;
    }
  globfree(&found);
  return last;
}

/// Where an installation of Python keeps packages: Debian's own lie in dist-packages, and what pip adds to
/// the system's below /usr/local.
std::vector<std::string> packages_of(const std::string& prefix) {
  if (!prefix.starts_with('/')) return {};
  std::vector<std::string> places;
  for (const std::string& each :
       prefix == "/usr" ? std::vector<std::string>{"/usr/local", prefix} : std::vector<std::string>{prefix})
    for (const char* const packages : {"/lib/python3*/site-packages", "/lib/python3*/dist-packages"})
      places.push_back(literal(each) + packages);
  return places;
}

/// HOME where it is this user's: sudo may leave that of another one, whose files are not to be loaded.
std::string own_home(const std::string& home) {
  struct stat status {};

  return home.starts_with('/') && ::stat(home.c_str(), &status) == 0 && status.st_uid == ::geteuid() ? home
                                                                                                     : "";
}

/// The installation whose python3 a user's shell would start.
std::string prefix_in(const std::string& path) {
  std::error_code ignored;
  for (const std::string& folder : folders_of(path))
    if (fs::exists(fs::path(folder) / "python3", ignored)) return fs::path(folder).parent_path();
  return "";
}

}  // namespace

LibraryPlaces library_places() {
  Dl_info own{};
  const bool known =
      dladdr(reinterpret_cast<const void*>(&library_places), &own) != 0 && own.dli_fname != nullptr;
  return {variable("LD_LIBRARY_PATH"),
          variable("VIRTUAL_ENV"),
          variable("CONDA_PREFIX"),
          variable("PATH"),
          variable("HOME"),
          known ? own.dli_fname : ""};
}

std::string find_in_python_packages(const std::string& name, const LibraryPlaces& places) {
  std::error_code ignored;
  for (const std::string& folder : folders_of(places.library_path))
    if (fs::exists(fs::path(folder) / name, ignored)) return "";
  std::vector<std::string> patterns;
  for (fs::path folder = fs::path(places.own_library).parent_path(); folder.has_relative_path();
       folder = folder.parent_path())
    if (folder.filename() == "site-packages" || folder.filename() == "dist-packages")
      patterns.push_back(literal(folder));
  const std::string home = own_home(places.home);
  const std::string user = home.empty() ? "" : home + "/.local";
  for (const std::string& prefix : {places.virtual_env, places.conda_prefix, prefix_in(places.path), user})
    for (const std::string& packages : packages_of(prefix)) patterns.push_back(packages);
  for (const std::string& packages : patterns)
    if (const std::string path = last_match(packages + "/nvidia/*/lib/" + literal(name)); !path.empty())
      return path;
  return "";
}

void* open_library(const char* variable_name, const char* name, const char* package, bool in_packages) {
  const auto reason = [](const char* otherwise) {
    const char* const text = dlerror();
    return std::string(text != nullptr ? text : otherwise);
  };
  if (const std::string chosen = variable(variable_name); !chosen.empty()) {
    if (void* const handle = dlopen(chosen.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
    throw Missing(std::string(variable_name) + " names '" + chosen +
                  "', which cannot be loaded: " + reason("no reason given"));
  }
  if (void* const handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) return handle;
  if (const std::string path = in_packages ? find_in_python_packages(name, library_places()) : "";
      !path.empty())
    if (void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
  if (void* const handle = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return handle;
  throw Missing("no " + std::string(name) + " was found (" + reason(name) + "); install " + package +
                ", or set " + variable_name + " to its path");
}

std::string path_of(void* library) {
  link_map* map = nullptr;
  return dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_name != nullptr ? map->l_name
                                                                                                 : "";
}

}  // namespace muster::plugin
