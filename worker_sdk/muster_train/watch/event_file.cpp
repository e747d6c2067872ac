// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/muster_train/watch/event_file.hpp"

#include "muster/error.hpp"
#include "rendezvous/base/posix.hpp"

#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

namespace muster::train {
namespace {

template <typename Number>
void append_little_endian(std::string& bytes, Number number) {
  for (std::size_t i = 0; i < sizeof number; ++i) bytes += static_cast<char>((number >> (8 * i)) & 0xFFU);
}

/// TensorFlow's: a CRC of data that holds CRCs would be weak, so they are rotated and moved.
std::uint32_t masked(std::uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U;
}

// Protocol buffers: a key is (field << 3) | wire type; 0 varint, 1 eight bytes, 2 length and bytes, 5 four
// bytes.
void append_varint(std::string& bytes, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7F) | 0x80);
  bytes += static_cast<char>(value);
}

void append_key(std::string& bytes, unsigned field, unsigned wire_type) {
  append_varint(bytes, (field << 3) | wire_type);
}

void append_bytes(std::string& bytes, unsigned field, std::string_view content) {
  append_key(bytes, field, 2);
  append_varint(bytes, content.size());
  bytes += content;
}

std::string event_at(double seconds) {
  std::string event;
  append_key(event, 1, 1);  // Event.wall_time
  append_little_endian(event, std::bit_cast<std::uint64_t>(seconds));
  return event;
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string file_name() {
  return "events.out.tfevents." + std::to_string(static_cast<std::int64_t>(now())) + "." + host_name() + "." +
         std::to_string(getpid());
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr auto kTable = [] {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1U) != 0 ? 0x82F63B78U : 0U);
      table[i] = value;
    }
    return table;
  }();
  std::uint32_t crc = ~0U;
  for (const char byte : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFFU];
  return ~crc;
}

std::string record_frame(std::string_view data) {
  std::string frame;
  append_little_endian(frame, std::uint64_t{data.size()});
  append_little_endian(frame, masked(crc32c(frame)));
  frame += data;
  append_little_endian(frame, masked(crc32c(data)));
  return frame;
}

std::string version_event(double seconds) {
  std::string event = event_at(seconds);
  append_bytes(event, 3, "brain.Event:2");  // Event.file_version
  return event;
}

std::string scalar_event(double seconds, std::int64_t step, std::string_view tag, float value) {
  std::string item;
  append_bytes(item, 1, tag);  // Summary.Value.tag
  append_key(item, 2, 5);      // Summary.Value.simple_value
  append_little_endian(item, std::bit_cast<std::uint32_t>(value));
  std::string summary;
  append_bytes(summary, 1, item);  // Summary.value
  std::string event = event_at(seconds);
  append_key(event, 2, 0);  // Event.step
  append_varint(event, static_cast<std::uint64_t>(step));
  append_bytes(event, 5, summary);  // Event.summary
  return event;
}

EventFile::EventFile(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  path_ = folder + "/" + file_name();
  file_.open(path_, std::ios::binary | std::ios::trunc);
  file_ << record_frame(version_event(now())) << std::flush;
  if (!file_)
    throw Error(ErrorCode::io, "cannot write TensorBoard's events to " + path_ + ": " +
                                   (error ? error.message() : std::strerror(errno)) +
                                   "; give another folder with --tensorboard");
}

void EventFile::add(std::string_view tag, std::int64_t step, float value) {
  file_ << record_frame(scalar_event(now(), step, tag, value));
}

bool EventFile::flush() {
  return static_cast<bool>(file_.flush());
}

}  // namespace muster::train
