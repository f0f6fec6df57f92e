// SPDX-License-Identifier: Apache-2.0
// A small HTTP/1.1 server (RFC 9112) on the callback sockets and a libuv loop, as an example of a
// server that strangers may talk to: bounded memory, limits of time, half-close, back-pressure.
// The parser is Boost.Beast's.
//
//   sudo ip tuntap add dev tw0 mode tap user $USER vnet_hdr
//   sudo ip addr add 10.9.0.1/24 dev tw0 && sudo ip link set tw0 up
//   example_http_server tw0 10.9.0.2/24
//   curl http://10.9.0.2/bytes/1000000
//
// GET and HEAD of / and, as above, of N bytes (byte i has the value i % 251), POST of /size (the
// length of the body, which may be chunked).

#include <unistd.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/field.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "drivers/tap/tap_device.h"
#include "netdev/base/timer_queue.h"
#include "netdev/registry.h"
#include "stack/sockets/system_environment.h"
#include "stack/sockets/tcp_listener.h"
#include "stack/sockets/uv/uv_runner.h"
#include "stack/stack.h"
#include "uv.h"

namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;
using tapwire::BufferSlice, tapwire::TcpSocket;

// What one client can cost, and all of them together.
constexpr uint32_t kMaxHeader = 8 << 10;
constexpr uint64_t kMaxBody = 1 << 20;
constexpr uint64_t kMaxAnswer = uint64_t{1} << 30;
constexpr size_t kPiece = 64 << 10;  // of an answer, in memory at a time
constexpr size_t kMaxSessions = 1000;
constexpr size_t kMaxDiscarded = 256 << 10;  // of what still comes after the last answer

struct Settings {
  std::string node = tapwire::drivers::kDefaultTapNode;
  uint16_t port = 80;
  // For a whole request, for each piece of an answer, and between requests.
  std::chrono::milliseconds timeout{10'000};
};

// Keeps of a request what this server looks at; the body is only counted.
class RequestParser final : public http::basic_parser<true> {
 public:
  RequestParser() {
    header_limit(kMaxHeader);
    body_limit(kMaxBody);
    eager(true);
  }
  http::verb method() const { return method_; }
  const std::string& target() const { return target_; }
  uint64_t body_bytes() const { return body_bytes_; }
  // RFC 9110 §10.1.1: true once, when the client waits for a word before it sends the body.
  bool TakeExpectation() { return is_header_done() && std::exchange(expects_continue_, false); }

 private:
  using Text = boost::beast::string_view;
  void on_request_impl(http::verb method, Text, Text target, int version, error_code&) override {
    method_ = method;
    version_ = version;
    target_.assign(target.data(), target.size());
  }
  void on_response_impl(int, Text, int, error_code&) override {}
  void on_field_impl(http::field field, Text, Text value, error_code&) override {
    if (field == http::field::host) ++hosts_;
    if (field != http::field::expect) return;
    expects_continue_ = absl::EqualsIgnoreCase({value.data(), value.size()}, "100-continue");
  }
  // RFC 9112 §3.2: exactly one Host.
  void on_header_impl(error_code& error) override {
    if (hosts_ > 1 || (hosts_ == 0 && version_ >= 11)) error = http::error::bad_field;
  }
  void on_body_init_impl(const boost::optional<uint64_t>&, error_code&) override {}
  size_t on_body_impl(Text body, error_code&) override {
    body_bytes_ += body.size();
    return body.size();
  }
  void on_chunk_header_impl(uint64_t, Text, error_code&) override {}
  size_t on_chunk_body_impl(uint64_t, Text body, error_code&) override {
    body_bytes_ += body.size();
    return body.size();
  }
  void on_finish_impl(error_code&) override {}

