// SPDX-License-Identifier: Apache-2.0
// Callbacks that an object gives away and that may outlive it.
#pragma once

#include <functional>
#include <memory>
#include <utility>

namespace muster {

/// A callback that calls `what`, a method of the object or a function of a reference to it, with `bound` and
/// then with what the callback itself is called with. It does not keep the object, but while it runs; once
/// the object is gone, it does nothing.
template <typename Object, typename What, typename... Bound>
auto while_alive(std::weak_ptr<Object> object, What what, Bound... bound) {
  return [object = std::move(object), what = std::move(what),
          ... bound = std::move(bound)](auto&&... arguments) {
    if (const auto self = object.lock())
      std::invoke(what, *self, bound..., std::forward<decltype(arguments)>(arguments)...);
  };
}

}  // namespace muster
