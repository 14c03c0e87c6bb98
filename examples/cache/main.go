// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/examples/internal/demo"
	"github.com/holdfast-go/holdfast/manager"
)

const (
	goroutines = 64 // of each process that reads
	duration   = 3 * time.Second
	pause      = 5 * time.Millisecond   // of a goroutine between two reads
	interval   = 500 * time.Millisecond // between two versions
)

func main() {
	servers := flag.String("servers", "", "ZooKeeper's connection string; default: an embedded server")
	role := flag.String("role", "", "run as \"reader\" or \"writer\"; the program starts its processes so")
	dir := flag.String("dir", "", "the directory of the data, for a role")
	flag.Parse()
	var err error
	if *role == "" {
		err = demonstrate(*servers)
	} else {
		err = work(*role, *servers, data(*dir))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cache:", err)
		os.Exit(1)
	}
}

// data are two files in a directory, which have the same version number in them.
type data string

// write writes first part a, and then part b.
func (d data) write(version int) error {
	for _, part := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(string(d), part), []byte(strconv.Itoa(version)), 0o600); err != nil {
			return err
		}
		demo.Sleep(context.Background(), 20*time.Millisecond) // to give mistakes a chance
	}
	return nil
}

// read reads both parts.
func (d data) read() (version int, err error) {
	a, errA := d.part("a")
	b, errB := d.part("b")
	if a != b {
		return 0, fmt.Errorf("half-written: part a is of version %d, and part b of %d", a, b)
	}
	return a, errors.Join(errA, errB)
}

func (d data) part(name string) (version int, err error) {
	text, err := os.ReadFile(filepath.Join(string(d), name))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(text))
}

// work reads the data, and writes them in the role of a writer, until the duration is over.
func work(role, connect string, d data) error {
	demo.EndWithParent()
	slog.SetLogLoggerLevel(slog.LevelWarn)
	ctx, cancel := context.WithTimeout(context.Background(), duration)
	defer cancel()
	servers, chroot, err := manager.ParseServers(connect)
	if err != nil {
		return err
	}
	m, err := manager.Open(ctx, manager.Config{Servers: servers, Chroot: chroot})
	if err != nil {
		return err
	}
	defer m.Close()
	lock, err := m.ReadWrite("cache/prices")
	if err != nil {
		return err
	}
	c := &Cache[int]{lock: lock, load: d.read}
	var writing sync.WaitGroup
	defer writing.Wait()
	if role == "writer" {
		writing.Go(func() {
			if failed := write(ctx, c, d); failed != nil {
				fmt.Println("no more versions:", failed)
				cancel()
			}
		})
	}
	return read(ctx, c, d)
}

// write writes new versions.
func write(ctx context.Context, c *Cache[int], d data) error {
	for version := 2; ; version++ {
		asked := time.Now()
		err := c.Change(ctx, func(context.Context) error { return d.write(version) })
		if err != nil && ctx.Err() == nil {
			return err
		} else if err == nil {
			fmt.Printf("version %d written, after a wait of %v\n", version, time.Since(asked).Round(time.Millisecond))
		}
		if !demo.Sleep(ctx, interval) {
			return nil
		}
	}
}

// read reads through the cache, by many goroutines.
func read(ctx context.Context, c *Cache[int], d data) error {
	var reading sync.WaitGroup
	var reads atomic.Int64
	failures := make([]error, goroutines)
	for i := range goroutines {
		reading.Go(func() {
			for ctx.Err() == nil && failures[i] == nil {
				written, err := d.part("b") // without the lock; an empty file is one that is being written
				version, failed := c.Get(ctx)
				switch {
				case failed == nil && err == nil && version < written:
					failures[i] = fmt.Errorf("version %d from the cache, after version %d was written", version, written)
				case failed == nil:
					reads.Add(1)
				case ctx.Err() == nil && !errors.Is(failed, manager.ErrLost):
					failures[i] = failed
				}
				demo.Sleep(ctx, pause)
			}
		})
	}
	reading.Wait()
	fmt.Printf("%d reads of what was loaded %d times, %d per load\n", reads.Load(), c.loads, reads.Load()/int64(max(1, c.loads)))
	return cmp.Or(failures...)
}

// demonstrate starts a process that writes and reads and two that only read, and prints what they say.
func demonstrate(given string) error {
	servers, stop, err := demo.Servers(given)
	if err != nil {
		return err
	}
	defer stop()
	dir, err := os.MkdirTemp("", "holdfast-cache-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = data(dir).write(1)
	}
	if err != nil {
		return err
	}
	lines := make(chan demo.Line)
	var running sync.WaitGroup
	failures := make([]error, 3)
	for i, role := range []string{"writer", "reader", "reader"} {
		p, err := demo.Start(fmt.Sprintf("process %d, %s", i+1, role), lines, "-role", role, "-servers", servers, "-dir", dir)
		if err != nil {
			return err
		}
		running.Go(func() { failures[i] = p.Wait() })
	}
	go func() {
		running.Wait()
		close(lines)
	}()
	for line := range lines {
		fmt.Printf("%s: %s\n", line.From.Name, line.Text)
	}
	return errors.Join(failures...)
}
