// SPDX-License-Identifier: Apache-2.0
// Makes callbacks that do nothing once their object is gone.
#pragma once

#include <functional>
#include <memory>
#include <utility>

namespace muster {

/// A callback that calls `what`, a method of the object or a function of a reference to the object, with
/// `bound` and then with the arguments of the callback. The callback keeps the object alive only while it
/// runs; once the object is gone, it does nothing.
template <typename Object, typename What, typename... Bound>
auto while_alive(std::weak_ptr<Object> object, What what, Bound... bound) {
  return [object = std::move(object), what = std::move(what),
          ... bound = std::move(bound)](auto&&... arguments) {
    if (const auto self = object.lock())
      std::invoke(what, *self, bound..., std::forward<decltype(arguments)>(arguments)...);
  };
}

}  // namespace muster
