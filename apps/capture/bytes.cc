// SPDX-License-Identifier: Apache-2.0
#include "apps/capture/bytes.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tapwire::capture {

Address Address::V4(Bytes bytes) {
  Address address;
  for (size_t i = 0; i < 4; ++i) address.octets[i] = bytes.U8(i);
  return address;
}

Address Address::V6(Bytes bytes) {
  Address address;
  address.v6 = true;
  for (size_t i = 0; i < 16; ++i) address.octets[i] = bytes.U8(i);
  return address;
}

bool Address::is_loopback() const {
  if (!v6) return octets[0] == 127;
  return octets[15] == 1 && Bytes(octets).First(15).AllZero();
}

std::string Address::ToString() const {
  if (!v6) return absl::StrCat(octets[0], ".", octets[1], ".", octets[2], ".", octets[3]);
  // The uncompressed form: findings are searched for more often than admired.
  std::string text;
  for (size_t i = 0; i < 16; i += 2) {
    absl::StrAppend(&text, i == 0 ? "" : ":", absl::Hex(Bytes(octets).U16(i)));
  }
  return text;
}

std::string MacToString(Bytes mac) {
  return absl::StrFormat("%02x:%02x:%02x:%02x:%02x:%02x", mac.U8(0), mac.U8(1), mac.U8(2),
                         mac.U8(3), mac.U8(4), mac.U8(5));
}

uint16_t OnesSum(Bytes bytes, uint32_t sum) {
  uint64_t total = sum;
  for (size_t i = 0; i < bytes.size(); i += 2) total += bytes.U16(i);
  while (total >> 16 != 0) total = (total & 0xffff) + (total >> 16);
  return static_cast<uint16_t>(total);
}

uint16_t PseudoHeaderSum(const Address& source, const Address& destination, uint8_t protocol,
                         uint32_t length) {
  uint32_t sum = OnesSum(source.span());
  sum += OnesSum(destination.span());
  sum += protocol + (length >> 16) + (length & 0xffff);
  return OnesSum(Bytes(), sum);
}

}  // namespace tapwire::capture
