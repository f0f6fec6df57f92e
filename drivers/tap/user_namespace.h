// SPDX-License-Identifier: Apache-2.0
//
// A TAP without any privilege: a child process makes a user and a network namespace, creates the
// TAP in there, addresses the kernel's side, and passes the attached descriptor back. The stack
// itself stays where it was, as the user it was, without capabilities (a process cannot be in both:
// only one uid is mapped inside). The child lives on as the holder of the namespaces until this
// process ends, so that other programs can enter them (userns_record.h).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "drivers/tap/tap_link.h"
#include "drivers/tap/unique_fd.h"
#include "drivers/tap/userns_record.h"
#include "netdev/wire/ip_address.h"

namespace tapwire::drivers {

struct UserNamespaceOptions {
  std::string node_path = kDefaultTapNode;
  std::string tap_name = "tap0";  // empty or "tap%d": the kernel chooses
  size_t queues = 1;
  uint32_t mtu = 0;                         // of the kernel's side; 0: the kernel's default
  std::vector<IpPrefix> kernel_addrs = {};  // at most 16
};

class UserNamespace {
 public:
  struct Created {
    std::unique_ptr<UserNamespace> holder;
    TapLink link;
  };

  // Forks the holder and waits until the TAP is up or it has failed (at most 10 s). The message of
  // an error names the step, the errno and the remedy. May be called with threads running: between
  // fork() and the end the child uses system calls only.
  static absl::StatusOr<Created> Create(const UserNamespaceOptions& options);

  // Ends the holder; the namespaces end with the last descriptor of the TAP.
  ~UserNamespace();
  UserNamespace(const UserNamespace&) = delete;
  UserNamespace& operator=(const UserNamespace&) = delete;

  pid_t holder_pid() const { return holder_pid_; }
  // Readable (end of file) once the holder has ended: nothing else ever comes here.
  int watch_fd() const { return socket_.get(); }

 private:
  UserNamespace(pid_t holder_pid, UniqueFd socket)
      : holder_pid_(holder_pid), socket_(std::move(socket)) {}

  pid_t holder_pid_;
  UniqueFd socket_;  // its end of file tells the holder to end
  UsernsRecord record_;
};

}  // namespace tapwire::drivers
