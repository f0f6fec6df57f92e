// SPDX-License-Identifier: Apache-2.0
#include "apps/start_up.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>

namespace tapwire::apps {

void OpenMissingStandardDescriptors() {
  // open() gives the lowest free number.
  int fd = 0;
  while (fd >= 0 && fd <= STDERR_FILENO) fd = open("/dev/null", O_RDWR);
  if (fd > STDERR_FILENO) close(fd);
}

void CatchSignal(int signal_number) {
  struct sigaction before = {};
  // Who started us may have switched it off for us and our children: so be it.
  if (sigaction(signal_number, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) return;
  struct sigaction action = {};
  action.sa_handler = [](int) {};
  action.sa_flags = SA_RESTART;
  sigaction(signal_number, &action, nullptr);
}

}  // namespace tapwire::apps
