// SPDX-License-Identifier: Apache-2.0
// The one place, beside test_main.cpp, that knows whether this is Catch2 2 or 3: the names that they have in
// different namespaces, or under which they mean different things, are those of 2 without a namespace.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>

using Catch::Approx;

/// In a string; 3 has a matcher of this name for ranges.
inline auto Contains(const std::string& text) {
  return Catch::Matchers::ContainsSubstring(text);
}
#else
#include <catch2/catch.hpp>

using Catch::Matchers::Contains;
#endif

using Catch::Matchers::EndsWith;
using Catch::Matchers::Equals;
using Catch::Matchers::StartsWith;

/// Whether `part` stands in `text`: for threads, in which Catch2 must not check, and for CHECK_FALSE.
inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// What all ranks of a world say.
inline void check_each_contains(const std::vector<std::string>& texts, const std::string& part) {
  for (const std::string& text : texts) CHECK_THAT(text, Contains(part));
}
