// SPDX-License-Identifier: Apache-2.0

package zkio_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// watcher closes its channel when something happens to its path.
type watcher chan struct{}

func (w watcher) PathChanged(path string, ev zkio.Event) {
	fmt.Println("a contender was", ev)
	close(w)
}

// A contender queues with a node of its own, waits until another's is gone,
// and knows from the lease how long it may trust its own to be there.
func Example() {
	quiet := slog.New(slog.DiscardHandler)
	server := zktest.NewServer(zktest.Config{Logger: quiet}) // a real ensemble, in production
	defer server.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	client, err := zkio.Open(ctx, zkio.Config{Servers: []string{"zk"}, Dialer: server.Dial, Logger: quiet})
	if err != nil {
		fmt.Println(err)
		return
	}
	s := client.Session()
	if err := s.EnsureDir("/queue", nil); err != nil {
		fmt.Println(err)
		return
	}
	names := 0
	guid := func() string { names++; return fmt.Sprintf("%016x", names) }
	ahead := zkio.NewNode("/queue", "lock-", guid, nil, nil, nil)
	mine := zkio.NewNode("/queue", "lock-", guid, nil, nil, nil)
	for _, n := range []*zkio.Node{ahead, mine} {
		if err := n.Create(s); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(n.Name())
	}

	gone := make(watcher)
	path := ahead.Path()
	client.Watch(path, gone) // before the read that sets the watch
	if _, _, err := s.Get(path); err != nil {
		fmt.Println(err)
		return
	}
	if err := ahead.Delete(s); err != nil {
		fmt.Println(err)
		return
	}
	<-gone
	client.Unwatch(path, gone)
	fmt.Println("trusted:", s.Lease().InForce())

	if err := mine.Delete(s); err != nil {
		fmt.Println(err)
	}
	fmt.Println("closed:", client.Close(ctx))
	fmt.Println("trusted:", s.Lease().InForce())
	// Output:
	// _c_0000000000000001-lock-0000000000
	// _c_0000000000000002-lock-0000000001
	// a contender was deleted
	// trusted: true
	// closed: <nil>
	// trusted: false
}
