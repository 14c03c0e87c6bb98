// SPDX-License-Identifier: Apache-2.0

package fencing

import (
	"io"
	"net/http"
	"strconv"
	"sync"
	"testing"

	"net/http/httptest"
)

// objects is a store of one object that heeds If-Match and If-None-Match.
type objects struct {
	before func() // called before each PUT, if it is not nil

	mu      sync.Mutex
	version int // 0: there is no object
	content []byte
	token   string
}

func (o *objects) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if r.Method == http.MethodPut && o.before != nil {
		o.before()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	etag := strconv.Quote(strconv.Itoa(o.version))
	switch {
	case r.Method == http.MethodPut && r.Header.Get("If-None-Match") == "*" && o.version > 0,
		r.Method == http.MethodPut && r.Header.Get("If-Match") != "" && r.Header.Get("If-Match") != etag:
		http.Error(w, "the object has changed", http.StatusPreconditionFailed)
	case r.Method == http.MethodPut:
		o.version++
		o.content, o.token = body, r.Header.Get(tokenHeader)
	case o.version == 0:
		http.NotFound(w, r)
	default:
		w.Header().Set("ETag", etag)
		w.Header().Set(tokenHeader, o.token)
		_, _ = w.Write(o.content)
	}
}

// Another holder writes between the look and the write, which must not undo it.
func TestObjectChangesInBetween(t *testing.T) {
	for name, tt := range map[string]struct {
		there bool // the object exists before
		other uint64
		want  error
		left  string
	}{
		"a later holder creates it":   {false, 7, ErrStale, "other"},
		"an earlier one creates it":   {false, 3, nil, "otherours"},
		"one of the grant creates it": {false, 5, nil, "otherours"},
		"a later holder changes it":   {true, 7, ErrStale, "other"},
		"an earlier one changes it":   {true, 3, nil, "otherours"},
		"one of the grant changes it": {true, 5, nil, "otherours"},
	} {
		t.Run(name, func(t *testing.T) {
			store := &objects{}
			if tt.there {
				store.version, store.content, store.token = 1, []byte("first"), "1"
			}
			server := httptest.NewServer(store)
			defer server.Close()
			var once sync.Once
			store.before = func() {
				once.Do(func() {
					store.mu.Lock()
					defer store.mu.Unlock()
					store.version++
					store.content, store.token = []byte("other"), strconv.FormatUint(tt.other, 10)
				})
			}
			object := Object{server.Client(), server.URL}
			err := object.Update(t.Context(), 5, func(old []byte) []byte { return append(old, "ours"...) })
			if err != tt.want || string(store.content) != tt.left {
				t.Errorf("%v, left %q; want %v, %q", err, store.content, tt.want, tt.left)
			}
		})
	}
}
