// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package demo

import "errors"

// Pause is not supported on this system.
func (p *Process) Pause() error { return errors.ErrUnsupported }

// Resume is not supported on this system.
func (p *Process) Resume() error { return errors.ErrUnsupported }