  http::verb method_ = http::verb::unknown;
  std::string target_;
  int version_ = 0;
  int hosts_ = 0;
  uint64_t body_bytes_ = 0;
  bool expects_continue_ = false;
};

struct Answer {
  const char* status = "200 OK";
  std::string text = {};
  uint64_t pattern_bytes = 0;  // after `text`
  uint64_t length() const { return text.size() + pattern_bytes; }
};

Answer AnswerTo(const RequestParser& request) {
  const bool get = request.method() == http::verb::get || request.method() == http::verb::head;
  absl::string_view target = request.target();
  if (target == "/size") {
    if (request.method() != http::verb::post) return {"405 Method Not Allowed", "POST only\n"};
    return {"200 OK", absl::StrCat(request.body_bytes(), "\n")};
  }
  uint64_t bytes = 0;
  const bool pattern = absl::ConsumePrefix(&target, "/bytes/") &&
                       absl::SimpleAtoi(target, &bytes) && bytes <= kMaxAnswer;
  if (!pattern && target != "/") return {"404 Not Found", "no such page\n"};
  if (!get) return {"405 Method Not Allowed", "GET or HEAD only\n"};
  if (pattern) return {"200 OK", "", bytes};
  return {"200 OK", "tapwire\n"};
}

const char* StatusOf(const error_code& error) {
  if (error == http::error::header_limit) return "431 Request Header Fields Too Large";
  if (error == http::error::body_limit) return "413 Content Too Large";
  if (error == http::error::bad_version) return "505 HTTP Version Not Supported";
  return "400 Bad Request";
}

// One connection. Requests are answered one after the other; while one is answered nothing is read,
// so that a client which only asks is held back by its window.
class Session {
 public:
  // `end` destroys the session; nothing of it is touched afterwards.
  Session(std::unique_ptr<TcpSocket> socket, const Settings& settings, std::function<void()> end)
      : socket_(std::move(socket)), settings_(settings), end_(std::move(end)) {}
  void Start() { NextRequest(); }

 private:
  tapwire::netdev::NetContext& context() { return socket_->stack().context(); }
  void ArmTimer() { context().timers().Arm(timer_, context().now() + settings_.timeout); }
  void End() { std::exchange(end_, nullptr)(); }  // the function outlives the session

  void NextRequest() {
    parser_ = std::make_unique<RequestParser>();
    ArmTimer();
    Parse();
  }

  // Takes requests from what has been read, and reads on when there is no whole one.
  void Parse() {
    while (!input_.empty()) {
      error_code error;
      const size_t used = parser_->put(boost::asio::buffer(input_), error);
      input_.erase(0, used);
      if (error && error != http::error::need_more) return Refuse(StatusOf(error));
      if (parser_->is_done()) return Respond(AnswerTo(*parser_));
      if (parser_->TakeExpectation()) return Send("HTTP/1.1 100 Continue\r\n\r\n");
      if (error == http::error::need_more || used == 0) break;
    }
    if (ended_) return End();  // with nothing or a part of a request: nobody to answer
    Read();
  }
  void Read() {
    if (std::exchange(reading_, true)) return;
    const absl::Status status =
        socket_->ReadStart([this](absl::StatusOr<BufferSlice> slice) { OnRead(std::move(slice)); });
    if (!status.ok()) End();
  }
  void OnRead(absl::StatusOr<BufferSlice> slice) {
    if (!slice.ok()) return End();
    ended_ = slice->empty();
    if (closing_) return Discard(slice->size());
    input_.append(reinterpret_cast<const char*>(slice->bytes().data()), slice->size());
    Parse();
  }

