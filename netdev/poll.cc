// SPDX-License-Identifier: Apache-2.0
#include "netdev/poll.h"

#include <utility>

#include "netdev/device.h"
#include "netdev/gro.h"
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
  if (device_.features().Has(Feature::kGro) && Gro::IsWanted(device_)) {
    return DeliverToGro(std::move(packet));
  }
  context_.rx_batch_.PushBack(std::move(packet));
}

void PollContext::DeliverToGro(PacketPtr packet) {
  if (gro_ == nullptr) gro_ = std::make_unique<Gro>(device_);
  gro_->Offer(std::move(packet), context_.rx_batch_);
}

void PollContext::FlushGro() {
  if (gro_ != nullptr && gro_->holds_any()) gro_->Flush(context_.rx_batch_);
}

}  // namespace tapwire::netdev
