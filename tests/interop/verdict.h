// SPDX-License-Identifier: Apache-2.0
// What must hold after every run against the kernel, whatever it was about.
#pragma once

#include <cstdint>
#include <string>

#include "tests/interop/lab.h"

namespace tapwire::interop {

// What tshark and our own checker think of a capture file.
struct CaptureVerdict {
  uint64_t frames = 0;
  uint64_t good_checksums = 0;  // verified by tshark, of all layers
  std::string complaints;       // one per line; empty: none
};
CaptureVerdict JudgeCapture(const std::string& path);

// Neither end has seen a wrong checksum in this namespace.
void ExpectGoodChecksums(Lab& lab);
// That, no frame of the capture is wrong or malformed, and the device has dropped nothing.
void ExpectClean(Lab& lab);

}  // namespace tapwire::interop
