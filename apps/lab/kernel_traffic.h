// SPDX-License-Identifier: Apache-2.0
// Traffic between kernel sockets, by forked children of this process: a client and a server on the
// processor that their parent is kept on, CUBIC at both ends.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "apps/lab/kernel_net.h"
#include "apps/lab/turns.h"

namespace tapwire::apps::lab {

// A forked child; killed, by its process id, and waited for when this goes.
class Child {
 public:
  // `body` runs in the child, which ends with it, with its parent, or after `limit_s` seconds.
  static absl::StatusOr<Child> Fork(double limit_s, absl::FunctionRef<void()> body);
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  Child& operator=(Child&&) = delete;
  ~Child();

 private:
  explicit Child(pid_t pid) : pid_(pid) {}
  pid_t pid_;
};

// Bits per second of one TCP connection from client to server; reads and writes of kBlockBytes.
absl::StatusOr<double> RunKernelBulk(const KernelPair& pair, const RunTime& time);

// Transactions per second of `flows` connections, one byte each way, each end one process that
// waits for all its connections at once.
absl::StatusOr<double> RunKernelRr(const KernelPair& pair, size_t flows, const RunTime& time);

// The client of that alone, in the calling thread's namespace; asks until it is killed.
absl::StatusOr<Child> StartKernelRequesters(size_t flows, double limit_s);

}  // namespace tapwire::apps::lab
