// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "muster/error.hpp"

#include <string>

namespace muster::test {

/// The text of the Error that `call` throws; empty when it throws none.
template <typename Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace muster::test
