// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"strconv"
)

func (s *script) runSent(a scriptArgs) {
	if len(a.words) == 0 {
		for _, p := range s.processes {
			p.sent = p.m.client.Stats().Sent
		}
	}
	for _, name := range a.words {
		p, counts := s.process(name), make(map[string]int)
		now := p.m.client.Stats().Sent
		for op, n := range now {
			if op != "ping" && op != "connect" && n > p.sent[op] {
				counts[op] = int(n - p.sent[op])
			}
		}
		p.sent = now
		if len(counts) > 0 {
			s.print("%s: sent %s", name, written(counts))
		} else {
			s.print("%s: sent nothing", name)
		}
	}
}

func (s *script) runStopAt(a scriptArgs) {
	p := s.process(a.words[0])
	nth, err := strconv.Atoi(a.words[2])
	wantErr(s.t, "the third word", err, nil)
	p.stop, p.stopped = s.stopAt(p.m, opNamed(s.t, a.words[1]), int32(nth)), false
}

func (s *script) runStrangers(a scriptArgs) {
	s.print("%s: %d strangers", a.words[0], s.lockOf(s.process(a.words[0]), a, a.words[1:]).Stats().Foreign)
}

func (s *script) runBehind(a scriptArgs) {
	other := s.hold(a.words[1])
	s.add(&scriptHold{name: a.words[0], p: other.p, l: other.l, h: waitBehind(s.t, other.h)})
}

func (s *script) runNumbers(a scriptArgs) {
	next, err := strconv.ParseInt(a.words[0], 10, 32)
	wantErr(s.t, "the number", err, nil)
	s.countFrom(int32(next))
}

func (s *script) runGuard(a scriptArgs) {
	if !s.srv.Exists(account) {
		s.account()
	}
	ctx, cancel := context.WithCancelCause(s.t.Context())
	s.t.Cleanup(func() { cancel(nil) })
	if d := a.duration(s.t, "timeout", 0); d > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, d, errGaveUp)
		s.t.Cleanup(stop)
	}
	h := s.hold(a.words[1]).h
	s.giveUps[a.words[0]] = cancel
	s.call("guard "+a.words[0], func() error { return write(ctx, h, a.words[2]) }, nil)
}

func (s *script) runGiveUp(a scriptArgs) { s.giveUps[a.words[0]](errGaveUp) }

func (s *script) runAccount(scriptArgs) {
	data, stat, _ := s.srv.Get(account)
	s.print("account: %s, written %d times", data, stat.Version)
}

func (s *script) runKept(a scriptArgs) {
	stats := s.process(a.words[0]).m.client.Stats()
	s.print("%s: %d nodes, %d watches", a.words[0], stats.Nodes, stats.Watches)
}
