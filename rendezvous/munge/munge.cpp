// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/munge/munge.hpp"

#include "rendezvous/tls/secret.hpp"

#include <dlfcn.h>
#include <sys/types.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <thread>
#include <utility>

namespace muster::rendezvous {
namespace {

constexpr const char* kLibrary = "libmunge.so.2";
/// The constants of munge's public header, which is not needed to build.
constexpr int kSuccess = 0;
constexpr int kUidRestriction = 9;
constexpr int kCipher = 0;
constexpr int kAes128 = 4;

}  // namespace

struct Munge::Library {
  using Context = struct munge_ctx*;

  Context (*create)() = nullptr;
  void (*destroy)(Context) = nullptr;
  int (*set)(Context, int, ...) = nullptr;
  int (*encode)(char**, Context, const void*, int) = nullptr;
  int (*decode)(const char*, Context, void**, int*, uid_t*, gid_t*) = nullptr;
  const char* (*text)(int) = nullptr;
  bool complete = false;

  Library() {
    void* handle = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return;
    complete = load(handle, "munge_ctx_create", create) && load(handle, "munge_ctx_destroy", destroy) &&
               load(handle, "munge_ctx_set", set) && load(handle, "munge_encode", encode) &&
               load(handle, "munge_decode", decode) && load(handle, "munge_strerror", text);
  }

  template <typename Function>
  static bool load(void* handle, const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(handle, name));
    return function != nullptr;
  }

  /// The library; it stays loaded as long as the process lives.
  static const Library& get() {
    static const Library kLoaded;
    return kLoaded;
  }
};

std::optional<Munge> Munge::load(std::string& reason) {
  const Library& library = Library::get();
  if (!library.complete) {
    reason = std::string(kLibrary) + " is not installed";
    return std::nullopt;
  }
  const Munge munge(library);
  try {
    (void)munge.encode("");
  } catch (const std::exception& error) {
    reason = error.what();
    return std::nullopt;
  }
  return munge;
}

std::string Munge::encode(std::string_view text) const {
  const std::unique_ptr<struct munge_ctx, void (*)(Library::Context)> context(library_->create(),
                                                                              library_->destroy);
  if (!context) throw std::bad_alloc();
  char* credential = nullptr;
  int error = library_->set(context.get(), kUidRestriction, ::geteuid());
  // The credential carries a key, so it is to be enciphered whatever the daemon does by default.
  if (error == kSuccess) error = library_->set(context.get(), kCipher, kAes128);
  if (error == kSuccess)
    error = library_->encode(&credential, context.get(), text.data(), static_cast<int>(text.size()));
  const std::unique_ptr<char, void (*)(void*)> owner(credential, &std::free);
  if (error != kSuccess)
    throw std::runtime_error(std::string("munge gives no credential: ") + library_->text(error));
  return credential;
}

std::optional<std::string> Munge::decode(const std::string& credential, std::string& reason) const {
  void* data = nullptr;
  int size = 0;
  uid_t user = 0;
  gid_t group = 0;
  const int error = library_->decode(credential.c_str(), nullptr, &data, &size, &user, &group);
  // munge also returns the text of a credential that it has found expired or read before.
  const std::unique_ptr<void, void (*)(void*)> owner(data, &std::free);
  std::optional<std::string> text;
  if (error != kSuccess)
    reason = std::string("munge: ") + library_->text(error);
  else if (user != ::geteuid())
    reason = "munge: written by user " + std::to_string(user);
  else
    text.emplace(static_cast<const char*>(data), static_cast<std::size_t>(size));
  if (data != nullptr) cleanse(data, static_cast<std::size_t>(size));
  return text;
}

namespace {

constexpr std::string_view kMark = "m1/";
constexpr std::size_t kDigits = 2 * Secret::kBytes;

}  // namespace

std::string munge_identity(const Munge& munge, const PeerIdentity& peer, const Secret& key) {
  std::string digits = key.hex();
  std::string text;
  text.reserve(digits.size() + peer.text().size());
  text += digits;
  cleanse(digits.data(), digits.size());
  text += peer.text();
  std::string identity;
  try {
    identity = std::string(kMark) + munge.encode(text);
  } catch (...) {
    cleanse(text.data(), text.size());
    throw;
  }
  cleanse(text.data(), text.size());
  return identity;
}

bool is_munge_identity(std::string_view identity) {
  return identity.starts_with(kMark) && identity.size() <= kMaxIdentityBytes;
}

std::optional<ProvenClient> client_in_credential(std::string_view text) {
  if (text.size() < kDigits) return std::nullopt;
  auto peer = PeerIdentity::parse(text.substr(kDigits));
  if (!peer) return std::nullopt;
  try {
    return ProvenClient{std::move(*peer), Secret::from_hex(text.substr(0, kDigits))};
  } catch (const std::invalid_argument&) {
    return std::nullopt;  // not written by us
  }
}

std::optional<ProvenClient> read_munge_identity(const Munge& munge, std::string_view identity,
                                                std::string& reason) {
  if (!is_munge_identity(identity)) return std::nullopt;
  auto text = munge.decode(std::string(identity.substr(kMark.size())), reason);
  if (!text) return std::nullopt;
  std::optional<ProvenClient> client = client_in_credential(*text);
  if (!client) reason = "munge: a credential for something else";
  cleanse(text->data(), text->size());
  return client;
}

struct CredentialReader::Attempt {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::optional<ProvenClient> client;
  std::string reason;

  bool is_done() {
    const std::lock_guard lock(mutex);
    return done;
  }
};

bool CredentialReader::may_read(const std::string& address, TimePoint now, std::string& reason) {
  if (now - second_ >= std::chrono::seconds(1)) {
    second_ = now;
    bad_ = 0;
    bad_of_.clear();
  }
  if (unanswered_ && unanswered_->is_done()) unanswered_.reset();
  const auto found = bad_of_.find(address);
  if (unanswered_)
    reason = "munge: its daemon on this host has not answered for an earlier credential";
  else if (bad_ >= limits_.of_all || (found != bad_of_.end() && found->second >= limits_.of_address))
    reason = "munge: too many bad credentials within a second";
  else
    return true;
  return false;
}

std::optional<ProvenClient> CredentialReader::read(std::string_view identity, const std::string& address,
                                                   TimePoint now, std::string& reason) {
  if (!may_read(address, now, reason)) return std::nullopt;
  const auto attempt = std::make_shared<Attempt>();
  // munge's library knows no deadline, so a thread of its own waits for it.
  std::thread([attempt, read = read_, text = std::string(identity)] {
    std::string why;
    std::optional<ProvenClient> client = read(text, why);
    const std::lock_guard lock(attempt->mutex);
    attempt->client = std::move(client);
    attempt->reason = std::move(why);
    attempt->done = true;
    attempt->changed.notify_all();
  }).detach();
  std::unique_lock lock(attempt->mutex);
  if (!attempt->changed.wait_for(lock, limits_.wait, [&] { return attempt->done; })) {
    unanswered_ = attempt;
    reason = "munge: its daemon on this host does not answer; is munged overloaded or stopped?";
    return std::nullopt;
  }
  std::optional<ProvenClient> client = std::move(attempt->client);
  reason = attempt->reason;
  if (!client) {
    ++bad_;
    ++bad_of_[address];
  }
  return client;
}

}  // namespace muster::rendezvous
