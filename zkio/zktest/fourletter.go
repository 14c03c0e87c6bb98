// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"net"
	"runtime"
	"slices"
	"strings"
)

// serverVersion is what the server says it is. Clients take the numbers out of it.
const serverVersion = "3.8.0-zktest, built on 01/01/2000 00:00 UTC"

// A word is a four-letter word: a monitoring command, which a client sends
// where a frame's length is due. (Read as a length, all of them are too large.)
// It writes its answer; the caller holds service.mu.
type word func(s *Server, w io.Writer)

var words = map[string]word{
	"conf": (*Server).writeConf,
	"cons": func(s *Server, w io.Writer) { s.writeConnections(w, false) },
	"crst": func(_ *Server, w io.Writer) { fmt.Fprintln(w, "Connection stats reset.") },
	"dirs": func(_ *Server, w io.Writer) { fmt.Fprintln(w, "datadir_size: 0\nlogdir_size: 0") },
	"dump": (*Server).writeDump,
	"envi": func(_ *Server, w io.Writer) {
		fmt.Fprintf(w, "Environment:\nzookeeper.version=%s\nhost.name=localhost\nos.name=%s\nos.arch=%s\n", serverVersion, runtime.GOOS, runtime.GOARCH)
	},
	"gtmk": func(s *Server, w io.Writer) { fmt.Fprint(w, s.traceMask) },
	"hash": func(*Server, io.Writer) {}, // digests of the data, which are off by default
	"isro": func(_ *Server, w io.Writer) { fmt.Fprint(w, "rw") },
	"mntr": (*Server).writeMonitor,
	"ruok": func(_ *Server, w io.Writer) { fmt.Fprint(w, "imok") },
	"srst": func(s *Server, w io.Writer) {
		s.received = 0
		fmt.Fprintln(w, "Server stats reset.")
	},
	"srvr": (*Server).writeStats,
	"stat": func(s *Server, w io.Writer) {
		fmt.Fprintf(w, "Zookeeper version: %s\nClients:\n", serverVersion)
		s.writeConnections(w, true)
		s.writeCounts(w)
	},
	"stmk": func(s *Server, w io.Writer) { fmt.Fprint(w, s.traceMask) },
	"wchc": (*Server).writeWatchesByConnection,
	"wchp": (*Server).writeWatchesByPath,
	"wchs": (*Server).writeWatchSummary,
}

