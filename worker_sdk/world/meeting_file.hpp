// SPDX-License-Identifier: Apache-2.0
// The file through which rank 0 tells the others where its store is.
#pragma once

#include "worker_sdk/world/process_identity.hpp"

#include <optional>
#include <string>

namespace muster {

/// The contents of the file.
struct MeetingNote {
  std::string host;  ///< the host of the store
  int port = 0;
  ProcessIdentity writer;

  std::string to_text() const;
  static std::optional<MeetingNote> from_text(const std::string& text);
};

/// Writes the file, on rank 0. The file has mode 0600, appears with its whole text at once, and is removed at
/// the end.
class MeetingFile {
 public:
  /// Writes the file, and replaces an empty one or one whose writer has died. Throws Error (invalid_argument)
  /// when the file is in use by a living process or was not written by this SDK, io when it cannot be
  /// written.
  MeetingFile(std::string path, const MeetingNote& note);
  /// Removes the file if it still has the text that was written.
  ~MeetingFile();
  MeetingFile(const MeetingFile&) = delete;
  MeetingFile& operator=(const MeetingFile&) = delete;

 private:
  std::string path_;
  std::string text_;
};

/// Reads the file at `path`; nullopt when it is missing or empty. Throws Error (invalid_argument) when it
/// does not belong to this user alone or was not written by this SDK; io when it cannot be read.
std::optional<MeetingNote> read_meeting_file(const std::string& path);

}  // namespace muster
