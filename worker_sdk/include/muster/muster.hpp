// SPDX-License-Identifier: Apache-2.0
// Muster's SDK in C++20: owning handles, typed buffers, exceptions, over the C calls of muster/muster.h.
// Header only.
//
//   muster::World world;                               // who am I; joins the other ranks
//   std::vector<float> values = ...;
//   world.group().all_reduce(values);                  // the sum over all ranks, in place
//   world.finalize();
//
// Every failure is a muster::Error: code() says what can be done about it, what() is a whole sentence. Rules
// of threads, buffers and deadlines are those of muster/muster.h. The classes live in an inline namespace
// named by their version.
#pragma once

#include "muster/check.hpp"
#include "muster/elements.hpp"
#include "muster/error.hpp"
#include "muster/group.hpp"
#include "muster/reducer.hpp"
#include "muster/spawn.hpp"
#include "muster/store.hpp"
#include "muster/types.hpp"
#include "muster/work.hpp"
#include "muster/world.hpp"
