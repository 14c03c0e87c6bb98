// SPDX-License-Identifier: Apache-2.0

// Command gozk has contenders that use go-zookeeper's lock, told by a test what to
// do. Its argument, input and output are those of the program for Apache Curator
// beside this one, but the only kind of lock is mutex, and it does not try or loop.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

var output sync.Mutex

func main() {
	clients := make(map[string]chan string)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		name, command, _ := strings.Cut(lines.Text(), " ")
		if clients[name] == nil {
			clients[name] = make(chan string, 100)
			go serve(name, os.Args[1], clients[name])
		}
		clients[name] <- command
	}
}

// serve carries out a client's commands, in a session of its own.
func serve(name, server string, commands <-chan string) {
	say := func(answer string) {
		output.Lock()
		defer output.Unlock()
		fmt.Println(name, answer)
	}
	c, _, err := zk.Connect([]string{server}, 10*time.Second, zk.WithLogInfo(false))
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
		}
		if err != nil {
			say("failed " + err.Error())
			return
		}
		say(strings.TrimSuffix(verb, "e") + "ed " + what)
	}
}
