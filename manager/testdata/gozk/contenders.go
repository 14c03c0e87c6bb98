// SPDX-License-Identifier: Apache-2.0

// Command gozk has contenders that use go-zookeeper's lock, told by a test what to
// do. Its arguments, input and output are those of the program for Apache Curator
// beside this one, but the only kind of lock is mutex, and it does not try.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

var output sync.Mutex

func main() {
	timeout := 10 * time.Second
	if len(os.Args) > 2 {
		ms, err := strconv.Atoi(os.Args[2])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		timeout = time.Duration(ms) * time.Millisecond
	}
	clients := make(map[string]chan string)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		name, command, _ := strings.Cut(lines.Text(), " ")
		if clients[name] == nil {
			clients[name] = make(chan string, 100)
			go serve(name, os.Args[1], timeout, clients[name])
		}
		clients[name] <- command
	}
}

// serve carries out a client's commands, in a session of its own.
func serve(name, server string, timeout time.Duration, commands <-chan string) {
	say := func(answer string) {
		output.Lock()
		defer output.Unlock()
		fmt.Println(name, answer)
	}
	c, _, err := zk.Connect([]string{server}, timeout, zk.WithLogInfo(false))
	if err != nil {
		say("failed " + err.Error())
		return
	}
	var lock *zk.Lock
	for command := range commands {
		verb, what, _ := strings.Cut(command, " ")
		switch verb {
		case "open":
			lock = zk.NewLock(c, what, zk.WorldACL(zk.PermAll))
			say("opened")
			continue
		case "acquire":
			err = lock.Lock()
		case "release":
			err = lock.Unlock()
		case "loop":
			kind, times, _ := strings.Cut(what, " ")
			if err = loop(lock, kind, times, say, commands); err == nil {
				say("done " + kind)
				continue
			}
		}
		if err != nil {
			say("failed " + err.Error())
			return
		}
		say(strings.TrimSuffix(verb, "e") + "ed " + what)
	}
}

// loop acquires and releases the lock so many times, and says when it is inside.
func loop(lock *zk.Lock, kind, times string, say func(string), commands <-chan string) error {
	n, err := strconv.Atoi(times)
	if err != nil {
		return err
	}
	for range n {
		if err := lock.Lock(); err != nil {
			return err
		}
		say("enter " + kind)
		<-commands
		time.Sleep(time.Millisecond)
		say("leave " + kind)
		<-commands
		if err := lock.Unlock(); err != nil {
			return err
		}
	}
	return nil
}
