// SPDX-License-Identifier: Apache-2.0

// Package nethttp serialises HTTP requests over all processes of a service: of the requests
// with the same key, one is served at a time, whichever process gets it. The key is what the
// requests must not do at the same time: the number of an order, say.
//
//	lock, err := nethttp.New(m, nethttp.Config{ // m is a *manager.Manager
//		Key:  func(r *http.Request) string { return r.PathValue("order") },
//		Wait: 2 * time.Second,
//	})
//	if err != nil {
//		return err
//	}
//	mux.Handle("POST /orders/{order}/pay", lock(pay))
//
// A request whose key another request has is answered with 423 Locked and a Retry-After
// header, at once or after Config.Wait, and does not reach the handler. If ZooKeeper cannot
// be reached, the answer is 503 Service Unavailable with the same header.
//
// The context of a request that reaches the handler ends when the lock is lost, with
// manager.ErrLost as its cause. [Hold] returns the hold from that context, and with it the
// fencing token:
//
//	grant, err := nethttp.Hold(r.Context()).Grant()
//	if err != nil {
//		http.Error(w, "try again", http.StatusServiceUnavailable)
//		return
//	}
//	// Send grant.Token and grant.Turn with each write.
//
// The lock is held until the handler has returned, so for as long as it streams. What a
// handler leaves to goroutines that outlive it is not protected. A handler that panics
// gives the lock up.
//
// # What it does not promise
//
// A handler whose lock was lost goes on until it looks at its context, and the response that
// it has begun cannot be taken back: the client may get 200 OK for work beside which another
// process worked. Only the fencing token keeps such work from taking effect. Until the
// handler returns, requests with its key are not served in its process: they are answered with 423,
// at once or after Config.Wait. In other processes they are served.
//
// Requests for one key are served one after the other, not once. A client that sends a
// request again, because it has not seen the answer, has it served again.
package nethttp
