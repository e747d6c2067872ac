// SPDX-License-Identifier: Apache-2.0
// Holds 256-bit secrets so that they do not leak from memory. Needs no OpenSSL.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace muster::rendezvous {

/// Bytes of a secret and of the place that holds it.
inline constexpr std::size_t kSecretBytes = 32;

/// A zeroed place in memory that is left out of core dumps and, where `ulimit -l` allows it, never written to
/// swap. Throws std::bad_alloc. Any thread.
unsigned char* take_secret_place();
/// Overwrites a place of take_secret_place() and takes it back; null is allowed.
void give_back_secret_place(unsigned char* place) noexcept;
/// Overwrites all places but `keep`, which may be null. For a forked process, whose keys are copies: it is to
/// have one of them at most, whatever keys its parent still uses.
void forget_secrets_except(const unsigned char* keep) noexcept;

enum class ProcessFiles {
  closed,
  /// Other processes of this user open files of ours through /proc/<pid>/fd. The kernel ties that to the
  /// permission to read our memory, so only core dumps can be forbidden.
  shared,
};

/// Makes this process leave no core dump and, with `closed`, hides its memory and environment from other
/// processes of this user. Every process that holds keys calls this, even a forked one, since locked memory
/// is not inherited.
void guard_process(ProcessFiles files);

/// Overwrites memory in a way that the compiler does not remove.
void cleanse(void* memory, std::size_t size);

/// A job secret or a key derived from it. It cannot be printed or compared by accident; its memory is a place
/// of take_secret_place(), and is overwritten at the end. Copies are made only by copy().
class Secret {
 public:
  static constexpr std::size_t kBytes = kSecretBytes;

  /// A new secret from the kernel's generator. Throws std::runtime_error if there is no generator.
  static Secret random();
  /// A secret of exactly 32 bytes; throws std::invalid_argument for another number, without quoting the
  /// bytes.
  static Secret from_bytes(std::string_view bytes);
  /// A secret from 64 hexadecimal digits; a line end after them is allowed (the format of a key file). Throws
  /// std::invalid_argument, without quoting the text.
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

  /// The text for a key file of mode 0600; the caller cleanses the text.
  std::string hex() const;

 private:
  Secret() : place_(take_secret_place()) {}

  /// The memory of the secret; null once it has been moved away, and then all bytes read as zero.
  unsigned char* place_;
};

}  // namespace muster::rendezvous
