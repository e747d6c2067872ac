// SPDX-License-Identifier: Apache-2.0
// Scalars in TensorBoard's event files: TFRecord frames (length, masked CRC-32C of the length, data, masked
// CRC-32C of the data) around Event messages of protocol buffers (event.proto and summary.proto of
// TensorFlow).
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

namespace muster::train {

/// CRC-32C (Castagnoli, reflected polynomial 0x82F63B78), as RFC 3720 section 12.1 defines it.
std::uint32_t crc32c(std::string_view bytes);

/// The bytes of a frame around `data`.
std::string record_frame(std::string_view data);
/// An Event that says the version of the file: the first of each.
std::string version_event(double seconds);
/// An Event with one scalar. `seconds` since 1970.
std::string scalar_event(double seconds, std::int64_t step, std::string_view tag, float value);

/// Writes one file into a folder, which may hold those of other runs. One thread.
class EventFile {
 public:
  /// Makes `folder` where it is missing, and the file in it, named as TensorBoard looks for it:
  /// events.out.tfevents.SECONDS.HOST.PID. Throws Error (io) that names it.
  explicit EventFile(const std::string& folder);

  void add(std::string_view tag, std::int64_t step, float value);
  /// Writes out what was added, so that readers see it. Returns false when that failed (a full disk).
  bool flush();

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::ofstream file_;
};

}  // namespace muster::train
