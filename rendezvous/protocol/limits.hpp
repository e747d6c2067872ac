// SPDX-License-Identifier: Apache-2.0
// Bounds on everything that comes from outside, each with its unit and its reason.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace muster::rendezvous {

inline constexpr std::size_t kKiB = 1024;
inline constexpr std::size_t kMiB = 1024 * kKiB;
inline constexpr std::size_t kGiB = 1024 * kMiB;

// Control frames (frame.hpp, message.hpp).

/// Bytes of one control frame. Real frames have a few hundred; the bound is that of the store's requests, so
/// that one rule holds for both.
inline constexpr std::size_t kMaxControlFrameBytes = std::size_t{16} << 20U;
/// Bytes of a frame before the peer has said hello, which bounds the memory that a stranger can take.
inline constexpr std::size_t kMaxHelloFrameBytes = std::size_t{16} << 10U;
/// Time from connection to hello.
inline constexpr std::chrono::milliseconds kHelloTimeout = std::chrono::seconds(5);
/// Bytes of control output that a peer may leave unread before it is cut. The channels' windows and the limit
/// on kept messages bound what an honest peer leaves unread; this limit is for a peer that acknowledges
/// messages that it has not read.
inline constexpr std::size_t kMaxUnreadControlBytes = std::size_t{32} << 20U;
/// Bytes of memory that a frame takes, besides its own bytes, while it waits to be read.
inline constexpr std::size_t kPerWaitingFrame = 128;
/// JSON values in one control message, and their nesting: a small text must not become large in memory.
inline constexpr std::size_t kMaxJsonValues = 65536;
inline constexpr int kMaxJsonDepth = 8;
/// Bytes of a node name, host, address or run id (DNS allows 253).
inline constexpr std::size_t kMaxNameBytes = 255;
/// Bytes of a text for people inside a message; the sender cuts longer texts.
inline constexpr std::size_t kMaxTextBytes = std::size_t{64} << 10U;
/// Nodes named in one text; the remaining ones are only counted.
inline constexpr std::size_t kMaxNamesInText = 8;
/// Workers of one node, and ranks of one job: far above any machine, small enough that sums fit in an int.
inline constexpr int kMaxWorkersPerNode = 1 << 16;
inline constexpr int kMaxWorldSize = 1 << 24;
/// Settings, and further addresses, that a node states when it joins.
inline constexpr std::size_t kMaxSettings = 64;
inline constexpr std::size_t kMaxAddresses = 64;
/// The highest exit code and signal number that a shell knows.
inline constexpr int kMaxExitCode = 255;
inline constexpr int kMaxSignal = 127;
/// Bytes of the line by which a worker's failure is recognised; the sender cuts longer lines.
inline constexpr std::size_t kMaxErrorLineBytes = 512;
/// Ranks that the verdict on a hang names as its cause; further ones are left out.
inline constexpr std::size_t kMaxCulprits = 1024;
/// Bytes of each text that says where a rank stands and what it waits for; the sender cuts longer ones.
inline constexpr std::size_t kMaxHealthTextBytes = 256;
/// Bytes of the text in which a node says what outside of the program may be the cause of a standstill.
inline constexpr std::size_t kMaxHostNewsBytes = 1000;
/// The highest line of a program that is believed.
inline constexpr int kMaxLine = 1 << 30;
/// The time for which no rank may move before the job counts as hung (--hang-timeout): longer than the steps,
/// checkpoints and evaluations of most programs, short enough that somebody still looks.
inline constexpr std::chrono::milliseconds kHangTimeout = std::chrono::seconds(60);
/// The longest delay before a restart: long enough for a failed service to come back, short enough not to
/// look like a hang.
inline constexpr std::chrono::milliseconds kMaxRestartDelay = std::chrono::seconds(30);

/// The longest wait of a round for the nodes that it needs, and the wait for more nodes after that, unless
/// the user says otherwise (--rdzv-conf). The values are torchrun's.
inline constexpr std::chrono::milliseconds kJoinTimeout = std::chrono::seconds(600);
inline constexpr std::chrono::milliseconds kLastCallTimeout = std::chrono::seconds(30);

// Sessions that outlive a connection, and channels inside them.

/// Bytes of numbered frames, or number of such frames, after which they are acknowledged at once.
inline constexpr std::size_t kAckAfterBytes = 64 * kKiB;
inline constexpr std::size_t kAckAfterMessages = 64;
/// The delay, from the first unacknowledged frame on, after which fewer frames are acknowledged together.
inline constexpr std::chrono::milliseconds kAckDelay{50};
/// Bytes of unacknowledged messages kept for a resumption; with more, the session is lost.
inline constexpr std::size_t kMaxUnacknowledgedBytes = 16 * kMiB;
/// Bytes that each direction of a fresh channel may carry before credit is given.
inline constexpr std::uint32_t kChannelCreditBytes = std::uint32_t{256} << 10U;
/// A sender that found less room than this in its channel is told when there is this much again: room for a
/// whole piece of a worker's output (agent/core/link_message.hpp).
inline constexpr std::size_t kChannelRoomBytes = 4 * kKiB;
/// Bytes of the payload of one raw frame: small enough that a heartbeat behind it is not late.
inline constexpr std::size_t kMaxRawPayloadBytes = 64 * kKiB;

// Liveness, on the monotonic clock of the observer.

