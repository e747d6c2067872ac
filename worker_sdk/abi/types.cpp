// SPDX-License-Identifier: Apache-2.0
#include "muster/abi/types.h"

#include "muster/error.hpp"
#include "muster/types.hpp"

#include <cstdlib>
#include <iterator>

namespace {

using muster::DataType;
using muster::ErrorCode;
using muster::ReduceOp;

// The numbers of muster.h are those of the C++ enumerations, so that a cast translates.
static_assert(MUSTER_U8 == static_cast<int>(DataType::u8) && MUSTER_I32 == static_cast<int>(DataType::i32) &&
              MUSTER_I64 == static_cast<int>(DataType::i64) &&
              MUSTER_F16 == static_cast<int>(DataType::f16) &&
              MUSTER_BF16 == static_cast<int>(DataType::bf16) &&
              MUSTER_F32 == static_cast<int>(DataType::f32) && MUSTER_F64 == static_cast<int>(DataType::f64));
static_assert(
    MUSTER_SUM == static_cast<int>(ReduceOp::sum) && MUSTER_PRODUCT == static_cast<int>(ReduceOp::product) &&
    MUSTER_MIN == static_cast<int>(ReduceOp::min) && MUSTER_MAX == static_cast<int>(ReduceOp::max) &&
    MUSTER_AVG == static_cast<int>(ReduceOp::avg) && MUSTER_BAND == static_cast<int>(ReduceOp::band) &&
    MUSTER_BOR == static_cast<int>(ReduceOp::bor) && MUSTER_BXOR == static_cast<int>(ReduceOp::bxor));
static_assert(MUSTER_E_ARG == static_cast<int>(ErrorCode::invalid_argument) &&
              MUSTER_E_STATE == static_cast<int>(ErrorCode::state) &&
              MUSTER_E_DEADLINE == static_cast<int>(ErrorCode::deadline) &&
              MUSTER_E_PEER == static_cast<int>(ErrorCode::peer_lost) &&
              MUSTER_E_MISMATCH == static_cast<int>(ErrorCode::mismatch) &&
              MUSTER_E_ABORTED == static_cast<int>(ErrorCode::aborted) &&
              MUSTER_E_BACKEND == static_cast<int>(ErrorCode::backend) &&
              MUSTER_E_NOMEM == static_cast<int>(ErrorCode::out_of_memory) &&
              MUSTER_E_IO == static_cast<int>(ErrorCode::io) &&
              MUSTER_E_UNSUPPORTED == static_cast<int>(ErrorCode::unsupported) &&
              MUSTER_E_STORE == static_cast<int>(ErrorCode::store));

}  // namespace

#define MUSTER_TEXT_OF(value) #value
#define MUSTER_TEXT(value) MUSTER_TEXT_OF(value)

extern "C" {

size_t muster_dtype_size(muster_dtype dtype) {
  return dtype < MUSTER_U8 || dtype > MUSTER_F64 ? 0 : muster::size_of(static_cast<DataType>(dtype));
}

const char* muster_error_name(muster_rc rc) {
  // The names in the order of the codes, downwards; -7 is not used.
  constexpr const char* kNames[] = {"ok",       "invalid argument", "state", "deadline", "peer lost",
                                    "mismatch", "aborted",          nullptr, "backend",  "out of memory",
                                    "io",       "unsupported",      "store"};
  const char* const name = rc <= 0 && rc > -static_cast<muster_rc>(std::size(kNames)) ? kNames[-rc] : nullptr;
  return name == nullptr ? "unknown error" : name;
}

const char* muster_version(void) {
  return MUSTER_TEXT(MUSTER_VERSION_MAJOR) "." MUSTER_TEXT(MUSTER_VERSION_MINOR) "." MUSTER_TEXT(
      MUSTER_VERSION_PATCH);
}

void muster_free(void* memory) {
  std::free(memory);
}
}