// fourLetters answers the word that input, which a client has sent instead of a
// handshake, begins with. It reports false if there is no such word.
func (s *Server) fourLetters(input []byte) (answer string, ok bool) {
	name := string(input[:min(4, len(input))])
	write := words[name]
	if write == nil {
		return "", false
	}
	if allowed := s.cfg.FourLetterWords; allowed != nil && !slices.Contains(allowed, name) {
		return name + " is not executed because it is not in the whitelist.\n", true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.received++
	if len(input) >= 12 && name == "stmk" {
		s.traceMask = int64(binary.BigEndian.Uint64(input[4:]))
	}
	var b strings.Builder
	if s.role == looking && name != "ruok" {
		return "This ZooKeeper instance is not currently serving requests\n", true
	}
	write(s, &b)
	return b.String(), true
}

func (s *Server) writeConf(w io.Writer) {
	port := 0
	if len(s.listeners) > 0 {
		if a, ok := s.listeners[0].Addr().(*net.TCPAddr); ok {
			port = a.Port
		}
	}
	fmt.Fprintf(w, "clientPort=%d\nsecureClientPort=-1\ndataDir=\ndataDirSize=0\ndataLogDir=\ndataLogSize=0\n", port)
	fmt.Fprintf(w, "tickTime=%d\nmaxClientCnxns=0\n", s.cfg.TickTime.Milliseconds())
	fmt.Fprintf(w, "minSessionTimeout=%d\nmaxSessionTimeout=%d\n", s.cfg.MinSessionTimeout.Milliseconds(), s.cfg.MaxSessionTimeout.Milliseconds())
	fmt.Fprintf(w, "clientPortListenBacklog=-1\nserverId=%d\n", s.cfg.ID)
}

// writeConnections writes a line for each connection. How many frames have
// passed on it is not counted.
func (s *Server) writeConnections(w io.Writer, brief bool) {
	for _, c := range s.connections() {
		fmt.Fprintf(w, " /%s[0](queued=0,recved=1,sent=0", c.nc.RemoteAddr())
		if c.session != nil && !brief {
			fmt.Fprintf(w, ",sid=%s,to=%d", hex(c.sid), c.session.timeout.Milliseconds())
		}
		fmt.Fprintln(w, ")")
	}
	fmt.Fprintln(w)
}

func (s *Server) writeStats(w io.Writer) {
	fmt.Fprintf(w, "Zookeeper version: %s\n", serverVersion)
	s.writeCounts(w)
}

// writeCounts writes the end of srvr and stat. Latencies are not measured.
func (s *Server) writeCounts(w io.Writer) {
	fmt.Fprintf(w, "Latency min/avg/max: 0/0.0/0\nReceived: %d\nSent: %d\nConnections: %d\nOutstanding: 0\nZxid: %s\nMode: %s\nNode count: %d\n",
		s.received, s.received, len(s.conns), hex(s.view.tree.zxid), s.mode(), s.nodeCount())
}

// mode returns what the server is in its ensemble.
func (s *Server) mode() string {
	switch {
	case len(s.servers) == 1:
		return "standalone"
	case s.role == leading:
		return "leader"
	case s.observer:
		return "observer"
	}
	return "follower"
}

// nodeCount counts the root twice, as the real server does, where it has two
// names.
func (s *Server) nodeCount() int { return len(s.tree.nodes) + 1 }

func (s *Server) writeMonitor(w io.Writer) {
	watches, ephemerals := 0, 0
	for _, v := range s.views() {
		for side := range v.watches {
			n, _ := v.watches.count(watchSide(side))
			watches += n
		}
	}
	for _, own := range s.tree.ephemerals {
		ephemerals += len(own)
	}
	for _, line := range []struct {
		key   string
		value any
	}{
		{"version", serverVersion},
		{"server_state", s.mode()},
		{"ephemerals_count", ephemerals},
		{"num_alive_connections", len(s.conns)},
		{"avg_latency", "0.0"},
		{"outstanding_requests", 0},
		{"znode_count", s.nodeCount()},
		{"global_sessions", len(s.sessions)},
		{"packets_sent", s.received},
		{"packets_received", s.received},
		{"watch_count", watches},
		{"min_latency", 0},
		{"max_latency", 0},
	} {
		fmt.Fprintf(w, "zk_%s\t%v\n", line.key, line.value)
	}
}

// writeDump writes the sessions by the time of their expiry, their ephemeral
// nodes, and the connections.
func (s *Server) writeDump(w io.Writer) {
	const date = "Mon Jan 02 15:04:05 MST 2006"
	fmt.Fprintf(w, "SessionTracker dump:\nSession Sets (%d)/(%d):\n", len(s.expiry.buckets), len(s.sessions))
	byID := func(a, b *session) int { return cmp.Compare(a.id, b.id) }
	for _, tick := range slices.Sorted(maps.Keys(s.expiry.buckets)) {
		bucket := slices.SortedFunc(maps.Keys(s.expiry.buckets[tick]), byID)
		fmt.Fprintf(w, "%d expire at %s:\n", len(bucket), s.tickTime(tick).Format(date))
		for _, sess := range bucket {
			fmt.Fprintf(w, "\t%s\n", hex(sess.id))
		}
	}
	ephemerals := s.tree.ephemerals
	fmt.Fprintf(w, "ephemeral nodes dump:\nSessions with Ephemerals (%d):\n", len(ephemerals))
	for _, id := range slices.Sorted(maps.Keys(ephemerals)) {
		fmt.Fprintf(w, "%s:\n", hex(id))
		for _, n := range s.tree.owned(id) {
			fmt.Fprintf(w, "\t%s\n", n.path)
		}
	}
	fmt.Fprintf(w, "Connections dump:\nConnections Sets (1)/(%d):\n", len(s.conns))
	for _, c := range s.connections() {
		fmt.Fprintf(w, "\tip: /%s sessionId: %s\n", c.nc.RemoteAddr(), hex(c.sid))
	}
}

// The three words about watches show data watches only, as the real server's do.

func (s *Server) writeWatchesByPath(w io.Writer) {
	for _, v := range s.views() {
		paths := v.watches[dataSide].conns
		for _, path := range slices.Sorted(maps.Keys(paths)) {
			fmt.Fprintln(w, path)
			for _, c := range paths[path] {
				fmt.Fprintf(w, "\t%s\n", hex(c.sid))
			}
		}
	}
	fmt.Fprintln(w)
}

// dataWatches returns the paths of c's data watches.
func (c *conn) dataWatches() (paths []string) {
	for path, modes := range c.watches {
		if modes[dataSide] != unwatched {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

func (s *Server) writeWatchesByConnection(w io.Writer) {
	for _, c := range s.connections() {
		if paths := c.dataWatches(); len(paths) > 0 {
			fmt.Fprintf(w, "%s\n\t%s\n", hex(c.sid), strings.Join(paths, "\n\t"))
		}
	}
	fmt.Fprintln(w)
}

func (s *Server) writeWatchSummary(w io.Writer) {
	conns, paths, total := 0, 0, 0
	for _, c := range s.connections() {
		if len(c.dataWatches()) > 0 {
			conns++
		}
	}
	for _, v := range s.views() {
		watches, watched := v.watches.count(dataSide)
		total += watches
		paths += watched
	}
	fmt.Fprintf(w, "%d connections watching %d paths\nTotal watches:%d\n", conns, paths, total)
}
