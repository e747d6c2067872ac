// SPDX-License-Identifier: Apache-2.0
#include "agent/core/http_answer.hpp"

#include "catch.hpp"

#include <string>

using muster::agent::http_body;

TEST_CASE("The body of an answer is what its length says") {
  const std::string answer = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nCONTENT-length:  4 \r\n\r\npong";
  CHECK(http_body(answer) == "pong");
  CHECK(http_body(answer + "more") == "pong");
  CHECK(http_body("HTTP/1.0 200\r\nContent-Length: 0\r\n\r\n") == "");
  for (std::size_t size = 0; size < answer.size(); ++size) CHECK_FALSE(http_body(answer.substr(0, size)));
}

TEST_CASE("Any other answer has no body") {
  for (const char* answer : {"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\npong",
                             "HTTP/1.1 2000\r\nContent-Length: 4\r\n\r\npon",
                             "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npong\r\n0\r\n\r\n",
                             "HTTP/1.1 200 OK\r\nContent-Length: -4\r\n\r\npong",
                             "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\npong",
                             "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\npong",
                             "SSH-2.0\r\nContent-Length: 4\r\n\r\npong", "\r\n\r\n"}) {
    INFO(answer);
    CHECK_FALSE(http_body(answer));
  }
}
