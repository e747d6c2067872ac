// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/tls/secret.hpp"

#include "rendezvous/base/random.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace muster::rendezvous {
namespace {

constexpr std::string_view kDigits = "0123456789abcdef";

int digit_value(char character) {
  if (character >= '0' && character <= '9') return character - '0';
  if (character >= 'a' && character <= 'f') return character - 'a' + 10;
  if (character >= 'A' && character <= 'F') return character - 'A' + 10;
  return -1;
}

}  // namespace

void cleanse(void* memory, std::size_t size) {
  ::explicit_bzero(memory, size);
}

Secret Secret::random() {
  Secret secret;
  fill_random(secret.place_, kBytes);
  return secret;
}

Secret Secret::from_bytes(std::string_view bytes) {
  if (bytes.size() != kBytes)
    throw std::invalid_argument("a key has " + std::to_string(kBytes) + " bytes, not " +
                                std::to_string(bytes.size()));
  Secret secret;
  std::copy(bytes.begin(), bytes.end(), secret.place_);
  return secret;
}

Secret Secret::from_hex(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  if (text.size() != 2 * kBytes)
    throw std::invalid_argument("a key is written as " + std::to_string(2 * kBytes) +
                                " hexadecimal digits on one line; this has " + std::to_string(text.size()) +
                                " characters");
  Secret secret;
  for (std::size_t i = 0; i < kBytes; ++i) {
    const int high = digit_value(text[2 * i]);
    const int low = digit_value(text[2 * i + 1]);
    if (high < 0 || low < 0)
      throw std::invalid_argument("a key is written as hexadecimal digits; character " +
                                  std::to_string(2 * i + (high < 0 ? 1 : 2)) + " is none");
    secret.place_[i] = static_cast<unsigned char>(high * 16 + low);
  }
  return secret;
}

Secret::Secret(Secret&& other) noexcept : place_(std::exchange(other.place_, nullptr)) {}

Secret& Secret::operator=(Secret&& other) noexcept {
  if (this != &other) {
    give_back_secret_place(place_);
    place_ = std::exchange(other.place_, nullptr);
  }
  return *this;
}

Secret::~Secret() {
  give_back_secret_place(place_);
}

Secret Secret::copy() const {
  Secret secret;
  std::ranges::copy(bytes(), secret.place_);
  return secret;
}

std::span<const unsigned char, Secret::kBytes> Secret::bytes() const {
  static constexpr std::array<unsigned char, kBytes> kNone{};
  if (place_ == nullptr) return kNone;
  return std::span<const unsigned char, kBytes>(place_, kBytes);
}

std::string Secret::hex() const {
  std::string text;
  text.reserve(2 * kBytes);
  for (const unsigned char byte : bytes()) {
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 0x0fU];
  }
  return text;
}

}  // namespace muster::rendezvous
