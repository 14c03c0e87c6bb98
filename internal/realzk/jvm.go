// SPDX-License-Identifier: Apache-2.0

package realzk

import (
	"errors"
	"os"
	"os/exec"

	"github.com/holdfast-go/holdfast/internal/realzk/child"
)

// A jvm is a run of a server, from its start to its end.
type jvm struct {
	pid    int
	proc   *os.Process
	exited chan struct{} // closed when the process has been reaped
	err    error         // exit status; written before exited is closed, read after
}

// startJVM starts cmd and a goroutine that reaps it.
func startJVM(cmd *exec.Cmd) (*jvm, error) {
	starter := child.NewStarter()
	if err := starter.Start(cmd); err != nil {
		starter.Close()
		return nil, err
	}
	j := &jvm{pid: cmd.Process.Pid, proc: cmd.Process, exited: make(chan struct{})}
	go func() {
		if j.err = cmd.Wait(); j.err == nil {
			j.err = errors.New("exit status 0")
		}
		starter.Close()
		close(j.exited)
	}()
	return j, nil
}

// kill kills the process, if it has not exited, and waits for its end.
func (j *jvm) kill() error {
	if err := j.proc.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-j.exited
	return nil
}
