// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// TestScripts plays the scripts in testdata/scripts in virtual time, on a server
// with ticks of 500 ms that looks for containers to delete every 10 s. They are
// about what a real server cannot do: the commands of their client "server" are
// Server's own methods. With -update it rewrites them; read the difference.
func TestScripts(t *testing.T) {
	eachScript(t, func(t *testing.T, file string) {
		synctest.Test(t, func(t *testing.T) {
			srv := newServer(t, zktest.Config{
				TickTime: 500 * time.Millisecond, MaxSessionTimeout: time.Hour,
				ContainerCheckInterval: 10 * time.Second, ExtendedTypes: true,
			})
			newRecord(t, dialing(srv)).control(srv).playFile(file)
		})
	}, "testdata/scripts")
}

// playFile plays a script from a file, which it rewrites with -update.
func (r *record) playFile(file string) {
	r.t.Helper()
	want, err := os.ReadFile(file)
	if err != nil {
		r.t.Fatal(err)
	}
	if !*update {
		r.expect(string(want))
	} else if err := os.WriteFile(file, []byte(r.play(string(want))), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// A remote carries out the commands of the "server" in a script.
type remote struct {
	*record
	srv    *zktest.Server
	start  time.Time
	lags   []*zktest.Lag
	faults []*zktest.Fault
	blocks []*zktest.Block
}

// control lets the client "server" in r's scripts control srv, and returns r.
func (r *record) control(srv *zktest.Server) *record {
	r.command = r.remote(srv).do
	return r
}

func (r *record) remote(srv *zktest.Server) *remote {
	return &remote{srv: srv, record: r, start: time.Now()}
}

func last[T any](s []T) T { return s[len(s)-1] }

func (m *remote) do(a args) (result string, ok bool) {
	show := func(values ...any) (string, bool) { return strings.TrimSpace(fmt.Sprintln(values...)), true }
	session := func(i int) int64 { return m.peer(a.words[i]).session }
	f := m.srv.Faults()
	match := func() zktest.Match {
		match := zktest.Match{Path: a.opts["path"], Nth: int(a.option("nth", 0)), Times: int(a.option("times", 1))}
		if op, ok := a.opts["op"]; ok {
			match.Op = zktest.Op(opNumbers[op])
		}
		if client, ok := a.opts["session"]; ok {
			match.Session = m.peer(client).session
		}
		return match
	}
	if fault := map[string]func(zktest.Match) *zktest.Fault{
		"DropReply": f.DropReply, "SwallowReply": f.SwallowReply,
		"DropRequest": f.DropRequest, "SwallowRequest": f.SwallowRequest,
	}[a.verb]; fault != nil {
		m.faults = append(m.faults, fault(match()))
		return "", true
	}
	switch a.verb {
	case "Create":
		return show(errorText(m.srv.Create(a.words[0], nil)))
	case "Set":
		return show(errorText(m.srv.Set(a.words[0], nil)))
	case "Delete":
		return show(errorText(m.srv.Delete(a.words[0])))
	case "SetSequence":
		return show(errorText(m.srv.SetSequence(a.words[0], int32(a.number(1)))))
	case "Nodes":
		return show(m.srv.Nodes())
	case "Watches":
		if len(a.words) == 0 {
			return show(fmt.Sprintf("%+v", m.srv.AllWatches()))
		}
		return show(fmt.Sprintf("%+v", m.srv.Watches(a.words[0])))
	case "Requests":
		return show(m.srv.Requests(zktest.Op(opNumbers[a.words[0]])))
	case "Sessions":
		var names []string
		for _, s := range m.srv.Sessions() {
			names = append(names, m.sess(s.ID))
		}
		return show(names)
	case "Expired":
		var names []string
		for _, x := range m.srv.Expired() {
			names = append(names, fmt.Sprintf("%s ephemerals=%d forced=%v", m.sess(x.Session), x.Ephemerals, x.Forced))
		}
		return show(cmp.Or(strings.Join(names, ", "), "none"))
	case "Connections":
		synctest.Wait()
		return show(m.srv.Connections())
	case "ExpireSession":
		return show(m.srv.ExpireSession(session(0)))
	case "Stop":
		m.srv.Stop()
	case "Start":
		m.srv.Start()
	case "Restart":
		m.srv.Restart()
	case "Cut":
		return show(f.Cut(session(0)))
	case "CutAll":
		return show(f.CutAll())
	case "RefuseFor":
		m.faults = append(m.faults, f.RefuseFor(a.duration(0)))
	case "Hits":
		hits := f.Hits()
		return show(hits[zktest.FaultKind(strings.Join(a.words, " "))])
	case "Lag":
		var sessions []int64
		for i := range a.words[1:] {
			sessions = append(sessions, session(i+1))
		}
		m.lags = append(m.lags, f.Lag(int(a.number(0)), sessions...))
	case "LagHits":
		l := last(m.lags)
		<-l.Hit()
		return show(l.Kind(), l.Hits())
	case "Pending":
		return show(last(m.lags).Pending())
	case "Advance":
		return show(last(m.lags).Advance(int(a.number(0))))
	case "CatchUp":
		m.lags[a.option("lag", int64(len(m.lags)-1))].CatchUp()
	case "RemoveLag":
		last(m.lags).Remove()
	case "DelayReply":
		m.faults = append(m.faults, f.DelayReply(match(), a.duration(0)))
	case "FailRequest":
		m.faults = append(m.faults, f.FailRequest(match(), zktest.Code(a.number(0))))
	case "FailReply":
		m.faults = append(m.faults, f.FailReply(match(), zktest.Code(a.number(0))))
	case "Blackhole":
		m.faults = append(m.faults, f.Blackhole(session(0)))
	case "BlackholeConnection":
		m.faults = append(m.faults, f.BlackholeConnection(session(0)))
	case "BlackholeNew":
		m.faults = append(m.faults, f.BlackholeNew())
	case "BlackholeAll":
		m.faults = append(m.faults, f.BlackholeAll())
	case "Remove":
		m.faults[a.number(0)].Remove()
	case "BlockRequests":
		m.blocks = append(m.blocks, f.BlockRequests(session(0)))
	case "BlockReplies":
		m.blocks = append(m.blocks, f.BlockReplies(session(0)))
	case "Waiting":
		synctest.Wait()
		b := last(m.blocks)
		return show(b.Waiting(), "of", b.Hits())
	case "Let":
		return show(last(m.blocks).Let(int(a.number(0))))
	case "RemoveBlock":
		last(m.blocks).Remove()
	case "Clear":
		f.Clear()
	case "sleep":
		time.Sleep(a.duration(0))
		synctest.Wait()
	case "clock":
		return show(time.Since(m.start))
	default:
		return "", false
	}
	return "", true
}

func errorText(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}
