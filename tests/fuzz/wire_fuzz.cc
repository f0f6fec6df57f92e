// SPDX-License-Identifier: Apache-2.0
//
// One target for all header codecs. The first byte chooses the codec (tests/netdev/wire/codec_law.h
// numbers them), the rest is its input. Every input is copied to a buffer of its exact size, so
// that the address sanitizer sees any read outside; whatever parses must survive being emitted
// again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "tests/netdev/wire/codec_law.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using tapwire::wire::CodecId;
  if (size == 0) return 0;
  const auto id = static_cast<CodecId>(data[0] % static_cast<uint8_t>(CodecId::kCount));
  const size_t length = size - 1;
  const std::unique_ptr<uint8_t[]> exact(new uint8_t[length]);
  if (length != 0) std::memcpy(exact.get(), data + 1, length);
  if (!tapwire::wire::CheckCodec(id, {exact.get(), length})) std::abort();
  return 0;
}
