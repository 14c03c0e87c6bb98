// SPDX-License-Identifier: Apache-2.0

// Package debug serves a page that shows every lock of a process, as it is now.
//
//	page := debug.New()
//	m, err := manager.Open(ctx, manager.Config{Servers: servers, Observer: page.Observe})
//	if err != nil {
//		return err
//	}
//	page.Manage(m)
//	http.Handle("/debug/holdfast", page)
//
// The page has the locks that the process holds or waits for: their phase, holders, age,
// token and lease, behind which contender the process waits, whether another process
// has asked for the lock, and when it was lost last. Those that look stuck come first. The
// page also has the session, its history, and the latest losses and failures. It renews
// itself every two seconds while it can be seen, and needs nothing but this handler.
//
// To have more than one observer, call each:
//
//	Observer: func(e manager.Event) {
//		page.Observe(e)
//		metrics.Observe(e)
//	},
//
// As with net/http/pprof, do not serve the page to strangers: it tells the names of
// locks, hosts and processes. It changes nothing.
//
// # Stuck
//
// A lock looks stuck if this process has waited for it for longer than the session
// timeout, since a holder that died would have lost it by then; or if this process has
// held it for longer than that, and another contender waits for it or has asked for it.
// It may be all right: some work takes long.
//
// # Parameters
//
//	q=TEXT       only locks with TEXT in the name or path, or in what is known of the
//	             holder, the contender ahead or the one that asked; in any case
//	show=WHAT    busy (default), waiting, held, releasing, stuck or free
//	sort=ORDER   stuck (default), age, holders, lease or name
//	limit=N      locks in a page: 1 to 1000, by default 100; in JSON without bound
//	page=N       which page, from 1 on
//	format=json  the same as JSON
//
// # JSON
//
// Names, units and types are stable in the way that docs/stability.md describes for the
// API. Durations are numbers of seconds, times are as in RFC 3339, sessions are
// hexadecimal as in ZooKeeper's log. What is not known is left out.
//
//	time             when this was made
//	process          host, pid and program
//	manager          the state of the Manager; left out until Manage is called
//	  session        its id
//	  connected      whether it has a connection
//	  outage         what is wrong with the connection
//	  sentinel_error why Config.Sentinel has no helper
//	  timeout_seconds, lease_seconds
//	  locks          how many exist
//	  pauses, paused_seconds  how often this process did not run, and for how long together
//	  sessions, reconnects, requests, answers, watch_events, grants, losses, failures,
//	  dropped_events counted since Open; requests by operation
//	  queued, busy, workers   of the pool of I/O goroutines
//	totals           of all locks that are not free: waiting, held, releasing and stuck
//	                 locks; holders and waiters, which are callers
//	matching         how many locks the parameters select
//	page, pages
//	locks            the locks of this page; one that is held or given up comes again, as
//	                 waiting, if callers wait for its next grant
//	  name, path, kind, phase
//	  holders        callers that hold it
//	  waiters        callers that wait for it
//	  stuck          whether it looks stuck
//	  since          when it was granted, or, if it waits, asked for
//	  age_seconds    how long ago that was
//	  node, token, lease_seconds
//	  position       how many contenders are ahead
//	  ahead, holder  contenders: path, kind, label, host, pid, endpoint, identity, since,
//	                 session, own, persistent
//	  contended, yielding
//	  revocation     from (a contender), reason, until
//	  taken_over     from (a contender), ended, after_seconds
//	  last_loss      time, held_seconds, error, session, node, token
//	  rounds, grants, joins, entries, lost_races, longest_race, foreign
//	                 as in manager.Stats
//	history          the last 200 events of the session, newest first: time, event, cause,
//	                 error, session, outage_seconds, paused_seconds
//	troubles         the last 200 losses, failures that are not the end of a caller's
//	                 patience, unconfirmed releases, and revocations, newest first: time,
//	                 event, lock, kind, cause, error, session, token, paused_seconds,
//	                 held_seconds, waited_seconds. Those that say the same of locks at
//	                 about the same time are one, about the first of them: count says how
//	                 many there were, and locks has the first names
package debug
