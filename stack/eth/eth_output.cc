// SPDX-License-Identifier: Apache-2.0
#include "stack/eth/eth_output.h"

#include <utility>

#include "netdev/tx_path.h"
#include "netdev/wire/ethernet.h"

namespace tapwire {

netdev::TxResult EthOutput(PacketPtr packet, netdev::NetDevice& device,
                           const MacAddress& destination, uint16_t ether_type) {
  packet->set_l3_here();
  if (!packet->EnsureHeadroom(wire::EthernetHeader::kLength)) {
    device.DropTx(std::move(packet), DropReason::kTxNoBuffer);
    return netdev::TxResult::kNoBuffer;
  }
  const wire::EthernetFields header{
      .destination = destination, .source = device.mac(), .ether_type = ether_type};
  header.Emit(packet->Push(wire::EthernetHeader::kLength));
  packet->set_l2_here();
  packet->meta.ether_type = ether_type;
  // Senders on this host are told, though the device's queue takes frames for ever without a link.
  const bool running = device.is_running();
  const netdev::TxResult result = netdev::TxPath::Transmit(std::move(packet), device);
  return running ? result : netdev::TxResult::kDeviceDown;
}

}  // namespace tapwire
