// SPDX-License-Identifier: Apache-2.0

//go:build unix

package demo

import "syscall"

// Pause stops the process in the middle of whatever it is doing, until Resume.
func (p *Process) Pause() error { return p.Signal(syscall.SIGSTOP) }

// Resume lets a paused process go on.
func (p *Process) Resume() error { return p.Signal(syscall.SIGCONT) }
