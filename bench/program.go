// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/holdfast-go/holdfast/bench/internal/work"
)

// A program is a running subject: see package work. It is not safe for concurrent
// use.
type program struct {
	name    string
	server  string // address
	version string

	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

// newProgram returns a subject that is not started yet. The end of ctx kills it.
func newProgram(ctx context.Context, name, server string, argv []string) *program {
	p := &program{name: name, server: server, cmd: exec.CommandContext(ctx, argv[0], argv[1:]...)}
	p.cmd.Stderr = os.Stderr
	return p
}

// begin starts the subject and asks for its version.
func (p *program) begin() error {
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	p.out = json.NewDecoder(out)
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start the subject %s: %w", p.name, err)
	}
	r, err := p.do(work.Job{Work: work.Hello})
	if err != nil {
		return errors.Join(err, p.end())
	}
	p.version = r.Version
	return nil
}

// do has the subject do a job. It kills a subject that does not answer.
func (p *program) do(j work.Job) (work.Result, error) {
	if j.Server == "" {
		j.Server = p.server
	}
	limit := time.AfterFunc(j.Limit()+work.Grace, func() { _ = p.cmd.Process.Kill() })
	defer limit.Stop()
	var r work.Result
	err := json.NewEncoder(p.in).Encode(j)
	if err == nil {
		err = p.out.Decode(&r)
	}
	switch {
	case err != nil:
		return r, fmt.Errorf("%s: no answer to the job %+v: %w", p.name, j, err)
	case r.Err != "":
		return r, fmt.Errorf("%s: %s (the job was %+v)", p.name, r.Err, j)
	}
	return r, nil
}

// end closes the subject's input, which ends it, and waits for it.
func (p *program) end() error {
	_ = p.in.Close()
	limit := time.AfterFunc(10*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer limit.Stop()
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("the subject %s: %w", p.name, err)
	}
	return nil
}
