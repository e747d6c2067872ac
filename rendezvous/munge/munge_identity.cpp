// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/munge/munge_identity.hpp"

#include <stdexcept>
#include <utility>

namespace muster::rendezvous {
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

}  // namespace muster::rendezvous
