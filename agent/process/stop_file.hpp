// SPDX-License-Identifier: Apache-2.0
// The file by whose appearance programs learn that they are to end (MUSTER_STOP_FILE).
#pragma once

#include <cstddef>
#include <string>

namespace muster::agent {

/// Returns a name for the folder of this process, an agent, in TMPDIR or /tmp: nobody can guess it, and it
/// tells others on this host whether the process still lives. Throws as random_number() does.
std::string new_stop_folder();

/// Removes the folders of agents of this user that were killed, as far as they are in TMPDIR or /tmp and of
/// this boot and PID namespace: of others nothing is known. Returns how many those were. Reads the names in
/// that directory.
std::size_t remove_left_stop_folders();

/// One node's file, in a folder of its own that goes with this object. One thread.
class StopFile {
 public:
  StopFile() = default;
  ~StopFile();
  StopFile(const StopFile&) = delete;
  StopFile& operator=(const StopFile&) = delete;

  /// Makes the folder, which is not there yet, for this user alone. Where that cannot be done the log says
  /// why (level info), path() stays empty, and no file ever appears. Called once.
  void make(std::string folder);

  /// The value of MUSTER_STOP_FILE; empty: there can be no file.
  const std::string& path() const { return path_; }

  /// The folder, which may hold other things of a job that end with it: sockets and pipes; empty as path().
  const std::string& folder() const { return folder_; }

  /// Makes the file appear with this text at once; nothing happens if it is there, or the text is empty. On a
  /// full disk the file is empty: that it is there is what counts.
  void appear(const std::string& text);

  /// Removes the file for the next round.
  void vanish();

 private:
  std::string folder_;
  std::string path_;
  bool there_ = false;
};

}  // namespace muster::agent
