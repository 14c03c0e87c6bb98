// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"fmt"
	"strings"
)

// fourLetters answers a monitoring command: four letters that a client sends
// where a frame's length is due (read as one they are far too long). It
// reports false for what is no command that this server knows.
func (s *Server) fourLetters(word string) (answer string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	watches, ephemerals := 0, 0
	for _, v := range s.views() {
		n := v.watches.count()
		watches += n.Data + n.Child
	}
	for _, own := range s.lead.tree.ephemerals {
		ephemerals += len(own)
	}
	const version = "3.8.0-zktest, built on 01/01/2000 00:00 UTC"
	var b strings.Builder
	switch word {
	case "ruok":
		b.WriteString("imok")
	case "srvr":
		executed := uint64(0)
		for _, n := range s.requests {
			executed += n
		}
		fmt.Fprintf(&b, "Zookeeper version: %s\n", version)
		fmt.Fprintf(&b, "Latency min/avg/max: 0/0.0/0\n") // not measured
		fmt.Fprintf(&b, "Received: %d\nSent: %d\nConnections: %d\nOutstanding: 0\n", executed, executed, len(s.conns))
		fmt.Fprintf(&b, "Zxid: %s\nMode: standalone\nNode count: %d\n", hex(s.lead.tree.zxid), len(s.lead.tree.nodes))
	case "mntr":
		for _, line := range []struct {
			key   string
			value any
		}{
			{"zk_version", version},
			{"zk_server_state", "standalone"},
			{"zk_num_alive_connections", len(s.conns)},
			{"zk_global_sessions", len(s.sessions)},
			{"zk_znode_count", len(s.lead.tree.nodes)},
			{"zk_ephemerals_count", ephemerals},
			{"zk_watch_count", watches},
			{"zk_outstanding_requests", 0},
		} {
			fmt.Fprintf(&b, "%s\t%v\n", line.key, line.value)
		}
	default:
		return "", false
	}
	return b.String(), true
}
