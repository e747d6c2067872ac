// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/tls/secret.hpp"

#include "rendezvous/base/random.hpp"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

namespace muster::rendezvous {
namespace {

class Places {
 public:
  unsigned char* take() {
    const std::scoped_lock lock(mutex_);
    if (free_.empty()) add_page();
    unsigned char* const place = free_.back();
    free_.pop_back();
    return place;
  }

  void give_back(unsigned char* place) noexcept {
    const std::scoped_lock lock(mutex_);
    free_.push_back(place);  // there is room, because each place was in the list once
  }

  void wipe_except(const unsigned char* keep) noexcept {
    const std::scoped_lock lock(mutex_);
    for (unsigned char* const page : pages_)
      for (std::size_t at = 0; at + kSecretBytes <= page_bytes_; at += kSecretBytes)
        if (page + at != keep) ::explicit_bzero(page + at, kSecretBytes);
  }

  /// Locks the pages in memory. The limit on locked memory may be 0; then a key may be swapped out like other
  /// data.
  void lock_pages() {
    const std::scoped_lock lock(mutex_);
    for (unsigned char* const page : pages_) (void)::mlock(page, page_bytes_);
  }

 private:
  void add_page() {
    const std::size_t places = page_bytes_ / kSecretBytes;
    pages_.reserve(pages_.size() + 1);
    free_.reserve((pages_.size() + 1) * places);
    void* const memory =
        ::mmap(nullptr, page_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    (void)::madvise(memory, page_bytes_, MADV_DONTDUMP);
    (void)::mlock(memory, page_bytes_);
    auto* const page = static_cast<unsigned char*>(memory);
    pages_.push_back(page);
    for (std::size_t i = places; i > 0; --i) free_.push_back(page + (i - 1) * kSecretBytes);
  }

  const std::size_t page_bytes_ = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::mutex mutex_;
  std::vector<unsigned char*> pages_;
  std::vector<unsigned char*> free_;
};

/// All places of the process. They are never destroyed, because a key may live until the very end of the
/// process.
Places& places() {
  static Places& all = *new Places;
  return all;
}

}  // namespace

unsigned char* take_secret_place() {
  return places().take();
}

void give_back_secret_place(unsigned char* place) noexcept {
  if (place == nullptr) return;
  ::explicit_bzero(place, kSecretBytes);
  places().give_back(place);
}

void forget_secrets_except(const unsigned char* keep) noexcept {
  places().wipe_except(keep);
}

void guard_process(ProcessFiles files) {
  // A core that is piped to a program is not bound by the limit, but programs like systemd-coredump respect
  // it.
  ::prctl(PR_SET_DUMPABLE, files == ProcessFiles::closed ? 0 : 1, 0, 0, 0);
  rlimit limit{};
  if (::getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_cur != 0) {
    limit.rlim_cur = 0;
    ::setrlimit(RLIMIT_CORE, &limit);
  }
  places().lock_pages();
}

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
