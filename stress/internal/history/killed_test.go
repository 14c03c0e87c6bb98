// SPDX-License-Identifier: Apache-2.0

package history

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
)

const childDir = "HOLDFAST_TEST_HISTORY"

// A process that is killed loses nothing of what it has written.
func TestKilled(t *testing.T) {
	if dir := os.Getenv(childDir); dir != "" {
		child(dir)
	}
	dir, _ := writers(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	// The child lives until it is killed, or until this process ends.
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "written\n" {
		t.Errorf("the child said %q, %v", line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if got := times(t, dir); len(got) != 1000 {
		t.Errorf("%d events of 1000", len(got))
	}
}

// child writes, says so, and waits to be killed.
func child(dir string) {
	w, err := Create(dir, 0, 0)
	for i := 0; i < 1000 && err == nil; i++ {
		err = w.Write(Event{Kind: Valid})
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("written")
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(1) // it was not killed
}
