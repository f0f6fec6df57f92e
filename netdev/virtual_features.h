// SPDX-License-Identifier: Apache-2.0
// What devices claim whose frames stay in the process: everything that the packet's
// metadata can carry to the receiver, which understands it.
#pragma once

#include "netdev/features.h"

namespace tapwire::netdev {

inline constexpr FeatureSet kVirtualDeviceFeatures =
    kGsoSoftware |
    FeatureSet{Feature::kSg, Feature::kHighDma, Feature::kHwCsum, Feature::kRxCsum, Feature::kGso};

}  // namespace tapwire::netdev
