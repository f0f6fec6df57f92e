// SPDX-License-Identifier: Apache-2.0
#include "apps/start_up.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace tapwire::apps {
namespace {

// Exit code of a child that runs `body`; -1 if a signal ended it.
template <typename Body>
int InChild(Body body) {
  const pid_t pid = fork();
  if (pid == 0) _exit(body());
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(StartUpTest, ClosedStandardDescriptorsAreOpenedAndNothingElse) {
  for (int closed = 0; closed < 8; ++closed) {
    const auto body = [closed] {
      for (int fd = 0; fd < 3; ++fd) {
        if ((closed & (1 << fd)) != 0) close(fd);
      }
      const int next_before = fcntl(STDERR_FILENO, F_GETFD) < 0 ? -1 : dup(STDERR_FILENO);
      if (next_before >= 0) close(next_before);
      OpenMissingStandardDescriptors();
      for (int fd = 0; fd < 3; ++fd) {
        if (fcntl(fd, F_GETFD) < 0) return 1;
      }
      return closed == 0 && dup(STDERR_FILENO) != next_before ? 2 : 0;
    };
    EXPECT_EQ(InChild(body), 0) << closed;
  }
}

TEST(StartUpTest, CaughtSignalDoesNothing) {
  EXPECT_EQ(InChild([] {
              CatchSignal(SIGUSR1);
              raise(SIGUSR1);
              return 7;
            }),
            7);
}

// As after `nohup`, or `trap '' USR1` in a shell.
TEST(StartUpTest, SignalThatIsSwitchedOffStaysSo) {
  EXPECT_EQ(InChild([] {
              std::signal(SIGUSR1, SIG_IGN);
              CatchSignal(SIGUSR1);
              return std::signal(SIGUSR1, SIG_DFL) == SIG_IGN ? 7 : 1;
            }),
            7);
}

}  // namespace
}  // namespace tapwire::apps
