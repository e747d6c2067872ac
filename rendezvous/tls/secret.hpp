// SPDX-License-Identifier: Apache-2.0
// 256 bits that must not be seen. Needs no OpenSSL.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace muster::rendezvous {

/// Bytes of each place.
inline constexpr std::size_t kSecretBytes = 32;

/// A zeroed place in memory that is left out of core dumps and, where `ulimit -l` allows it, never written to
/// swap. Throws std::bad_alloc. Any thread.
unsigned char* take_secret_place();
/// Overwrites and takes back such a place; null is allowed.
void give_back_secret_place(unsigned char* place) noexcept;
/// Overwrites all places but `keep`, which may be null. For a forked process, whose keys are copies: whatever
/// the process that forked it still has in use, this one is to have one of them at most.
void forget_secrets_except(const unsigned char* keep) noexcept;

enum class ProcessFiles {
  closed,
  /// Other processes of this user open files of ours through /proc/<pid>/fd: the kernel ties that to the
  /// permission to read our memory, so only core dumps can be forbidden.
  shared,
};

/// Makes this process one that leaves no core dump and, with `closed`, whose memory and environment no other
/// process of this user can read. For each process that holds keys, a forked one too, since locked memory is
/// not inherited.
void guard_process(ProcessFiles files);

/// Overwrites memory in a way that the compiler keeps.
void cleanse(void* memory, std::size_t size);

/// A job secret or a key derived from it. It cannot be printed or compared by accident, its memory is a
/// place of take_secret_place(), and overwritten when it goes. Copies are made only by copy().
class Secret {
 public:
  static constexpr std::size_t kBytes = kSecretBytes;

  /// A new one from the kernel's generator. Throws std::runtime_error if there is none.
  static Secret random();
  /// Exactly 32 bytes; throws std::invalid_argument for another number, without quoting them.
  static Secret from_bytes(std::string_view bytes);
  /// 64 hexadecimal digits, a line end after them is allowed (the format of a key file). Throws
  /// std::invalid_argument, without quoting them.
  static Secret from_hex(std::string_view text);

  Secret(Secret&& other) noexcept;
  Secret& operator=(Secret&& other) noexcept;
  Secret(const Secret&) = delete;
  Secret& operator=(const Secret&) = delete;
  ~Secret();

  Secret copy() const;

  /// The bytes, for a cipher or for the frame in which they travel over an authenticated channel, and for
  /// nothing else.
  std::span<const unsigned char, kBytes> bytes() const;

  /// The text for a key file of mode 0600; the caller cleanses it.
  std::string hex() const;

 private:
  Secret() : place_(take_secret_place()) {}

  /// Null once it has moved away: all bytes are zero then.
  unsigned char* place_;
};

}  // namespace muster::rendezvous
