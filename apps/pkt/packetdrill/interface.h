// SPDX-License-Identifier: Apache-2.0
// The binary interface between the packetdrill program and a stack in a shared object
// (--so_filename): one table of functions, filled in by packetdrill_interface_init. Each function
// gets `userdata` first and is otherwise as in libc: result, or -1 and errno.
#pragma once

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

extern "C" {

struct packetdrill_interface {
  void* userdata;
  void (*free)(void* userdata);

  int (*socket)(void* userdata, int domain, int type, int protocol);
  int (*bind)(void* userdata, int fd, const sockaddr* address, socklen_t length);
  int (*listen)(void* userdata, int fd, int backlog);
  int (*accept)(void* userdata, int fd, sockaddr* address, socklen_t* length);
  int (*connect)(void* userdata, int fd, const sockaddr* address, socklen_t length);

  ssize_t (*read)(void* userdata, int fd, void* data, size_t length);
  ssize_t (*readv)(void* userdata, int fd, const iovec* iov, int count);
  ssize_t (*recv)(void* userdata, int fd, void* data, size_t length, int flags);
  ssize_t (*recvfrom)(void* userdata, int fd, void* data, size_t length, int flags,
                      sockaddr* address, socklen_t* address_length);
  ssize_t (*recvmsg)(void* userdata, int fd, msghdr* message, int flags);

  ssize_t (*write)(void* userdata, int fd, const void* data, size_t length);
  ssize_t (*writev)(void* userdata, int fd, const iovec* iov, int count);
  ssize_t (*send)(void* userdata, int fd, const void* data, size_t length, int flags);
  ssize_t (*sendto)(void* userdata, int fd, const void* data, size_t length, int flags,
                    const sockaddr* address, socklen_t address_length);
  ssize_t (*sendmsg)(void* userdata, int fd, const msghdr* message, int flags);

  int (*fcntl)(void* userdata, int fd, int command, ...);
  int (*ioctl)(void* userdata, int fd, unsigned long request, ...);
  int (*close)(void* userdata, int fd);
  int (*shutdown)(void* userdata, int fd, int how);
  int (*getsockopt)(void* userdata, int fd, int level, int name, void* value, socklen_t* length);
  int (*setsockopt)(void* userdata, int fd, int level, int name, const void* value,
                    socklen_t length);
  int (*poll)(void* userdata, pollfd* fds, nfds_t count, int timeout_ms);

  // One raw IP datagram into the stack: 0 or -1.
  int (*netdev_send)(void* userdata, const void* datagram, size_t size);
  // The next IP datagram out of it. *size: room, then bytes; *time_usecs: when it was sent, by the
  // clock of gettimeofday. 0 or -1.
  int (*netdev_receive)(void* userdata, void* datagram, size_t* size, long long* time_usecs);
  int (*usleep)(void* userdata, useconds_t usecs);
  int (*gettimeofday)(void* userdata, timeval* tv, struct timezone* tz);

  int (*epoll_create)(void* userdata, int size);
  int (*epoll_ctl)(void* userdata, int epoll_fd, int operation, int fd, epoll_event* event);
  int (*epoll_wait)(void* userdata, int epoll_fd, epoll_event* events, int max_events,
                    int timeout_ms);
  int (*pipe)(void* userdata, int fds[2]);
  int (*splice)(void* userdata, int fd_in, int64_t* offset_in, int fd_out, int64_t* offset_out,
                size_t length, unsigned int flags);
};

// Fills in `table`. `flags` is the --so_flags string or null. 0, or -1 with a message on stderr.
int packetdrill_interface_init(const char* flags, packetdrill_interface* table);

}  // extern "C"

// The order is the contract: 33 words.
#define TAPWIRE_PACKETDRILL_WORD(member, index) \
  static_assert(offsetof(packetdrill_interface, member) == (index)*8, #member)
static_assert(sizeof(void*) == 8 && sizeof(packetdrill_interface) == 264);
TAPWIRE_PACKETDRILL_WORD(userdata, 0);
TAPWIRE_PACKETDRILL_WORD(free, 1);
TAPWIRE_PACKETDRILL_WORD(socket, 2);
TAPWIRE_PACKETDRILL_WORD(bind, 3);
TAPWIRE_PACKETDRILL_WORD(listen, 4);
TAPWIRE_PACKETDRILL_WORD(accept, 5);
TAPWIRE_PACKETDRILL_WORD(connect, 6);
TAPWIRE_PACKETDRILL_WORD(read, 7);
TAPWIRE_PACKETDRILL_WORD(readv, 8);
TAPWIRE_PACKETDRILL_WORD(recv, 9);
TAPWIRE_PACKETDRILL_WORD(recvfrom, 10);
TAPWIRE_PACKETDRILL_WORD(recvmsg, 11);
TAPWIRE_PACKETDRILL_WORD(write, 12);
TAPWIRE_PACKETDRILL_WORD(writev, 13);
TAPWIRE_PACKETDRILL_WORD(send, 14);
TAPWIRE_PACKETDRILL_WORD(sendto, 15);
TAPWIRE_PACKETDRILL_WORD(sendmsg, 16);
TAPWIRE_PACKETDRILL_WORD(fcntl, 17);
TAPWIRE_PACKETDRILL_WORD(ioctl, 18);
TAPWIRE_PACKETDRILL_WORD(close, 19);
TAPWIRE_PACKETDRILL_WORD(shutdown, 20);
TAPWIRE_PACKETDRILL_WORD(getsockopt, 21);
TAPWIRE_PACKETDRILL_WORD(setsockopt, 22);
TAPWIRE_PACKETDRILL_WORD(poll, 23);
TAPWIRE_PACKETDRILL_WORD(netdev_send, 24);
TAPWIRE_PACKETDRILL_WORD(netdev_receive, 25);
TAPWIRE_PACKETDRILL_WORD(usleep, 26);
TAPWIRE_PACKETDRILL_WORD(gettimeofday, 27);
TAPWIRE_PACKETDRILL_WORD(epoll_create, 28);
TAPWIRE_PACKETDRILL_WORD(epoll_ctl, 29);
TAPWIRE_PACKETDRILL_WORD(epoll_wait, 30);
TAPWIRE_PACKETDRILL_WORD(pipe, 31);
TAPWIRE_PACKETDRILL_WORD(splice, 32);
#undef TAPWIRE_PACKETDRILL_WORD
