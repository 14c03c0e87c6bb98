// SPDX-License-Identifier: Apache-2.0

// Command run is `holdfast run` as a contender of the stress harness, whose protocol docs/testing.md
// has. For each grant of a client there is a process of holdfast, with a session of its own, whose
// program is inside while it runs. It is told of a loss by SIGTERM.
//
//	run HOLDFAST SERVERS MILLISECONDS
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
)

// inside says its token, and stays until its input ends. SIGTERM ends cat, too.
const inside = `trap 'echo lost; exit 1' TERM; echo "$HOLDFAST_TOKEN"; cat >/dev/null`

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: run HOLDFAST SERVERS MILLISECONDS")
		os.Exit(2)
	}
	c := contender{holdfast: os.Args[1], servers: os.Args[2], timeout: os.Args[3] + "ms"}
	c.say("ready")
	clients := map[string]chan []string{}
	var all sync.WaitGroup
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		words := strings.Fields(lines.Text())
		orders := clients[words[0]]
		if orders == nil {
			orders = make(chan []string, 1)
			clients[words[0]] = orders
			all.Go(func() { c.serve(words[0], orders) })
		}
		orders <- words
	}
	c.end()
	for _, orders := range clients {
		close(orders)
	}
	all.Wait()
}

type contender struct {
	holdfast, servers, timeout string

	saying sync.Mutex // held while a line is written

	mu    sync.Mutex // protects what follows
	runs  []*run     // that have not ended
	ended bool       // no more are to be started
}

// A run is a process of holdfast.
type run struct {
	cmd  *exec.Cmd
	in   io.WriteCloser // the program is inside until it is closed
	out  *bufio.Reader
	told chan struct{} // closed when the program has ended
}

func (c *contender) serve(client string, orders <-chan []string) {
	var r *run
	for words := range orders {
		var err error
		switch words[1] {
		case "acquire":
			var token string
			if r, token, err = c.acquire(words[2]); err == nil {
				c.say("%s granted token=%s", client, token)
				r.told = make(chan struct{})
				go c.watch(client, r)
			}
		case "release":
			_ = r.in.Close() // it fails only if the program has ended
			<-r.told
			if err = c.wait(r); err == nil {
				c.say("%s released", client)
			}
		default:
			err = fmt.Errorf("holdfast run cannot %s", words[1])
		}
		if err != nil {
			c.say("%s error %s", client, strings.ReplaceAll(err.Error(), "\n", ": "))
		}
	}
}

// acquire starts a run, and returns when its program is inside.
func (c *contender) acquire(lock string) (r *run, token string, err error) {
	r = &run{cmd: exec.Command(c.holdfast, "--servers", c.servers, "--session-timeout", c.timeout, "--root", path.Dir(lock),
		"run", "--quiet", path.Base(lock), "--", "sh", "-c", inside)}
	r.cmd.Stderr = os.Stderr
	if r.in, err = r.cmd.StdinPipe(); err != nil {
		return nil, "", err
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	r.out = bufio.NewReader(out)
	c.mu.Lock()
	err = errors.New("the run is over")
	if !c.ended {
		if err = r.cmd.Start(); err == nil {
			c.runs = append(c.runs, r)
		}
	}
	c.mu.Unlock()
	if err != nil {
		return nil, "", err
	}
	token, err = r.out.ReadString('\n')
	if err != nil {
		return nil, "", errors.Join(errors.New("it was not granted"), c.wait(r))
	}
	return r, strings.TrimSpace(token), nil
}

// watch tells the client of a loss. It ends with the run.
func (c *contender) watch(client string, r *run) {
	defer close(r.told)
	if line, _ := r.out.ReadString('\n'); line != "" {
		c.say("%s lost", client)
	}
	_, _ = io.Copy(io.Discard, r.out)
}

// wait waits for the end of a run.
func (c *contender) wait(r *run) error {
	err := r.cmd.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs = slices.DeleteFunc(c.runs, func(o *run) bool { return o == r })
	return err
}

// end has all runs end, and lets no more begin.
func (c *contender) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for _, r := range c.runs {
		_ = r.in.Close()
		_ = r.cmd.Process.Signal(os.Interrupt) // one that waits gives up
	}
}

func (c *contender) say(format string, args ...any) {
	c.saying.Lock()
	defer c.saying.Unlock()
	fmt.Printf(format+"\n", args...)
}
