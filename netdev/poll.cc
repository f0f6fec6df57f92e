// SPDX-License-Identifier: Apache-2.0
#include "netdev/poll.h"

#include <utility>

#include "netdev/device.h"
#include "netdev/net_context.h"

namespace tapwire::netdev {

PollContext::PollContext(NetContext& context, NetDevice& device)
    : context_(context), device_(device) {}

PollContext::~PollContext() = default;

void PollContext::Schedule() {
  if (!linked()) context_.poll_list_.PushBack(*this);
}

void PollContext::Deliver(PacketPtr packet) {
  packet->meta.rx_device = device_.ifindex();
  context_.rx_batch_.PushBack(std::move(packet));
}

}  // namespace tapwire::netdev
