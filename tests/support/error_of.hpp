// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "catch.hpp"
#include "muster/error.hpp"

#include <optional>
#include <string>

namespace muster::test {

/// The text of the Error that `call` throws; empty when it throws none. `code`: what its code must be.
template <typename Call>
std::string error_of(const Call& call, std::optional<ErrorCode> code = {}) {
  try {
    call();
  } catch (const Error& error) {
    if (code) CHECK(error.code() == *code);
    return error.what();
  }
  return "";
}

}  // namespace muster::test
