// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"bytes"
	"encoding/json"
	"iter"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/manager"
)

// A Handler is an [http.Handler] that shows the locks of one Manager. All methods may be
// called concurrently.
type Handler struct {
	process  process
	source   atomic.Pointer[source] // nil until Manage
	history  ring                   // of the session
	troubles ring                   // of locks
}

// A source is what a Handler needs of a Manager.
type source interface {
	Stats() manager.ManagerStats
	Locks(all bool) iter.Seq[manager.LockInfo]
}

// New returns a Handler.
func New() *Handler { return &Handler{process: thisProcess()} }

// Manage names the Manager that is shown.
func (h *Handler) Manage(m *manager.Manager) { h.manage(m) }

func (h *Handler) manage(s source) { h.source.Store(&s) }

// Observe keeps what the page shows of the past. It is meant for the Observer in
// [manager.Config], and does not block. Without it, the page has no history.
func (h *Handler) Observe(e manager.Event) {
	switch e.Kind {
	case manager.EventSessionBegan, manager.EventConnectionLost,
		manager.EventConnectionResumed, manager.EventSessionOver, manager.EventPaused:
		h.history.add(recordOf(e))
	case manager.EventLost, manager.EventRevoked:
		h.troubles.add(recordOf(e))
	case manager.EventReleased:
		if e.Err != nil {
			h.troubles.add(recordOf(e))
		}
	case manager.EventFailed:
		if e.Cause() != "context" { // callers give up every day
			h.troubles.add(recordOf(e))
		}
	}
}

// ServeHTTP answers GET and HEAD with the page, or with JSON: see the package
// documentation for the parameters. It does no I/O but to answer.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", contentSecurityPolicy)
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD are allowed: this page changes nothing", http.StatusMethodNotAllowed)
		return
	}
	q, err := parseQuery(r.URL.RawQuery)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var body bytes.Buffer
	if q.json {
		header.Set("Content-Type", "application/json")
		encoder := json.NewEncoder(&body)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(h.report(q, time.Now()))
	} else {
		header.Set("Content-Type", "text/html; charset=utf-8")
		err = page.Execute(&body, view{h.report(q, time.Now()), q})
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write(body.Bytes()) // the client may have gone
}

// report makes the report that q asks for.
func (h *Handler) report(q query, now time.Time) report {
	r := report{
		Time:     now,
		Process:  h.process,
		History:  h.history.newestFirst(),
		Troubles: h.troubles.newestFirst(),
		Page:     1,
		Pages:    1,
		Locks:    []lock{},
	}
	if source := h.source.Load(); source != nil {
		stats := (*source).Stats()
		r.Manager = stateOf(&stats)
		r.choose((*source).Locks(q.show == "free"), q)
	}
	return r
}
