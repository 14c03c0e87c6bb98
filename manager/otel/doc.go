// SPDX-License-Identifier: Apache-2.0

// Package otel reports what a [manager.Manager] does as OpenTelemetry traces.
//
//	spans := otel.New(provider)
//	m, err := manager.Open(ctx, manager.Config{Servers: servers, Observer: spans.Observe})
//
// To have more than one observer, call each:
//
//	Observer: func(e manager.Event) {
//		spans.Observe(e)
//		metrics.Observe(e)
//	},
//
// # Spans
//
// There are two kinds of spans:
//
//   - holdfast.wait lasts from the request of the process's first caller until the lock
//     is granted, or until all callers have given up or been refused. Then its status is
//     Error.
//   - holdfast.hold lasts from the grant until the process has given the lock up, or has
//     lost it. Then its status is Error.
//
// The hold is a child of the wait that led to it, so that one trace has both and a
// sampler keeps both or neither. The wait is the root of its trace. It cannot be a child of
// a caller's span, because the callers of a process share a wait and a hold: there may be
// a thousand of them, each with a trace of its own. To see the wait of one caller, make
// a span around the call of Lock.Lock, and find the wait by holdfast.lock and the time.
//
// Entering and leaving a lock that the process owns already makes no span.
//
// # Attributes
//
// Names, units and types are stable in the way that docs/stability.md describes for the
// API. Of every span:
//
//	holdfast.lock      string  the lock's name
//	holdfast.kind      string  "exclusive", "read", "write", "upgradable" or "mutex"
//	holdfast.round     int     distinguishes the waits of one Manager; a hold has its wait's
//	holdfast.cause     string  why the wait failed, the lock was lost, or its release is not
//	                           confirmed: one word, see manager.Event.Cause
//	holdfast.complete  bool    false: the end is not known, see Spans; otherwise left out
//
// Of a hold, and of a wait that was granted:
//
//	holdfast.token     int     the fencing token
//	holdfast.session   string  the ZooKeeper session, in hexadecimal as the server logs it
//
// # Events
//
// Of a wait:
//
//	queued   the process has an entry in the queue; if the session is lost, again
//	placed   holdfast.position (int) contenders are ahead; holdfast.ahead (string) describes
//	         the one that is waited for
//
// Of a hold:
//
//	entered  a caller entered by itself, after those that had waited; only the first one
//	yielded  newcomers wait until other processes have had their turn
//	revoked  another process asked for the lock: holdfast.from (string) and holdfast.reason
//	         (string), which nothing proves
//
// The events come to this package after they happened, so all times are those that the
// Manager noted, and not those of the calls.
package otel
