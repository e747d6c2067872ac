// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

/// What comes before a peer has proved itself: the first byte says which reader gets the rest. 'G': what a
/// login shell prints before the agent's greeting; 'I': a TLS identity; 'C': the text inside a credential of
/// munge; 'H': hellos, some of which were seen before; 'R': a series of credentials, good, bad and slow.
/// Aborts where something does not hold. True when it was taken for what it should be: greeted, an identity,
/// a credential.
bool check_login_input(std::string_view input);
