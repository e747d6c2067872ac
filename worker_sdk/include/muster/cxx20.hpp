// SPDX-License-Identifier: Apache-2.0
// Says in one line what an older C++ would say in some hundred. Part of muster/muster.hpp and muster/nn.hpp.
#pragma once

// 201709L is g++ 10 with -std=c++20.
#if __cplusplus < 201709L
#error "Muster's C++ headers need C++20 (-std=c++20); C, and older C++, use muster/muster.h"
// A file that is missing ends the compilation, so that nothing else hides that line.
#include <the_error_above_says_what_to_do>
#endif
