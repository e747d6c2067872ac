// SPDX-License-Identifier: Apache-2.0
// Reports in one line that C++20 is needed, instead of the hundreds of lines of errors of an older C++. Part
// of muster/muster.hpp and muster/nn.hpp.
#pragma once

// 201709L is the value of g++ 10 with -std=c++20.
#if __cplusplus < 201709L
#error "Muster's C++ headers need C++20 (-std=c++20); C, and older C++, use muster/muster.h"
// A missing file ends the compilation, so that no other error hides the line above.
#include <the_error_above_says_what_to_do>
#endif
