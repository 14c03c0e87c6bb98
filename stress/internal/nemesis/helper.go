// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"errors"
	"os"

	"github.com/holdfast-go/holdfast/internal/realzk/child"
	"github.com/holdfast-go/holdfast/sentinel"
)

// HelperOf returns the helper of the process of that number; nil if it has none.
func HelperOf(pid int) Helper {
	p := child.Named(pid, sentinel.HelperName)
	if p == nil {
		return nil
	}
	return helperProcess{p}
}

// A helperProcess may end at any time.
type helperProcess struct{ *os.Process }

func (p helperProcess) Kill() error   { return unlessDone(p.Process.Kill()) }
func (p helperProcess) Pause() error  { return unlessDone(child.Pause(p.Process)) }
func (p helperProcess) Resume() error { return unlessDone(child.Resume(p.Process)) }

func unlessDone(err error) error {
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}
