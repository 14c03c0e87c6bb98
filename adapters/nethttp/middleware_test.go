// SPDX-License-Identifier: Apache-2.0

package nethttp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/adapters/internal/adaptertest"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// byPath is the key of the tests: the path without its slash.
func byPath(r *http.Request) string { return strings.TrimPrefix(r.URL.Path, "/") }

func newHandler(t *testing.T, m *manager.Manager, cfg Config, next http.HandlerFunc) http.Handler {
	t.Helper()
	cfg.Key = byPath
	lock, err := New(m, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return lock(next)
}

// serve has h serve a request.
func serve(ctx context.Context, h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, path, http.NoBody))
	return w
}

// ok is a handler that only answers.
func ok(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") }

// wantStatus checks the status of a response, and its header Retry-After if it is a refusal.
func wantStatus(t *testing.T, what string, w *httptest.ResponseRecorder, status int, retryAfter string) {
	t.Helper()
	if w.Code != status || w.Header().Get("Retry-After") != retryAfter {
		t.Errorf("%s: %d, Retry-After %q, %q; want %d, %q", what, w.Code, w.Header().Get("Retry-After"), w.Body, status, retryAfter)
	}
}

// Requests with a key follow each other over all processes, with rising tokens; those with
// another key do not wait for them.
func TestRequestsFollowEachOther(t *testing.T) {
	adaptertest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		var mu sync.Mutex
		inside, last := map[string]int{}, map[string]manager.Grant{}
		work := func(_ http.ResponseWriter, r *http.Request) {
			grant, err := Hold(r.Context()).Grant()
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			if inside[r.URL.Path]++; inside[r.URL.Path] != 1 {
				t.Errorf("%s: %d requests are inside", r.URL.Path, inside[r.URL.Path])
			}
			if grant.Compare(last[r.URL.Path]) <= 0 {
				t.Errorf("%s: grant %v after %v", r.URL.Path, grant, last[r.URL.Path])
			}
			last[r.URL.Path] = grant
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			inside[r.URL.Path]--
			mu.Unlock()
		}
		start := time.Now()
		var wg sync.WaitGroup
		for range 2 {
			h := newHandler(t, adaptertest.Open(t, srv), Config{Wait: time.Minute}, work)
			for i := range 10 {
				wg.Go(func() { wantStatus(t, "request", serve(t.Context(), h, []string{"/a", "/b"}[i%2]), http.StatusOK, "") })
			}
		}
		wg.Wait()
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("all took %v, want 10s", took)
		}
	})
}

// A request that does not wait is refused at once, in either process, and served when the response
// of the other has ended.
func TestRefusesAtOnce(t *testing.T) {
	adaptertest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		m := adaptertest.Open(t, srv)
		release := make(chan struct{})
		slow := newHandler(t, m, Config{}, func(http.ResponseWriter, *http.Request) { <-release })
		var told error
		cfg := Config{RetryAfter: 1500 * time.Millisecond}
		same := newHandler(t, m, cfg, ok)
		cfg.Refuse = func(w http.ResponseWriter, _ *http.Request, status int, err error) {
			told = err
			w.WriteHeader(status)
		}
		other := newHandler(t, adaptertest.Open(t, srv), cfg, ok)
		done := make(chan struct{})
		go func() { serve(t.Context(), slow, "/a"); close(done) }()
		synctest.Wait()
		start := time.Now()
		wantStatus(t, "the same process", serve(t.Context(), same, "/a"), http.StatusLocked, "2")
		wantStatus(t, "another process", serve(t.Context(), other, "/a"), http.StatusLocked, "2")
		if e, ok := errors.AsType[*manager.Error](told); !ok || e.Holder == nil {
			t.Errorf("Refuse was told %v, want the holder", told)
		}
		wantStatus(t, "another key", serve(t.Context(), other, "/b"), http.StatusOK, "")
		if took := time.Since(start); took != 0 {
			t.Errorf("the requests took %v", took)
		}
		close(release)
		<-done
		for i := range 20 { // the lock is free as soon as the response has ended
			wantStatus(t, "one after the other", serve(t.Context(), []http.Handler{same, other}[i%2], "/a"), http.StatusOK, "")
		}
	})
}

