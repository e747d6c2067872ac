// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/munge/munge.hpp"

#include "rendezvous/tls/secret.hpp"

#include <dlfcn.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>

namespace muster::rendezvous {
namespace {

constexpr const char* kLibrary = "libmunge.so.2";
/// Constants of munge's public header.
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

  /// Stays loaded as long as the process.
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
  // It carries a key: whatever the daemon does by default, it is to be enciphered.
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
  // munge also hands out what it has found to be expired or read before.
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

}  // namespace muster::rendezvous
