// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// A Message is for one entity, here an account. A sender that gets no reply sends it
// again with the same ID; the account applies it once.
type Message struct {
	ID     uint64
	Entity string
	Amount int64 // to be added to the balance; 0 only asks for it
}

// A Reply says that the owner of the entity has handled a message.
type Reply struct {
	Balance  int64
	Token    uint64 // of the grant under which the owner has handled it
	Reroutes int    // how often the message had to be sent on to another process
}

var (
	// errNotOwner says that the process does not own the entity, or no longer. Ask for
	// the holder again.
	errNotOwner = errors.New("this process does not own the entity")
	// errNoAnswer says that the message may have been handled, or not. Send it again,
	// with the same ID.
	errNoAnswer = errors.New("no answer")
	// errFenced says that the store has seen a later owner.
	errFenced = errors.New("a later owner was here")
)

// statuses are the errors that other processes are told by a status. Any other error
// is 503: not handled, try again.
var statuses = []struct {
	code int
	err  error
}{
	{http.StatusMisdirectedRequest, errNotOwner},
	{http.StatusGatewayTimeout, errNoAnswer},
	{http.StatusConflict, errFenced},
}

// pooled keeps connections to the other processes open.
var pooled = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}

// post sends in as JSON and reads the answer into out.
func post(ctx context.Context, url string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := pooled.Do(request)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 256))
		said := fmt.Errorf("%s says %s: %q", request.URL.Host, response.Status, bytes.TrimSpace(text))
		for _, s := range statuses {
			if s.code == response.StatusCode {
				return fmt.Errorf("%w: %w", s.err, said)
			}
		}
		return said
	}
	if err := json.NewDecoder(response.Body).Decode(out); err != nil {
		return fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	return nil
}

// answers makes an HTTP handler of a function.
func answers[In, Out any](answer func(context.Context, In) (Out, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in In
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		out, err := answer(r.Context(), in)
		if err == nil {
			_ = json.NewEncoder(w).Encode(out) // else the sender has gone, and will ask again
			return
		}
		code := http.StatusServiceUnavailable
		for _, s := range statuses {
			if errors.Is(err, s.err) {
				code = s.code
				break
			}
		}
		http.Error(w, err.Error(), code)
	}
}
