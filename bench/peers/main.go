// SPDX-License-Identifier: Apache-2.0

// Command peers serves one of the locks that Holdfast is compared with, as package
// work describes:
//
//	peers go-zookeeper   the Lock of github.com/go-zookeeper/zk
//	peers naive          the simplest lock: one node, for which all wait
//	peers etcd           the Mutex of etcd's package concurrency
//	peers redsync        the Mutex of github.com/go-redsync/redsync, on Redis
//
// With "contend" it has the stress harness contend for one of them: see contend.go.
//
// It is a separate module, so that Holdfast does not depend on clients of other
// systems. The peers that are not written in Go are curator/Curator.java, for Apache
// Curator, and kazoo/kazoo_lock.py.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/bench/internal/work"
)

var subjects = map[string]work.Subject{
	"go-zookeeper": goZooKeeper,
	"naive":        naive,
	"etcd":         etcd{},
	"redsync":      redsyncPeer{},
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "contend" {
		if err := contend(os.Args[2:], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "peers:", err)
			os.Exit(1)
		}
		return
	}
	var s work.Subject
	if len(os.Args) == 2 {
		s = subjects[os.Args[1]]
	}
	if s == nil {
		fmt.Fprintf(os.Stderr, "usage: peers %s\n", strings.Join(slices.Sorted(maps.Keys(subjects)), "|"))
		os.Exit(2)
	}
	if err := work.Serve(context.Background(), s, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// onGo returns the version of a subject, with those of its module and of Go.
func onGo(name, module, what string) string {
	version := "(version unknown)"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == module {
				version = strings.TrimPrefix(m.Version, "v")
			}
		}
	}
	return fmt.Sprintf("%s %s %s on %s", name, version, what, runtime.Version())
}
