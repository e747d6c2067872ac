// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/tls/peer_identity.hpp"

#include <openssl/core_names.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <array>
#include <charconv>
#include <memory>
#include <stdexcept>
#include <vector>

namespace muster::rendezvous {
namespace {

constexpr std::string_view kVersion = "v1";
constexpr std::string_view kHexDigits = "0123456789ABCDEF";

bool is_plain(char character) {
  return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
         (character >= '0' && character <= '9') || character == '-' || character == '.' || character == '_' ||
         character == '~';
}

std::string escape(std::string_view part) {
  std::string text;
  for (const char character : part) {
    if (is_plain(character)) {
      text += character;
      continue;
    }
    const auto byte = static_cast<unsigned char>(character);
    text += '%';
    text += kHexDigits[byte >> 4U];
    text += kHexDigits[byte & 0x0fU];
  }
  return text;
}

/// Decodes a part. Nothing for a text that escape() does not give, so that no two texts mean the same client.
std::optional<std::string> unescape(std::string_view text) {
  std::string part;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (is_plain(text[i])) {
      part += text[i];
      continue;
    }
    if (text[i] != '%' || i + 2 >= text.size()) return std::nullopt;
    const std::size_t high = kHexDigits.find(text[i + 1]);
    const std::size_t low = kHexDigits.find(text[i + 2]);
    if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
    const auto character = static_cast<char>(high * 16 + low);
    if (is_plain(character)) return std::nullopt;
    part += character;
    i += 2;
  }
  return part;
}

std::string_view role_word(PeerIdentity::Role role) {
  if (role == PeerIdentity::Role::agent) return "agent";
  return role == PeerIdentity::Role::launcher ? "launcher" : "observer";
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t slash = text.find('/');
    parts.push_back(text.substr(0, slash));
    if (slash == std::string_view::npos) return parts;
    text.remove_prefix(slash + 1);
  }
}

}  // namespace

std::string PeerIdentity::text() const {
  std::string text(kVersion);
  text.append("/").append(role_word(role)).append("/").append(escape(job)).append("/").append(escape(node));
  return text + "/" + std::to_string(incarnation);
}

std::optional<PeerIdentity> PeerIdentity::parse(std::string_view text) {
  if (text.size() > kMaxIdentityBytes) return std::nullopt;
  const std::vector<std::string_view> parts = split(text);
  if (parts.size() != 5 || parts[0] != kVersion) return std::nullopt;
  PeerIdentity identity;
  for (const Role role : {Role::launcher, Role::observer})
    if (parts[1] == role_word(role)) identity.role = role;
  const auto job = unescape(parts[2]);
  const auto node = unescape(parts[3]);
  if (!job || !node) return std::nullopt;
  identity.job = *job;
  identity.node = *node;
  const std::string_view number = parts[4];
  const auto result = std::from_chars(number.data(), number.data() + number.size(), identity.incarnation);
  if (result.ec != std::errc{} || identity.text() != text) return std::nullopt;
  return identity;
}

Secret derive_key(const Secret& job_secret, const PeerIdentity& identity) {
  const std::unique_ptr<EVP_KDF, decltype(&EVP_KDF_free)> kdf(EVP_KDF_fetch(nullptr, "HKDF", nullptr),
                                                              &EVP_KDF_free);
  const std::unique_ptr<EVP_KDF_CTX, decltype(&EVP_KDF_CTX_free)> context(EVP_KDF_CTX_new(kdf.get()),
                                                                          &EVP_KDF_CTX_free);
  std::string info = identity.text();
  std::string digest = "SHA256";
  Secret input = job_secret.copy();
  // OpenSSL's parameters are not const, though OpenSSL only reads them.
  const auto writable = const_cast<unsigned char*>(input.bytes().data());
  const std::array<OSSL_PARAM, 4> parameters = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest.data(), 0),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, writable, Secret::kBytes),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info.data(), info.size()),
      OSSL_PARAM_construct_end()};
  std::array<unsigned char, Secret::kBytes> derived{};
  if (!context || EVP_KDF_derive(context.get(), derived.data(), derived.size(), parameters.data()) != 1)
    throw std::runtime_error("this machine's cryptography cannot derive a key by HKDF-SHA256");
  const void* bytes = derived.data();
  Secret key = Secret::from_bytes({static_cast<const char*>(bytes), derived.size()});
  cleanse(derived.data(), derived.size());
  return key;
}

Secret derive_job_secret(const Secret& key, const std::string& job) {
  PeerIdentity whole_job;
  whole_job.role = PeerIdentity::Role::launcher;
  whole_job.job = job;
  return derive_key(key, whole_job);
}

}  // namespace muster::rendezvous