// A request that waits gives up after Wait, or when its client goes away, and leaves nothing
// in the queue.
func TestWaits(t *testing.T) {
	adaptertest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		m := adaptertest.Open(t, srv)
		release := make(chan struct{})
		go serve(t.Context(), newHandler(t, m, Config{}, func(http.ResponseWriter, *http.Request) { <-release }), "/a")
		synctest.Wait()
		for name, m := range map[string]*manager.Manager{"the same process": m, "another process": adaptertest.Open(t, srv)} {
			h := newHandler(t, m, Config{Wait: 3 * time.Second}, ok)
			start := time.Now()
			wantStatus(t, name, serve(t.Context(), h, "/a"), http.StatusLocked, "1")
			if took := time.Since(start); took != 3*time.Second {
				t.Errorf("%s: refused after %v, want 3s", name, took)
			}
			gone, cancel := context.WithTimeout(t.Context(), time.Second)
			wantStatus(t, name+", client gone", serve(gone, h, "/a"), http.StatusLocked, "1")
			cancel()
			if took := time.Since(start); took != 4*time.Second {
				t.Errorf("%s: gave up after %v, want 4s", name, took)
			}
			synctest.Wait()
			if nodes := srv.Children("/holdfast/http/a"); len(nodes) != 1 {
				t.Errorf("%s: in the queue: %v, want the holder", name, nodes)
			}
		}
		close(release)
	})
}

// When the lock is lost, the request's context ends, and another process serves.
func TestContextEndsWithTheLock(t *testing.T) {
	adaptertest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		h := newHandler(t, adaptertest.Open(t, srv), Config{}, func(_ http.ResponseWriter, r *http.Request) {
			grant, err := Hold(r.Context()).Grant()
			if err != nil {
				t.Error(err)
			}
			srv.ExpireSession(grant.Session)
			<-r.Context().Done()
			if err := context.Cause(r.Context()); !errors.Is(err, manager.ErrLost) {
				t.Errorf("the context ended with %v, want ErrLost", err)
			}
			if err := Hold(r.Context()).Err(); !errors.Is(err, manager.ErrLost) {
				t.Errorf("hold: %v, want ErrLost", err)
			}
			wantStatus(t, "another process", serve(t.Context(), newHandler(t, adaptertest.Open(t, srv), Config{}, ok), "/a"), http.StatusOK, "")
		})
		serve(t.Context(), h, "/a")
		time.Sleep(time.Minute)
		wantStatus(t, "afterwards", serve(t.Context(), newHandler(t, adaptertest.Open(t, srv), Config{}, ok), "/a"), http.StatusOK, "")
	})
}

func TestOutage(t *testing.T) {
	adaptertest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		m := adaptertest.Open(t, srv)
		srv.Stop()
		for _, cfg := range []Config{{}, {Wait: 5 * time.Second}} {
			start, want := time.Now(), max(cfg.Wait, 2*time.Second)
			wantStatus(t, "in an outage", serve(t.Context(), newHandler(t, m, cfg, ok), "/a"), http.StatusServiceUnavailable, "1")
			if took := time.Since(start); took != want {
				t.Errorf("refused after %v, want %v", took, want)
			}
		}
		// The end of a response does not wait for the server's return.
		srv.Start()
		time.Sleep(time.Minute)
		start := time.Now()
		wantStatus(t, "stopped meanwhile", serve(t.Context(), newHandler(t, m, Config{}, func(http.ResponseWriter, *http.Request) { srv.Stop() }), "/a"), http.StatusOK, "")
		if took := time.Since(start); took != unlockTimeout {
			t.Errorf("the response took %v, want %v", took, unlockTimeout)
		}
		srv.Start()
		time.Sleep(time.Minute)
		if nodes := srv.Children("/holdfast/http/a"); len(nodes) != 0 {
			t.Errorf("left in the queue: %v", nodes)
		}
		// Behind another request, whose end this process cannot hear of.
		release := make(chan struct{})
		go serve(t.Context(), newHandler(t, adaptertest.Open(t, srv), Config{}, func(http.ResponseWriter, *http.Request) { <-release }), "/a")
		synctest.Wait()
		time.AfterFunc(time.Second, srv.Stop)
		wantStatus(t, "queued", serve(t.Context(), newHandler(t, m, Config{Wait: 5 * time.Second}, ok), "/a"), http.StatusServiceUnavailable, "1")
		srv.Start()
		close(release)
		_ = m.Close()
		wantStatus(t, "closed", serve(t.Context(), newHandler(t, m, Config{}, ok), "/a"), http.StatusServiceUnavailable, "1")
	})
}

