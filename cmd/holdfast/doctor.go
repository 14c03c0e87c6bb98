// SPDX-License-Identifier: Apache-2.0

package main

import "errors"

type doctorCmd struct{}

// Run …
func (c *doctorCmd) Run(*app) error { return errors.New("doctor: not built yet") }
