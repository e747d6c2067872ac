// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/abi/failure.hpp"

#include "muster/error.hpp"
#include "rendezvous/base/text.hpp"
#include "worker_sdk/abi/handle.hpp"

#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>

namespace muster::abi {
namespace {

/// The last failure of a thread, kept like errno: it belongs to the thread and to no world.
struct ThreadFailure {
  Failure last;
  std::string shown;  ///< the text that muster_error_text() has given out
};

ThreadFailure& thread_failure() {
  thread_local ThreadFailure failure;
  return failure;
}

muster_rc code_of(const std::exception& error) {
  if (const auto* ours = dynamic_cast<const Error*>(&error)) return static_cast<muster_rc>(ours->code());
  return dynamic_cast<const std::invalid_argument*>(&error) != nullptr ? MUSTER_E_ARG : MUSTER_E_STATE;
}

Failure current_failure(const char* call) {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return {MUSTER_E_NOMEM, call, "there is not enough memory; free some or use smaller buffers"};
  } catch (const std::exception& error) {
    return {code_of(error), call, error.what()};
  } catch (...) {
    return {MUSTER_E_STATE, call, "an unknown exception came out of the SDK; please report it"};
  }
}

/// The last failure on `handle` or, if it is null, of this thread.
Failure failure_of(const void* handle) {
  if (handle == nullptr) return thread_failure().last;
  const Node* const node = any_node_of(handle);
  if (node != nullptr) return node->last_failure();
  return {MUSTER_E_ARG, "muster_error_text",
          "the handle was freed, or this process was forked after it was made"};
}

}  // namespace

muster_rc fail(const char* call, const void* handle) noexcept {
  try {
    const Failure failure = current_failure(call);
    thread_failure().last = failure;
    Node* const node = handle == nullptr ? nullptr : any_node_of(handle);
    if (node != nullptr) node->remember(failure);
    return failure.code;
  } catch (...) {
    return MUSTER_E_NOMEM;
  }
}

Failure last_failure() {
  return thread_failure().last;
}

void forget_failure() noexcept {
  thread_failure().last = Failure();
}

void require(const void* pointer, const char* what) {
  if (pointer == nullptr) throw Error(ErrorCode::invalid_argument, std::string(what) + " is NULL");
}

void require_ok(muster_rc code, const char* what) {
  if (code == MUSTER_OK) return;
  const Failure failure = last_failure();
  const bool is_known = code < 0 && code >= MUSTER_E_STORE;
  throw Error(is_known ? static_cast<ErrorCode>(code) : ErrorCode::state,
              std::string(what) + " returned " + std::to_string(code) +
                  (failure.code == code ? ": " + failure.text : "; look at what it reported"));
}

}  // namespace muster::abi

using muster::abi::Failure;

extern "C" {

const char* muster_error_text(const void* handle) {
  try {
    std::string& shown = muster::abi::thread_failure().shown;
    shown = muster::abi::failure_of(handle).text;
    return shown.c_str();
  } catch (...) {
    return "there is no memory for the text of the error";
  }
}

size_t muster_error_json(const void* handle, char* buffer, size_t capacity) {
  try {
    const Failure failure = muster::abi::failure_of(handle);
    const std::string json = failure.code == MUSTER_OK
                                 ? "{}"
                                 : "{\"code\":" + std::to_string(failure.code) + ",\"name\":\"" +
                                       muster_error_name(failure.code) + "\",\"call\":\"" + failure.call +
                                       "\",\"text\":" + muster::json_text(failure.text) + "}";
    if (buffer != nullptr && capacity > 0) {
      const size_t length = json.size() < capacity ? json.size() : capacity - 1;
      std::memcpy(buffer, json.data(), length);
      buffer[length] = '\0';
    }
    return json.size();
  } catch (...) {
    if (buffer != nullptr && capacity > 0) buffer[0] = '\0';
    return 0;
  }
}
}
