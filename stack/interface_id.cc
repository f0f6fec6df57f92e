// SPDX-License-Identifier: Apache-2.0
#include "stack/interface_id.h"

#include <algorithm>
#include <array>

#include "netdev/base/byteorder.h"

namespace tapwire {

bool IsReservedInterfaceId(uint64_t id) {
  if (id == 0) return true;  // subnet-router anycast, RFC 4291 §2.6.1
  // 02:00:5e:ff:fe:00:52:13 and its neighbours: IANA's own block (RFC 9542).
  if (id >> 24 == 0x0200'5eff'feULL) return true;
  // Reserved subnet anycast, RFC 2526.
  return id >= 0xfdff'ffff'ffff'ff80ULL && id <= 0xfdff'ffff'ffff'ffffULL;
}

Ipv6Address OpaqueAddress(const InterfaceIdInput& input, const SipKey& secret) {
  // F(prefix, Net_Iface, Network_ID, DAD_Counter, secret_key) without the optional Network_ID. The
  // last byte counts identifiers refused as reserved.
  std::array<uint8_t, 16> message{};
  std::copy_n(input.prefix.bytes().begin(), 8, message.begin());
  std::copy_n(input.mac.bytes().begin(), 6, message.begin() + 8);
  message[14] = input.dad_counter;
  uint64_t id = SipHash24(secret, message);
  while (IsReservedInterfaceId(id)) {
    ++message[15];
    id = SipHash24(secret, message);
  }
  std::array<uint8_t, 16> address{};
  std::copy_n(input.prefix.bytes().begin(), 8, address.begin());
  StoreBe64(address.data() + 8, id);
  return Ipv6Address(address);
}

}  // namespace tapwire
