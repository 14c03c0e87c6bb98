// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/election"
	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// events are what OnEvent has told.
type events struct {
	mu   sync.Mutex
	told []election.Event
}

func (es *events) note(e election.Event) {
	es.mu.Lock()
	defer es.mu.Unlock()
	es.told = append(es.told, e)
}

// all returns the events, and forgets them.
func (es *events) all() []election.Event {
	es.mu.Lock()
	defer es.mu.Unlock()
	defer func() { es.told = nil }()
	return es.told
}

// text returns the types of events.
func text(all []election.Event) string {
	var words []string
	for _, e := range all {
		words = append(words, e.Type.String())
	}
	return strings.Join(words, " ")
}

const (
	stood      = "START OFFER_START OFFER_COMPLETE "
	determined = "DETERMINE_START DETERMINE_COMPLETE "
	ready      = determined + "READY_START READY_COMPLETE "
	led        = determined + "ELECTED_START ELECTED_COMPLETE "
	stopped    = "STOP_START STOP_COMPLETE"
)

// candidacies is what the events of whole candidacies look like.
var candidacies = regexp.MustCompile(`^(START OFFER_START (FAILED |OFFER_COMPLETE ` + determined +
	`(READY_START READY_COMPLETE (OFFER_START OFFER_COMPLETE )?` + determined + `)*` +
	`(READY_START READY_COMPLETE |ELECTED_START (ELECTED_COMPLETE )?)(FAILED |` + stopped + ` )))*$`)

// checkEvents checks what whole candidacies have told.
func checkEvents(t *testing.T, who string, all []election.Event) {
	t.Helper()
	if words := text(all); len(all) > 0 && !candidacies.MatchString(words+" ") {
		t.Errorf("%s was told %s", who, words)
	}
	var token uint64
	offered := false
	for _, e := range all {
		switch e.Type {
		case election.EventStart:
			offered = false
		case election.EventOfferStart:
			if (e.Cause != nil) != offered {
				t.Errorf("%s is told of an offer with cause %v", who, e.Cause)
			}
			offered = true
		case election.EventFailed:
			if e.Cause == nil {
				t.Errorf("%s fails without a cause", who)
			}
		case election.EventElectedStart:
			if e.Token <= token {
				t.Errorf("%s is elected with token %d after %d", who, e.Token, token)
			}
			token = e.Token
		case election.EventElectedComplete:
			if e.Token != token {
				t.Errorf("%s leads with token %d, elected with %d", who, e.Token, token)
			}
		}
	}
}

func TestEvents(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		ma, a := open(c, "a")
		mb, b := open(c, "b")
		var ofA, ofB events
		stopA := a.OnEvent(ofA.note)
		defer b.OnEvent(ofB.note)()
		want := func(of *events, want string) []election.Event {
			t.Helper()
			synctest.Wait()
			all := of.all()
			if got := text(all); got != strings.TrimSpace(want) {
				t.Errorf("told\n%s, want\n%s", got, want)
			}
			return all
		}
		l := campaign(t, a)
		if all := want(&ofA, stood+led); all[len(all)-1].Token != l.Token() || all[len(all)-1].State != election.StateElected {
			t.Errorf("told %+v", all[len(all)-1])
		}
		second := campaign(t, a)
		want(&ofA, "") // the process leads already
		heir := b.Stand(t.Context())
		want(&ofB, stood+ready)
		c.Expire(mb)
		all := want(&ofB, "OFFER_START OFFER_COMPLETE "+ready)
		if all[0].Cause == nil {
			t.Error("it queues anew without a cause")
		}
		resign(t, l)
		want(&ofA, "")
		resign(t, second)
		want(&ofA, stopped)
		elected(t, heir)
		want(&ofB, led)

		waits, withdraw := context.WithCancel(t.Context())
		a.Stand(waits)
		want(&ofA, stood+ready)
		withdraw()
		want(&ofA, stopped)
		c.Expire(mb)
		all = want(&ofB, "FAILED")
		recipetest.WantErr(t, "cause", all[0].Cause, election.ErrLost)
		if all[0].State != election.StateFailed || all[0].Token != heir.Token() {
			t.Errorf("told %+v", all[0])
		}

		l = campaign(t, b)
		want(&ofB, stood+led)
		var late events // from here on
		stopLate := b.OnEvent(late.note)
		want(&late, stood+led)
		stopLate()
		a.Stand(t.Context())
		want(&ofA, stood+ready)
		stopA()
		_ = ma.Close()
		want(&ofA, "")
		_ = mb.Close()
		all = want(&ofB, "FAILED")
		recipetest.WantErr(t, "cause", all[0].Cause, manager.ErrClosed)
		want(&late, "")
		recipetest.WantErr(t, "in the end", l.Err(), manager.ErrClosed)
	})
}