// Without a key there is no lock. A middleware inside another one shares its lock.
func TestWithoutKeyAndNested(t *testing.T) {
	adaptertest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		m := adaptertest.Open(t, srv)
		h := newHandler(t, m, Config{}, func(_ http.ResponseWriter, r *http.Request) {
			if err := Hold(r.Context()).Err(); !errors.Is(err, manager.ErrReleased) {
				t.Errorf("hold: %v, want ErrReleased", err)
			}
		})
		wantStatus(t, "without a key", serve(t.Context(), h, "/"), http.StatusOK, "")
		if nodes := srv.Children("/holdfast"); len(nodes) != 0 {
			t.Errorf("locks: %v, want none", nodes)
		}
		inner := newHandler(t, m, Config{}, func(_ http.ResponseWriter, r *http.Request) {
			if err := Hold(r.Context()).Err(); err != nil {
				t.Error(err)
			}
		})
		wantStatus(t, "nested", serve(t.Context(), newHandler(t, m, Config{Wait: time.Second}, inner.ServeHTTP), "/a"), http.StatusOK, "")
		if nodes := srv.Children("/holdfast/http/a"); len(nodes) != 0 {
			t.Errorf("left in the queue: %v", nodes)
		}
	})
}

// With a real server: the lock is held while a response streams, and given up when the
// handler panics.
func TestStreamsAndPanics(t *testing.T) {
	t.Parallel()
	zk := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = zk.Close() })
	m := adaptertest.Open(t, zk)
	goOn := make(chan struct{})
	h := newHandler(t, m, Config{}, func(w http.ResponseWriter, r *http.Request) {
		switch r.FormValue("do") {
		case "stream":
			fmt.Fprintln(w, "first")
			w.(http.Flusher).Flush()
			<-goOn
			fmt.Fprintln(w, "last")
		case "panic":
			panic("handler")
		case "abort":
			panic(http.ErrAbortHandler)
		}
	})
	srv := httptest.NewUnstartedServer(h)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.Start()
	t.Cleanup(srv.Close)
	get := func(do string) (*http.Response, error) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+"/a?do="+do, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		return srv.Client().Do(request)
	}
	status := func(do string) int {
		response, err := get(do)
		if err != nil {
			return 0
		}
		defer response.Body.Close()
		return response.StatusCode
	}

	stream, err := get("stream")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	body := bufio.NewReader(stream.Body)
	if line, err := body.ReadString('\n'); line != "first\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if s := status(""); s != http.StatusLocked {
		t.Errorf("while another streams: %d, want %d", s, http.StatusLocked)
	}
	close(goOn)
	if rest, err := io.ReadAll(body); string(rest) != "last\n" || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
	for _, do := range []string{"", "panic", "", "abort", ""} {
		want := http.StatusOK
		if do != "" {
			want = 0 // the server closes the connection
		}
		// It does so after the handler's deferred functions.
		if s := status(do); s != want {
			t.Errorf("%q: %d, want %d", do, s, want)
		}
	}
}

func TestKeysOfAnyKind(t *testing.T) {
	adaptertest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		keys := []string{"/a%2Fb", "/a//b", "/..", "/zookeeper", "/%00", "/" + strings.Repeat("x", 1000), "/" + strings.Repeat("x", 1001)}
		h := newHandler(t, adaptertest.Open(t, srv), Config{}, ok)
		for _, key := range keys {
			wantStatus(t, key, serve(t.Context(), h, key), http.StatusOK, "")
		}
	})
}

func TestNewRefuses(t *testing.T) {
	adaptertest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		m := adaptertest.Open(t, srv)
		if _, err := New(m, Config{}); !errors.Is(err, ErrNoKey) {
			t.Errorf("without a key: %v, want ErrNoKey", err)
		}
		if _, err := New(m, Config{Key: byPath, Prefix: "a//"}); !errors.Is(err, manager.ErrBadName) {
			t.Errorf("bad prefix: %v, want ErrBadName", err)
		}
	})
}