inline constexpr std::chrono::milliseconds kHeartbeatInterval = std::chrono::seconds(1);
/// The silence after which a node is called suspect (three heartbeats), and dead (five).
inline constexpr std::chrono::milliseconds kSuspectAfter = std::chrono::seconds(3);
inline constexpr std::chrono::milliseconds kDeadAfter = std::chrono::seconds(5);
/// The least number of dead nodes that a coordinator recognises: more than a job has, since all may die at
/// once.
inline constexpr std::size_t kMaxFenced = std::size_t{1} << 14U;

// One request on the store's wire.

/// Bytes of a key. PyTorch's own (libuv) server has the same bound, so what works there works here.
inline constexpr std::uint64_t kMaxKeyBytes = 8 * kKiB;
/// Bytes of a value. PyTorch's own server has the same bound.
inline constexpr std::uint64_t kMaxValueBytes = 8 * kMiB;
/// Keys (or key-value pairs) in one request. PyTorch's own server has the same bound.
inline constexpr std::uint64_t kMaxKeysPerRequest = 131'072;
/// Bytes of one whole request. 131,072 keys of 8 KiB would be 1 GiB held for one connection.
inline constexpr std::uint64_t kMaxRequestBytes = 16 * kMiB;

// One connection.

/// Bytes of a fresh connection's read buffer. PyTorch flushes each 1,440 bytes; most requests are far
/// smaller.
inline constexpr std::size_t kInitialInputBytes = 2 * kKiB;
/// Bytes of a buffer that is kept. A larger buffer is given back when it is empty, so that an idle connection
/// costs little.
inline constexpr std::size_t kKeptBufferBytes = 64 * kKiB;
/// Bytes from which on a value is long: it is read from the socket into a string of its own, not through the
/// shared read buffer.
inline constexpr std::size_t kDirectValueBytes = 64 * kKiB;
/// Bytes by which the string of a long value grows: memory follows the bytes that came, not the announced
/// length.
inline constexpr std::size_t kDirectValueStepBytes = 256 * kKiB;
/// Bytes of replies that a client may leave unread before it is cut (four values of the largest size). Also
/// the largest single reply.
inline constexpr std::size_t kMaxUnreadOutputBytes = 32 * kMiB;
/// Time from accept to the first whole message; clients of PyTorch speak within one round trip.
inline constexpr std::chrono::milliseconds kHandshakeTimeout{5000};

// The listener.

/// Connections at once. 10,000 ranks with a few connections each; the descriptor limit is usually lower.
inline constexpr std::size_t kMaxConnections = 65'536;
/// Connections that have not yet sent a whole message and whose owner is not known; beyond, the oldest is
/// cut.
inline constexpr std::size_t kMaxPendingHandshakes = 256;
/// Connections of one address without a first message: one host's flood is cut from its own connections.
inline constexpr std::size_t kMaxPendingHandshakesPerAddress = 32;
/// The age below which a connection does not count for that bound, because all ranks of a host connect at the
/// same moment.
inline constexpr std::chrono::milliseconds kPendingBurst{500};
/// Connections taken per wake-up, so that a connect flood does not starve those already in.
inline constexpr int kAcceptsPerWakeUp = 64;
/// Descriptors left to the rest of the program (logs, workers' pipes) when the descriptor limit is near.
inline constexpr std::size_t kReservedDescriptors = 64;
/// The interval in which one log line about a peer address is printed: a scanner must not fill the disk.
inline constexpr std::chrono::milliseconds kBadPeerLogInterval{10'000};
/// Addresses that are remembered for those log lines; beyond, the memory is cleared.
inline constexpr std::size_t kMaxRememberedPeers = 1024;

// The store.

/// Bytes of keys, values, queue items and waits. A job's real use is kilobytes; beyond, writes fail.
inline constexpr std::size_t kMaxStoreBytes = 1 * kGiB;
/// Bytes charged for each key and item besides its text: the hash node, the string headers, the allocator.
inline constexpr std::size_t kPerEntryBytes = 128;

/// The time from an agent's report to its acknowledgement. The launcher's ssh notices a dead connection after
/// 15 s (ServerAliveInterval=5: two questions unanswered, and an interval more); then the report goes through
/// the coordinator.
inline constexpr std::chrono::seconds kReportAtMost{30};

/// The time that the daemon stays after the job is over and its own host's agent is gone, so that the other
/// nodes learn of the end and deliver their reports, which may have no other way.
inline constexpr std::chrono::seconds kDaemonLingers{35};

/// Jobs that a daemon hosts at once: far more than are used.
inline constexpr std::size_t kMaxHostedJobs = 64;
/// Bytes that the stores of all those jobs hold together, unless half of the machine's memory, or of that of
/// the daemon's cgroup, is less. Each job's store, and the daemon's own, may hold a 64th of this
/// (hosted_store_bytes()).
inline constexpr std::size_t kMaxHostedStoresBytes = 16 * kGiB;
/// Bytes of requests and replies under way, of all clients of one of a daemon's stores together.
inline constexpr std::size_t kMaxHostedBytesUnderWay = 256 * kMiB;
/// The time that a daemon that is told to end waits for its jobs' nodes to leave, after they have been told.
inline constexpr std::chrono::seconds kDaemonTakesLeave{3};

/// The time that the guardian lets the daemon live, after the grace period of the other nodes' workers.
inline constexpr std::chrono::seconds kDaemonAtMost{40};

}  // namespace muster::rendezvous