  void Refuse(const char* status) { Respond({status, absl::StrCat(status, "\n")}, true); }
  void Respond(const Answer& answer, bool last = false) {
    socket_->ReadStop();
    reading_ = false;
    closing_ = last || !parser_->keep_alive() || ended_;
    std::string head =
        absl::StrCat("HTTP/1.1 ", answer.status, "\r\nContent-Length: ", answer.length(),
                     "\r\nConnection: ", closing_ ? "close" : "keep-alive", "\r\n\r\n");
    const bool with_body = parser_->method() != http::verb::head;
    if (with_body) head += answer.text;
    answering_ = true;
    next_byte_ = 0;
    end_byte_ = with_body ? answer.pattern_bytes : 0;
    Send(head);
  }
  // Writes are reported when the send buffer has room, so one piece at a time is in memory.
  void Send(absl::string_view bytes) {
    ArmTimer();
    tapwire::BufferChain data;
    const auto* start = reinterpret_cast<const uint8_t*>(bytes.data());
    if (data.AppendCopy(context().pool(), {start, bytes.size()}) != bytes.size()) return End();
    const auto sent = [this](const absl::Status& status) { status.ok() ? SendMore() : End(); };
    if (!socket_->Write(std::move(data), sent).ok()) End();
  }
  void SendMore() {
    if (!answering_) return Parse();  // that was 100 Continue
    if (next_byte_ == end_byte_) return closing_ ? LastWords() : Answered();
    const uint64_t end = std::min<uint64_t>(end_byte_, next_byte_ + kPiece);
    std::string piece;
    while (next_byte_ < end) piece.push_back(static_cast<char>(next_byte_++ % 251));
    Send(piece);
  }
  void Answered() {
    answering_ = false;
    NextRequest();
  }

  // RFC 9112 §9.6: a connection that is closed with bytes unread is reset, which may cost the
  // client the answer. So: our end of the stream, then what still comes is thrown away.
  void LastWords() {
    ArmTimer();
    if (!socket_->ShutdownWrite(nullptr).ok() || ended_) return End();
    Read();
  }
  void Discard(size_t bytes) {
    discarded_ += bytes;
    if (ended_ || discarded_ > kMaxDiscarded) End();
  }

  void OnTimeout() {
    const bool in_request = !answering_ && (parser_->got_some() || !input_.empty());
    if (in_request) return Refuse("408 Request Timeout");
    if (socket_->write_queue_size() > 0) socket_->Abort();  // it does not read
    End();
  }

  std::unique_ptr<TcpSocket> socket_;
  const Settings& settings_;
  std::function<void()> end_;
  tapwire::FunctionTimer timer_{[this] { OnTimeout(); }};
  std::unique_ptr<RequestParser> parser_;
  std::string input_;  // read and not parsed: less than kMaxHeader and one slice
  uint64_t next_byte_ = 0, end_byte_ = 0;
  size_t discarded_ = 0;
  bool reading_ = false, answering_ = false, closing_ = false, ended_ = false;
};

class Server {
 public:
  explicit Server(const Settings& settings) : settings_(settings) {}

  absl::Status Listen(tapwire::Stack& stack, tapwire::IpFamily family) {
    TcpSocket::Options options;
    options.v6_only = true;
    auto listener = tapwire::TcpListener::Listen(
        stack, {tapwire::IpAddress::Unspecified(family), settings_.port, 0},
        tapwire::TcpListener::kDefaultBacklog, options);
    if (!listener.ok()) return listener.status();
    listeners_.push_back(*std::move(listener));
    AcceptOn(*listeners_.back());
    return absl::OkStatus();
  }
  uint64_t connections() const { return connections_; }

 private:
  void AcceptOn(tapwire::TcpListener& listener) {
    listener.AcceptStart([this](std::unique_ptr<TcpSocket> socket) { Add(std::move(socket)); })
        .IgnoreError();  // fails only without a callback
  }
  void Add(std::unique_ptr<TcpSocket> socket) {
    const uint64_t id = ++connections_;
    auto session =
        std::make_unique<Session>(std::move(socket), settings_, [this, id] { Remove(id); });
    Session& started = *session;
    sessions_.emplace(id, std::move(session));
    // More clients wait in the backlog.
    if (sessions_.size() == kMaxSessions) {
      for (auto& listener : listeners_) listener->AcceptStop();
    }
    started.Start();
  }
  void Remove(uint64_t id) {
    const bool full = sessions_.size() == kMaxSessions;
    sessions_.erase(id);
    if (!full) return;
    for (auto& listener : listeners_) AcceptOn(*listener);
  }

