// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/core/thread_walk.hpp"

#include <algorithm>
#include <set>

namespace muster::agent {
namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);
/// Most bytes of a chunk that are copied; CPython makes chunks of 16 KiB, and larger ones for huge frames.
/// Frames beyond them are read one by one.
constexpr std::uint64_t kChunkBytesMax = 256 << 10;
/// Most frames of a walk, those that mark calls from C included.
constexpr std::size_t kFramesWalkedMax = 4 * kThreadFramesMax;

}  // namespace

ThreadWalk::ThreadWalk(MemoryReader& memory, const PythonLayout& layout)
    : memory_(memory),
      layout_(layout),
      frame_bytes_(std::max<std::size_t>({layout.frame_previous, layout.frame_code, layout.frame_instruction,
                                          layout.frame_owner}) +
                   kWord),
      state_(std::max<std::size_t>({layout.thread_next, layout.thread_interpreter, layout.thread_id,
                                    layout.thread_native_id, layout.thread_frame, layout.thread_chunk}) +
             kWord),
      frame_(frame_bytes_) {}

std::optional<RawThread> ThreadWalk::read(std::uint64_t address) {
  std::optional<RawThread> thread;
  for (int i = 0; i < kTries && !memory_.expired(); ++i) {
    if (!copy(address)) continue;
    const Walk first = walk();
    if (!copy(address)) continue;
    Walk second = walk();
    thread = described();
    thread->approximate = !same_calls(first, second);
    thread->truncated = second.truncated;
    thread->frames = std::move(second.frames);
    if (!thread->approximate) return thread;
  }
  if (!thread && memory_.read(address, state_.data(), state_.size())) {
    thread = described();
    thread->approximate = true;
  }
  return thread;
}

/// Returns what the copy says of the thread itself.
RawThread ThreadWalk::described() const {
  RawThread thread;
  thread.next = value_at(state_, layout_.thread_next);
  thread.interpreter = value_at(state_, layout_.thread_interpreter);
  thread.pthread = value_at(state_, layout_.thread_id);
  if (layout_.thread_native_id != 0) thread.native_id = value_at(state_, layout_.thread_native_id);
  return thread;
}

/// Copies the thread's state, what its newest frames are in, and once more which frame is the newest. Returns
/// false if the thread has gone on meanwhile, or something cannot be read.
bool ThreadWalk::copy(std::uint64_t address) {
  if (!locate(address)) return false;
  const std::uint64_t cframe = layout_.has_cframe() ? value_at(state_, layout_.thread_frame) : 0;
  std::uint64_t newest = 0;
  MemoryPart parts[4] = {{address, state_.data(), state_.size()}};
  std::size_t count = 1;
  if (cframe != 0) parts[count++] = {cframe, cframe_.data(), cframe_.size()};
  if (!chunk_.empty()) parts[count++] = {chunk_at_, chunk_.data(), chunk_.size()};
  if (!layout_.has_cframe())
    parts[count++] = {address + layout_.thread_frame, &newest, sizeof newest};
  else if (cframe != 0)
    parts[count++] = {cframe + layout_.cframe_frame, &newest, sizeof newest};
  if (!memory_.read_parts({parts, count})) return false;
  const bool same_cframe = !layout_.has_cframe() || value_at(state_, layout_.thread_frame) == cframe;
  const bool same_chunk = !layout_.has_chunks() || value_at(state_, layout_.thread_chunk) == chunk_at_;
  return same_cframe && same_chunk && first_frame() == newest;
}

/// Finds out where the thread's newest frames are, and makes room for them.
bool ThreadWalk::locate(std::uint64_t address) {
  chunk_at_ = 0;
  chunk_.clear();
  cframe_ = {};
  if (!memory_.read(address, state_.data(), state_.size())) return false;
  if (!layout_.has_chunks()) return true;
  std::uint64_t size = 0;
  MemoryPart parts[2];
  std::size_t count = 0;
  const std::uint64_t cframe = layout_.has_cframe() ? value_at(state_, layout_.thread_frame) : 0;
  if (cframe != 0) parts[count++] = {cframe, cframe_.data(), cframe_.size()};
  chunk_at_ = value_at(state_, layout_.thread_chunk);
  if (chunk_at_ != 0) parts[count++] = {chunk_at_ + kWord, &size, sizeof size};
  if (!memory_.read_parts({parts, count})) return false;
  if (chunk_at_ == 0) return true;
  // What lies behind the newest frame is of no use, and the copy that takes less time is torn less often.
  const std::uint64_t offset = first_frame() - chunk_at_;
  const bool within = size >= frame_bytes_ && offset <= size - frame_bytes_;
  chunk_.resize(std::min(within ? offset + frame_bytes_ : size, kChunkBytesMax));
  return true;
}

std::uint64_t ThreadWalk::first_frame() const {
  return layout_.has_cframe() ? value_at(cframe_, layout_.cframe_frame)
                              : value_at(state_, layout_.thread_frame);
}

std::span<const std::byte> ThreadWalk::frame_at(std::uint64_t address) {
  if (address >= chunk_at_ && address - chunk_at_ < chunk_.size() &&
      chunk_.size() - (address - chunk_at_) >= frame_bytes_)
    return std::span(chunk_).subspan(address - chunk_at_, frame_bytes_);
  if (!memory_.read(address, frame_.data(), frame_.size())) return {};
  return frame_;
}

ThreadWalk::Walk ThreadWalk::walk() {
  Walk walk;
  std::set<std::uint64_t> seen;
  for (std::uint64_t at = first_frame(); at != 0;) {
    const bool again = !seen.insert(at).second;
    const bool bad = again || at % kWord != 0 || seen.size() > kFramesWalkedMax || memory_.expired();
    const std::span<const std::byte> bytes = bad ? std::span<const std::byte>() : frame_at(at);
    walk.broken = bytes.empty();
    if (walk.broken) break;
    if (!layout_.is_shim(value_at<std::uint8_t>(bytes, layout_.frame_owner))) {
      walk.truncated = walk.frames.size() == kThreadFramesMax;
      if (walk.truncated) break;
      const std::uint64_t instruction = layout_.code_instructions == 0
                                            ? value_at<std::uint32_t>(bytes, layout_.frame_instruction)
                                            : value_at(bytes, layout_.frame_instruction);
      // The lowest bits of a reference of 3.14 say how it is counted.
      constexpr std::uint64_t kTags = 7;
      walk.frames.push_back({at, value_at(bytes, layout_.frame_code) & ~kTags, instruction});
    }
    at = value_at(bytes, layout_.frame_previous);
  }
  return walk;
}

/// A thread that runs within one call is at another instruction each time; what called it stands still.
bool ThreadWalk::same_calls(const Walk& one, const Walk& other) {
  if (one.broken || other.broken || one.frames.size() != other.frames.size()) return false;
  for (std::size_t i = 0; i < one.frames.size(); ++i) {
    const RawFrame& a = one.frames[i];
    const RawFrame& b = other.frames[i];
    if (a.address != b.address || a.code != b.code || (i > 0 && a.instruction != b.instruction)) return false;
  }
  return true;
}

}  // namespace muster::agent
