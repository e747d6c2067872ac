// SPDX-License-Identifier: Apache-2.0
// 256 bits that must not be seen. Needs no OpenSSL.
#pragma once

#include "rendezvous/tls/secret_memory.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace muster::rendezvous {

/// Overwrites memory in a way that the compiler keeps.
void cleanse(void* memory, std::size_t size);

/// A job secret or a key derived from it. It cannot be printed or compared by accident, its memory is that of
/// secret_memory.hpp, and overwritten when it goes. Copies are made only by copy().
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
