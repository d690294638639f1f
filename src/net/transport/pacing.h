// SPDX-License-Identifier: Apache-2.0
// Spreading what is sent over time.
#pragma once

namespace rgpu::net {

// Whether both ends of this TCP connection are on one host, as far as their addresses tell.
bool on_one_host(int fd);

// Where both ends of the connection are on one host: congestion control without pacing (reno, which
// every kernel has and allows everyone; tcp(7), TCP_CONGESTION), whatever
// net.ipv4.tcp_congestion_control says. There is no network whose queues could fill up, and what
// paces, as bbr does, sends each 64 KiB by a timer: half the speed. Other connections and sockets
// are left as they are.
void send_unpaced_on_one_host(int fd);

}  // namespace rgpu::net
