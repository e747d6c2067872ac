// SPDX-License-Identifier: Apache-2.0
#include "launcher/metrics/core/http_request.hpp"

#include "catch.hpp"

#include <string>

using namespace muster::launcher;

TEST_CASE("A scrape is answered, and nothing else is") {
  const std::string host = "Host: 127.0.0.1:9100\r\n\r\n";
  CHECK(http_status("GET /metrics HTTP/1.1\r\n" + host, true) == 200);
  CHECK(http_status("GET /metrics?x=1 HTTP/1.1\r\nhOST:\tlocalhost\r\n\r\n", true) == 200);
  CHECK(http_status("GET /metrics HTTP/1.1\r\nHost: [::1]:7\r\n\r\n", true) == 200);
  CHECK(http_status("GET /metrics HTTP/1.0\r\n\r\n", true) == 200);
  CHECK(http_status("GET /metrics HTTP/1.1\r\nHost: anything\r\n\r\n", false) == 200);
  CHECK(http_status("GET / HTTP/1.1\r\n" + host, true) == 404);
  CHECK(http_status("POST /metrics HTTP/1.1\r\n" + host, true) == 405);
  for (const char* line : {"", "GET", "GET /metrics", "GET /metrics HTTP/2", "\x16\x03\x01"})
    CHECK(http_status(std::string(line) + "\r\n" + host, true) == 400);
}

TEST_CASE("A page whose name points at loopback does not get the metrics") {
  for (const char* fields : {"Host: evil.example:9100\r\n", "", "Host: 127.0.0.1.evil.example\r\n",
                             "Host: localhost\r\nHost: x\r\n", "Host: localhost\r\nHost: localhost\r\n"})
    CHECK(http_status("GET /metrics HTTP/1.1\r\n" + std::string(fields) + "\r\n", true) == 403);
}

TEST_CASE("A response says how long it is, and of which type") {
  const std::string response = http_response(200, "# EOF\n");
  CHECK(response ==
        "HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"
        "Content-Length: 6\r\nConnection: close\r\n\r\n# EOF\n");
  CHECK(http_response(405, "").starts_with("HTTP/1.1 405 Method Not Allowed\r\n"));
  CHECK(http_response(405, "").find("\r\nAllow: GET\r\n") != std::string::npos);
}
