// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/tls/secret_memory.hpp"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <mutex>
#include <new>
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
    free_.push_back(place);  // there is room: each place was in it once
  }

  void wipe_except(const unsigned char* keep) noexcept {
    const std::scoped_lock lock(mutex_);
    for (unsigned char* const page : pages_)
      for (std::size_t at = 0; at + kSecretBytes <= page_bytes_; at += kSecretBytes)
        if (page + at != keep) ::explicit_bzero(page + at, kSecretBytes);
  }

  /// The limit on locked memory may be 0: then a key may be swapped out, as everything else may.
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

/// Never destroyed: a key may live until the very end of the process.
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
  // A core that is piped to a program ignores the limit; programs like systemd-coredump look at it.
  ::prctl(PR_SET_DUMPABLE, files == ProcessFiles::closed ? 0 : 1, 0, 0, 0);
  rlimit limit{};
  if (::getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_cur != 0) {
    limit.rlim_cur = 0;
    ::setrlimit(RLIMIT_CORE, &limit);
  }
  places().lock_pages();
}

}  // namespace muster::rendezvous
