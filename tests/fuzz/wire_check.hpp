// SPDX-License-Identifier: Apache-2.0
// What must hold for any bytes that a client may send, as used by the fuzzer, its corpus test and the unit
// tests.
#pragma once

#include "rendezvous/c10d/request_decoder.hpp"

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace muster::rendezvous::c10d {

/// Limits that small inputs reach.
RequestLimits small_limits();

/// Size of the next piece, given how many bytes are left.
using Cut = std::function<std::size_t(std::size_t left)>;

/// Everything the decoder says about `bytes` when they come in pieces: one line for each request, then how it
/// ended.
std::string decode_in_pieces(std::string_view bytes, const RequestLimits& limits, const Cut& cut);

/// All replies of a fresh session on a fresh store, then how it ended.
std::string serve_in_pieces(std::string_view bytes, const RequestLimits& limits, const Cut& cut);

/// The first byte of `input` chooses limits and pieces, the rest is what a client sends. Throws
/// std::logic_error if decoding or serving depends on how the bytes were cut, if a limit was passed, or if
/// memory grew beyond what came.
void check_wire(std::string_view input);

}  // namespace muster::rendezvous::c10d
