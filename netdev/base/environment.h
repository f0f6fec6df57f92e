// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "netdev/base/random.h"
#include "netdev/base/time.h"

namespace tapwire {

// What a context takes from the outside world. Both objects are owned by the runner or test and
// outlive the context; neither may be null.
struct Environment {
  Clock* clock = nullptr;
  Random* random = nullptr;
};

}  // namespace tapwire
