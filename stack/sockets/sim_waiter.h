// SPDX-License-Identifier: Apache-2.0
// SimWaiter: a blocking call runs the simulation until it is ready. One thread, virtual time.
//
//   SimWaiter waiter(context, [&clock](std::optional<Time> next) {
//     if (!next) return false;                      // nothing is going to happen
//     clock.Set(std::max(*next, clock.Now()));      // or less far, after doing something else
//     return true;
//   });
//   SocketTable sockets(stack, waiter);
#pragma once

#include <optional>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "netdev/net_context.h"
#include "stack/sockets/waiter.h"

namespace tapwire {

class SimWaiter final : public Waiter {
 public:
  // Moves virtual time on, at most to `next`: the earliest of the contexts' deadlines and the
  // deadline of the blocked call; nullopt when there is none. May stop short of it to let something
  // else happen (a scripted packet, the next scripted call), and may itself use the table and run
  // the contexts. False: there is nothing left to wait for, the blocked call gives up.
  using Advance = absl::AnyInvocable<bool(std::optional<Time> next)>;

  // The contexts outlive the waiter. All of them are run, in this order: the one of the table's
  // stack and those of its peers.
  SimWaiter(std::vector<netdev::NetContext*> contexts, Advance advance);
  SimWaiter(netdev::NetContext& context, Advance advance)
      : SimWaiter(std::vector<netdev::NetContext*>{&context}, std::move(advance)) {}

  // Whether Run() is followed by the batches that it made necessary, at the same virtual time: what
  // a call sends is on the wire when it returns, as with a kernel. On by default.
  void set_settle(bool settle) { settle_ = settle; }

  bool Run(absl::FunctionRef<void()> call) override;
  bool WaitUntil(absl::FunctionRef<bool()> ready, std::optional<Time> deadline) override;
  void Notify() override {}

  // Runs batches until no context has work left at the present time.
  void Settle();

 private:
  Time Now();
  std::optional<Time> NextDeadline() const;

  std::vector<netdev::NetContext*> contexts_;
  Advance advance_;
  bool settle_ = true;
};

}  // namespace tapwire
