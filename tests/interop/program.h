// SPDX-License-Identifier: Apache-2.0
// Runs the tapwire program as a user would.
#pragma once

#include <string>
#include <vector>

#include "tests/testutil/tap_fixture.h"

namespace tapwire::interop {

// The command line of the program of this build (or of $TAPWIRE_PROGRAM) with these arguments.
// Other users can run it too, wherever the build folder is.
std::vector<std::string> Tapwire(const std::vector<std::string>& arguments);

// "--net tap,name=tw0,dev=NODE,kernel=10.9.0.1/24,kernel=fd00:9::1/64", with `more` behind.
std::vector<std::string> NetFlags(const std::string& node, const std::string& more = "");

}  // namespace tapwire::interop