  const Settings settings_;
  uint64_t connections_ = 0;
  std::unordered_map<uint64_t, std::unique_ptr<Session>> sessions_;
  std::vector<std::unique_ptr<tapwire::TcpListener>> listeners_;
};

int Fail(const absl::Status& status) {
  return std::fprintf(stderr, "%s\n", std::string(status.message()).c_str()), 1;
}

int Serve(const char* tap, const std::vector<tapwire::IpPrefix>& addresses,
          const Settings& settings) {
  tapwire::SystemEnvironment system;
  tapwire::netdev::NetContext context(system.environment());
  tapwire::Stack stack(context);
  auto opened =
      tapwire::drivers::TapDevice::Open(context, {.name = tap, .device_path = settings.node});
  if (!opened.ok()) return Fail(opened.status());
  auto device = context.registry().Register(*std::move(opened));
  if (!device.ok()) return Fail(device.status());
  auto interface = stack.AddInterface(**device);
  if (!interface.ok()) return Fail(interface.status());
  if (absl::Status up = (*device)->Up(); !up.ok()) return Fail(up);
  for (const tapwire::IpPrefix& address : addresses) {
    if (absl::Status added = (*interface)->AddAddress(address); !added.ok()) return Fail(added);
  }
  Server server(settings);
  for (const auto family : {tapwire::IpFamily::kV4, tapwire::IpFamily::kV6}) {
    if (absl::Status listens = server.Listen(stack, family); !listens.ok()) return Fail(listens);
  }
  auto runner = tapwire::UvRunner::Attach(uv_default_loop(), &context);
  if (!runner.ok()) return Fail(runner.status());
  uv_signal_t interrupt;
  uv_signal_init(uv_default_loop(), &interrupt);
  uv_signal_start(
      &interrupt, [](uv_signal_t* signal, int) { uv_stop(signal->loop); }, SIGINT);
  std::printf("http on %s port %u\n", tap, settings.port);
  std::fflush(stdout);
  uv_run(uv_default_loop(), UV_RUN_DEFAULT);
  std::printf("%llu connections\n", static_cast<unsigned long long>(server.connections()));
  uv_close(reinterpret_cast<uv_handle_t*>(&interrupt), nullptr);
  (*runner).reset();
  uv_run(uv_default_loop(), UV_RUN_DEFAULT);  // the handles close
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  uint32_t port = settings.port, timeout_ms = 10'000;
  bool good = true;
  for (int option = 0; (option = getopt(argc, argv, "d:p:t:")) != -1;) {
    if (option == 'd') settings.node = optarg;
    if (option == 'p') good = good && absl::SimpleAtoi(optarg, &port) && port - 1 < 65535;
    if (option == 't') good = good && absl::SimpleAtoi(optarg, &timeout_ms) && timeout_ms > 0;
    good = good && option != '?';
  }
  settings.port = static_cast<uint16_t>(port);
  settings.timeout = std::chrono::milliseconds(timeout_ms);
  std::vector<tapwire::IpPrefix> addresses;
  for (int i = optind + 1; i < argc; ++i) {
    if (const auto address = tapwire::IpPrefix::Parse(argv[i])) addresses.push_back(*address);
  }
  if (!good || addresses.empty() || static_cast<int>(addresses.size()) != argc - optind - 1) {
    std::fprintf(stderr,
                 "usage: %s [-d /dev/net/tun] [-p PORT] [-t MILLISECONDS] TAP ADDRESS/LENGTH...\n",
                 argv[0]);
    return 2;
  }
  return Serve(argv[optind], addresses, settings);
}
