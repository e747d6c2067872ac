// SPDX-License-Identifier: Apache-2.0
// What `muster doctor` reads of one host: facts without a judgement (findings.hpp judges them).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace muster::launcher {

/// The interpreter that `muster run` would use for a script.
struct PythonFacts {
  std::string program;     ///< as it was named: "python3"
  bool named = false;      ///< by --python or PYTHON_EXEC
  bool found = false;      ///< whether there is such a program
  std::string executable;  ///< its own word for itself
  std::string version;     ///< "3.11.2"; empty: it did not answer
  std::string error;       ///< why not, or why torch could not be looked at
  std::string torch;       ///< "2.4.1+cu121"; empty: not installed
  std::string torch_cuda;  ///< the CUDA that torch was built for: "12.1"; empty: none
  std::string torch_hip;   ///< the same of AMD's
  std::string nccl;        ///< the version of the package that torch takes NCCL from
};

/// The way to another host, or by the default route.
struct NetworkFacts {
  std::string towards;  ///< the other host; empty: any
  std::string address;  ///< of this host on that way; empty: there is none
  std::string interface;
  int mtu = 0;  ///< 0: not known
  std::string error;
};

struct FolderFacts {
  std::string path;
  std::string name;  ///< why it is looked at: "TMPDIR"; empty: for its own sake
  std::uint64_t total = 0;
  std::uint64_t free = 0;
  bool inodes_left = true;
  std::string error;
};

struct LimitFacts {
  static constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t soft = kUnlimited;
  std::uint64_t hard = kUnlimited;
};

/// What affinity mask and control groups leave (rendezvous/base/allowance.hpp).
struct AllowanceFacts {
  int processors = 0;
  int affinity = 0;
  std::string quota_group;
  std::uint64_t memory = 0;  ///< 0: not known
  std::string memory_group;
};

struct GpuFacts {
  int on_bus = 0;           ///< NVIDIA's devices on the PCI bus
  int count = 0;            ///< those that the driver lists
  std::string driver;       ///< its version
  std::string cuda;         ///< the newest CUDA that it serves: "12.4"
  std::string error;        ///< why the driver was not asked
  bool infiniband = false;  ///< whether the host has adapters for RDMA
};

/// A library that plug-ins of the SDK would load; its version is empty where there is none.
struct LibraryFacts {
  std::string version;
  std::string cuda;  ///< the CUDA that it was made for: "13.0"; empty: not known
  std::string path;
};

/// What of ours is left from earlier jobs, and what ends processes behind our back.
struct KeepingFacts {
  std::vector<std::string> old_folders;  ///< of jobs that are over, at most kOldFoldersMax
  std::string folder_trouble;            ///< why they could not be looked at
  std::string kill_user_processes;       ///< logind's setting: "yes", "no"; empty: none is written
  bool lingers = false;                  ///< whether the user's processes outlive the last session
};

inline constexpr std::size_t kOldFoldersMax = 16;

struct HostFacts {
  std::string host;
  std::string version;  ///< of muster
  bool is_root = false;
  PythonFacts python;
  NetworkFacts network;
  std::vector<FolderFacts> folders;
  LimitFacts open_files;
  LimitFacts locked_memory;
  LimitFacts processes;
  AllowanceFacts allowance;
  int ptrace_scope = -1;  ///< of Yama; -1: the kernel has none
  GpuFacts gpu;
  LibraryFacts found_nccl;   ///< where torch has no package of it
  LibraryFacts found_cudnn;  ///< where there are GPUs
  KeepingFacts keeping;
};

/// The text after the last "KillUserProcesses=" of logind's configuration files, the main file first: "yes"
/// or "no", as systemd reads booleans; empty if none says so.
std::string kill_user_processes_of(const std::vector<std::string>& files);

}  // namespace muster::launcher