// Shutdown refuses goroutines that wait until their process leads again, while others still
// lead. That is not the end of the term.
func TestEventsOfShutdown(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m, a := open(c, "a")
		_, b := open(c, "b")
		var of events
		defer a.OnEvent(of.note)()
		l := campaign(t, a)
		b.Stand(t.Context())
		recipetest.Later(time.Second) // newcomers have to let b lead first
		late := a.Stand(t.Context())
		synctest.Wait()
		recipetest.WantErr(t, "it waits", late.Err(), election.ErrNotElected)
		done := recipetest.BeginErr(t, func() error { return m.Shutdown(context.Background()) })
		recipetest.Later(time.Second)
		recipetest.WantErr(t, "the newcomer", late.Err(), manager.ErrClosed)
		recipetest.WantErr(t, "the leader", l.Err(), nil)
		resign(t, l)
		done.WantErr("shutdown", nil)
		all := of.all()
		if got, want := text(all), stood+led+stopped; got != want {
			t.Errorf("told\n%s, want\n%s", got, want)
		}
		checkEvents(t, "a", all)
	})
}

// A process that ZooKeeper refuses is told so.
func TestEventsRefused(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m, e := open(c, "a")
		var of events
		defer e.OnEvent(of.note)()
		c.Srv.Faults().FailRequest(zktest.Match{Session: recipetest.SessionOf(m), Path: lockDir, Times: zktest.Every}, zktest.CodeNoAuth)
		recipetest.WantErr(t, "campaign", recipetest.ErrOf(e.Campaign(t.Context())), zkio.ErrNoAuth)
		synctest.Wait()
		all := of.all()
		if text(all) != "START OFFER_START FAILED" || !errors.Is(all[2].Cause, zkio.ErrNoAuth) {
			t.Errorf("told %s: %v", text(all), all)
		}
	})
}

// However slow the function is, ELECTED_COMPLETE is told of each term that is told, before
// its end.
func TestF219_SlowEvents(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		_, a := open(c, "a")
		var of events
		var busy atomic.Bool
		stop := a.OnEvent(func(e election.Event) {
			if busy.Swap(true) {
				t.Error("called while a call is under way")
			}
			<-time.After(time.Second)
			of.note(e)
			busy.Store(false)
		})
		for range 3 {
			resign(t, campaign(t, a))
		}
		recipetest.Later(time.Minute)
		if got, want := text(of.all()), strings.Repeat(stood+led+stopped+" ", 3); got+" " != want {
			t.Errorf("told\n%s, want\n%s", got, want)
		}
		l := campaign(t, a)
		recipetest.Later(500 * time.Millisecond)
		stop()
		n := len(of.all())
		recipetest.Later(time.Minute)
		if later := of.all(); len(later) > 0 || n > 1 {
			t.Errorf("told %s after the stop, %d before", text(later), n)
		}
		resign(t, l)
	})
}

// A function that panics misses nothing but that event, and the process lives.
func TestF219_Panics(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		var log strings.Builder
		m := c.Open("a", func(cfg *manager.Config) { cfg.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		a := newElection(t, m, "a")
		var of events
		stop := a.OnEvent(func(e election.Event) {
			of.note(e)
			panic("oops at " + e.Type.String())
		})
		for range 2 {
			resign(t, campaign(t, a))
		}
		synctest.Wait()
		if got, want := text(of.all())+" ", strings.Repeat(stood+led+stopped+" ", 2); got != want {
			t.Errorf("told\n%s, want\n%s", got, want)
		}
		stop()
		for _, want := range []string{"oops at START", "oops at ELECTED_COMPLETE", name} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log does not have %q", want)
			}
		}
	})
}

func TestNames(t *testing.T) {
	for e, want := range map[election.EventType]string{0: "invalid", election.EventStart: "START", election.EventStopComplete: "STOP_COMPLETE", election.EventStopComplete + 1: "invalid", 255: "invalid"} {
		if got := e.String(); got != want {
			t.Errorf("the type %d is called %s, want %s", e, got, want)
		}
	}
	for s, want := range map[election.State]string{0: "invalid", election.StateStart: "START", election.StateStop: "STOP", election.StateStop + 1: "invalid"} {
		if got := s.String(); got != want {
			t.Errorf("the state %d is called %s, want %s", s, got, want)
		}
	}
}
