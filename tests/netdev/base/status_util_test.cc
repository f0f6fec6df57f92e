// SPDX-License-Identifier: Apache-2.0
#include "netdev/base/status_util.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <string>

namespace tapwire {
namespace {

TEST(StatusUtilTest, ErrnoSurvivesTheRoundTrip) {
  for (const int err : {EPERM, EINTR, EADDRINUSE, EADDRNOTAVAIL, ENETUNREACH, EHOSTUNREACH,
                        ECONNREFUSED, EISCONN, ENOBUFS, EAGAIN, ENODEV}) {
    const absl::Status status = ErrnoStatus(err, "tap0");
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(StatusToErrno(status), err);
  }
}

TEST(StatusUtilTest, MessageNamesObjectAndReason) {
  const absl::Status status = ErrnoStatus(ENOENT, "open /dev/net/tun");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  const std::string message(status.message());
  EXPECT_NE(message.find("open /dev/net/tun"), std::string::npos) << message;
  EXPECT_NE(message.find("No such file"), std::string::npos) << message;
}

TEST(StatusUtilTest, ErrnoZeroIsOk) {
  EXPECT_TRUE(ErrnoStatus(0, "nothing").ok());
  EXPECT_EQ(StatusToErrno(absl::OkStatus()), 0);
}

TEST(StatusUtilTest, EveryCodeHasAnErrno) {
  EXPECT_EQ(StatusToErrno(absl::UnavailableError("refused")), ECONNREFUSED);
  EXPECT_EQ(StatusToErrno(absl::DeadlineExceededError("timeout")), ETIMEDOUT);
  EXPECT_EQ(StatusToErrno(absl::AbortedError("reset")), ECONNRESET);
  EXPECT_EQ(StatusToErrno(absl::ResourceExhaustedError("budget")), ENOBUFS);
  for (int code = 1; code <= 16; ++code) {
    EXPECT_NE(StatusToErrno(absl::Status(static_cast<absl::StatusCode>(code), "x")), 0) << code;
  }
}

absl::StatusOr<std::unique_ptr<int>> Half(int value) {
  if (value % 2 != 0) {
    return absl::InvalidArgumentError("odd");
  }
  return std::make_unique<int>(value / 2);
}

absl::Status Quarter(int value, int& result) {
  TW_ASSIGN_OR_RETURN(auto half, Half(value));
  TW_ASSIGN_OR_RETURN(auto quarter, Half(*half));
  result = *quarter;
  return absl::OkStatus();
}

absl::Status QuarterTwice(int value, int& result) {
  TW_RETURN_IF_ERROR(Quarter(value, result));
  TW_RETURN_IF_ERROR(Quarter(result, result));
  return absl::OkStatus();
}

TEST(StatusUtilTest, MacrosPassErrorsOn) {
  int result = 0;
  EXPECT_TRUE(QuarterTwice(48, result).ok());
  EXPECT_EQ(result, 3);
  EXPECT_EQ(QuarterTwice(6, result).message(), "odd");
  EXPECT_EQ(result, 3);
}

}  // namespace
}  // namespace tapwire
