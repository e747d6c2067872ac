// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/plugin/nvidia_library.hpp"

#include "catch.hpp"
#include "tests/support/folder.hpp"

#include <filesystem>

namespace muster::plugin {
namespace {

/// Puts a file where NVIDIA's packages of an installation of Python have libraries.
std::string put(const test::Folder& folder, const std::string& packages, const std::string& package) {
  const std::string place = packages + "/nvidia/" + package + "/lib";
  std::filesystem::create_directories(folder / place);
  return folder.write(place + "/libnccl.so.2", "");
}

std::string found(const LibraryPlaces& places) {
  return find_in_python_packages("libnccl.so.2", places);
}

}  // namespace

TEST_CASE("a library is found in the packages of the Python that is used, the nearest first") {
  const test::Folder folder;
  const std::string user = put(folder, "home/.local/lib/python3.11/site-packages", "nccl");
  const std::string debian = put(folder, "usr/lib/python3/dist-packages", "nccl");
  const std::string conda = put(folder, "conda/lib/python3.12/site-packages", "cu13");
  const std::string venv = put(folder, "my [venv]/lib/python3.11/site-packages", "nccl");
  const std::string own = put(folder, "own/lib/python3.11/site-packages", "nccl");
  std::filesystem::create_directories(folder / "usr/bin");
  (void)folder.write("usr/bin/python3", "");

  LibraryPlaces places;
  CHECK(found(places) == "");
  places.home = folder / "home";
  CHECK(found(places) == user);
  places.path = (folder / "none") + "::" + (folder / "usr/bin");
  CHECK(found(places) == debian);
  places.conda_prefix = folder / "conda";
  CHECK(found(places) == conda);
  places.virtual_env = folder / "my [venv]";
  CHECK(found(places) == venv);
  places.own_library = folder / "own/lib/python3.11/site-packages/muster/lib/libmuster_nccl.so";
  CHECK(found(places) == own);
  CHECK(find_in_python_packages("libcudnn.so.9", places) == "");
}

TEST_CASE("a folder of LD_LIBRARY_PATH wins over packages, where it has the library") {
  const test::Folder folder;
  LibraryPlaces places;
  places.virtual_env = folder / "venv";
  places.library_path = (folder / "empty") + ":" + (folder / "lib");
  const std::string venv = put(folder, "venv/lib/python3.11/site-packages", "nccl");
  std::filesystem::create_directories(folder / "lib");
  CHECK(found(places) == venv);
  (void)folder.write("lib/libnccl.so.2", "");
  CHECK(found(places) == "");
}

TEST_CASE(
    "of several Pythons of an installation the newest is taken, and folders of the working directory never") {
  const test::Folder folder;
  (void)put(folder, "venv/lib/python3.9/site-packages", "nccl");
  const std::string newest = put(folder, "venv/lib/python3.10/site-packages", "nccl");
  std::filesystem::create_directories(folder / "venv/bin");
  (void)folder.write("venv/bin/python3", "");
  LibraryPlaces places;
  places.path = (folder / "venv/bin") + "/";
  CHECK(found(places) == newest);
  const std::string before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  places.path = "venv/bin:./venv/bin";
  places.virtual_env = "venv";
  places.conda_prefix = "./venv";
  places.home = ".";
  CHECK(found(places) == "");
  std::filesystem::current_path(before);
}

TEST_CASE("a library that the program has is taken, and told by its path") {
  void* const handle = open_library("MUSTER_TEST_LIBRARY", "libc.so.6", "the C library");
  CHECK_THAT(path_of(handle), EndsWith("/libc.so.6"));
}

TEST_CASE("a library that is nowhere is named, with what to install and the variable") {
  try {
    (void)open_library("MUSTER_TEST_LIBRARY", "libmuster_absent.so.7", "the package of it");
    FAIL("it was found");
  } catch (const Missing& missing) {
    CHECK_THAT(missing.text(),
               StartsWith("no libmuster_absent.so.7 was found (") &&
                   EndsWith("; install the package of it, or set MUSTER_TEST_LIBRARY to its path"));
  }
}

}  // namespace muster::plugin
