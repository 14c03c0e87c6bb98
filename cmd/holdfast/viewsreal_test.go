// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/otherclients"
	"github.com/holdfast-go/holdfast/internal/realzk"
)

// ls and who recognise the recipes of a real Curator on a real server.
func TestRealCuratorsRecipesShow(t *testing.T) {
	t.Parallel()
	zk := realzk.Shared(t)
	const root = "/curators"
	curator := otherclients.Start(t, otherclients.Curator(context.Background(), t, "testdata/curator/Recipes.java", zk.Addr(), root))
	select {
	case <-curator.Answers("all"):
	case <-time.After(patience):
		t.Fatal("Curator's recipes are not there")
	}
	for _, test := range []struct{ args, stdout string }{
		{"ls", `
			LOCK KIND HELD BY PID AGE WAITING
			barrier gate shut by ADDRESS - AGE 0
			group members 1 member - AGE 0
			latch latch app-7 (curator) - AGE 1
			mutex exclusive ADDRESS - AGE 0
			plain semaphore 1 permit - AGE 0
			queue queue 2 elements, 0 taken - AGE 2
			selector selector app-9 (curator) - AGE 0
			shared semaphore 2 of 3 permits - AGE 0`},
		{"who latch", `
			latch (latch): 1 process holds it, 1 waits
			# STATE KIND WHO PID AGE ENDPOINT SESSION
			1 holds exclusive app-7 (curator) - AGE - SESSION
			2 waits exclusive app-8 (curator) - AGE - SESSION`},
		{"who selector", `
			selector (selector): 1 process holds it, none waits
			# STATE KIND WHO PID AGE ENDPOINT SESSION
			1 holds exclusive app-9 (curator) - AGE - SESSION`},
		{"who mutex", `
			mutex (exclusive): 1 process holds it, none waits
			# STATE KIND WHO PID AGE ENDPOINT SESSION
			1 holds exclusive ADDRESS - AGE - SESSION`},
		{"who shared", `
			shared (semaphore): 2 of 3 permits in use, none waits
			# STATE WHO PID AGE ENDPOINT SESSION
			1 holds ADDRESS - AGE - SESSION
			2 holds ADDRESS - AGE - SESSION`},
		{"who plain", `
			plain (semaphore): 1 permit in use, none waits
			# STATE WHO PID AGE ENDPOINT SESSION
			1 holds ADDRESS - AGE - SESSION`},
		{"who queue", `
			queue (queue, ZooKeeper's DistributedQueue): 2 elements, 0 taken
			# STATE ELEMENT BYTES ATTEMPT WHO PID AGE ENDPOINT SESSION
			1 waits qn-0000000000 3 0 - - AGE - -
			2 waits qn-0000000001 5 0 - - AGE - -`},
		{"who group", `
			group (members): 1 member
			# STATE MEMBER AGE SESSION DATA
			1 member w1 AGE SESSION 10.0.0.1:80`},
		{"who barrier", `
			barrier (gate, Curator's DistributedBarrier): shut by ADDRESS
			# STATE WHO PID AGE ENDPOINT SESSION
			1 shut ADDRESS - AGE - -`},
	} {
		r := holdfastAt(zk.Addr(), append([]string{"--root=" + root}, strings.Fields(test.args)...)...)
		wantLines(t, test.args, spaced(addresses.ReplaceAllString(r.stdout, "ADDRESS")), spaced(test.stdout))
		if r.code != 0 || r.stderr != "" {
			t.Errorf("%s: exit code %d, %s", test.args, r.code, r.stderr)
		}
	}
}

// addresses matches what a client of Curator writes into nodes by default: the address of
// this machine.
var addresses = regexp.MustCompile(`\d+\.\d+\.\d+\.\d+ \(curator\)|[0-9a-f:%.]+:[0-9a-z%]* \(curator\)`)
