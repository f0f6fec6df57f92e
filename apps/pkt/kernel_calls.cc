// SPDX-License-Identifier: Apache-2.0
#include "apps/pkt/kernel_calls.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tapwire::pkt {
namespace {

constexpr int kInterrupt = SIGUSR1;

int64_t Result(int64_t result) { return result < 0 ? -int64_t{errno} : result; }
int IntResult(int result) { return result < 0 ? -errno : result; }

// Whether a thread of this process sleeps, as a call that blocks does.
bool Sleeps(pid_t thread) {
  std::ifstream stat(absl::StrCat("/proc/self/task/", thread, "/stat"));
  std::string line;
  if (!std::getline(stat, line)) return false;
  const size_t name_end = line.rfind(')');
  return name_end != std::string::npos && name_end + 2 < line.size() && line[name_end + 2] == 'S';
}

void NoHandler(int /*signal*/) {}

// More than scripts ever have under way; threads are made in advance, since that takes long.
constexpr int kThreads = 3;

}  // namespace

// A call under way on another thread.
struct KernelCalls::Job {
  std::function<int64_t()> call;
  std::atomic<pid_t> thread = 0;
  std::atomic<bool> done = false;
  int64_t result = 0;
};

// What the threads share with who calls. Never destroyed before the process ends.
struct KernelCalls::Threads {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::shared_ptr<Job>> jobs;
  int wake = -1;
  int ready = 0;
};

KernelCalls::KernelCalls(Waiter& waiter)
    : waiter_(waiter),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      threads_(std::make_shared<Threads>()) {
  struct sigaction action {};
  action.sa_handler = NoHandler;  // without SA_RESTART: the call ends
  sigaction(kInterrupt, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
  threads_->wake = wake_.get();
}

void KernelCalls::StartThreads() {
  for (int i = 0; i < kThreads; ++i) {
    std::thread([threads = threads_] { Serve(*threads); }).detach();
  }
  std::unique_lock<std::mutex> lock(threads_->mutex);
  threads_->changed.wait(lock, [this] { return threads_->ready == kThreads; });
}

void KernelCalls::Serve(Threads& threads) {
  std::unique_lock<std::mutex> lock(threads.mutex);
  ++threads.ready;
  threads.changed.notify_all();
  for (;;) {
    threads.changed.wait(lock, [&threads] { return !threads.jobs.empty(); });
    const std::shared_ptr<Job> job = threads.jobs.front();
    threads.jobs.pop_front();
    lock.unlock();
    job->thread = static_cast<pid_t>(syscall(SYS_gettid));
    job->result = job->call();
    job->done = true;
    eventfd_write(threads.wake, 1);
    lock.lock();
  }
}

int64_t KernelCalls::Aside(std::function<int64_t()> call) {
  const auto job = std::make_shared<Job>();
  job->call = std::move(call);
  {
    const std::lock_guard<std::mutex> lock(threads_->mutex);
    threads_->jobs.push_back(job);
  }
  threads_->changed.notify_one();
  // The script goes on once the call has done what it can.
  while (!job->done && (job->thread == 0 || !Sleeps(job->thread))) usleep(10);
  waiter_.WaitUntil([&job] { return job->done.load(); }, std::nullopt);
  while (!job->done) {
    if (job->thread != 0) syscall(SYS_tgkill, getpid(), job->thread.load(), kInterrupt);
    usleep(1000);
  }
  return job->result;
}

int KernelCalls::Socket(int domain, int type, int protocol) {
  const int fd = IntResult(socket(domain, type | SOCK_CLOEXEC, protocol));
  // Fails on other sockets than TCP's, which have none.
  setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, congestion_control_.data(),
             static_cast<socklen_t>(congestion_control_.size()));
  return fd;
}

int KernelCalls::Bind(int fd, const sockaddr* address, socklen_t length) {
  return IntResult(bind(fd, address, length));
}

int KernelCalls::Listen(int fd, int backlog) { return IntResult(listen(fd, backlog)); }

int KernelCalls::Accept4(int fd, sockaddr* address, socklen_t* length, int flags) {
  return static_cast<int>(Aside([=] { return Result(accept4(fd, address, length, flags)); }));
}

int KernelCalls::Connect(int fd, const sockaddr* address, socklen_t length) {
  return static_cast<int>(Aside([=] { return Result(connect(fd, address, length)); }));
}

int KernelCalls::Shutdown(int fd, int how) { return IntResult(shutdown(fd, how)); }

int KernelCalls::Close(int fd) {
  return static_cast<int>(Aside([=] { return Result(close(fd)); }));
}

int KernelCalls::GetSockName(int fd, sockaddr* address, socklen_t* length) {
  return IntResult(getsockname(fd, address, length));
}

int KernelCalls::GetPeerName(int fd, sockaddr* address, socklen_t* length) {
  return IntResult(getpeername(fd, address, length));
}

int64_t KernelCalls::RecvMsg(int fd, msghdr* message, int flags) {
  return Aside([=] { return Result(recvmsg(fd, message, flags)); });
}

int64_t KernelCalls::SendMsg(int fd, const msghdr* message, int flags) {
  return Aside([=] { return Result(sendmsg(fd, message, flags)); });
}

int KernelCalls::GetSockOpt(int fd, int level, int name, void* value, socklen_t* length) {
  return IntResult(getsockopt(fd, level, name, value, length));
}

int KernelCalls::SetSockOpt(int fd, int level, int name, const void* value, socklen_t length) {
  return IntResult(setsockopt(fd, level, name, value, length));
}

int KernelCalls::Fcntl(int fd, int command, long argument) {
  return IntResult(fcntl(fd, command, argument));
}

int KernelCalls::Ioctl(int fd, unsigned long request, void* argument) {
  return IntResult(ioctl(fd, request, argument));
}

int KernelCalls::Poll(pollfd* fds, nfds_t count, int timeout_ms) {
  return static_cast<int>(Aside([=] { return Result(poll(fds, count, timeout_ms)); }));
}

int KernelCalls::EpollCreate(int size) { return IntResult(epoll_create(size)); }

int KernelCalls::EpollCreate1(int flags) { return IntResult(epoll_create1(flags)); }

int KernelCalls::EpollCtl(int epoll_fd, int operation, int fd, const epoll_event* event) {
  epoll_event copy = event != nullptr ? *event : epoll_event{};
  return IntResult(epoll_ctl(epoll_fd, operation, fd, event != nullptr ? &copy : nullptr));
}

int KernelCalls::EpollWait(int epoll_fd, epoll_event* events, int max_events, int timeout_ms) {
  return static_cast<int>(
      Aside([=] { return Result(epoll_wait(epoll_fd, events, max_events, timeout_ms)); }));
}

}  // namespace tapwire::pkt
