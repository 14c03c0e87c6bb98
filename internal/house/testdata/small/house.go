// SPDX-License-Identifier: Apache-2.0

// Package small has known figures. This file uses door.go and bell.go, and door.go and
// key.go use each other, so that one of four references runs back.
package small

// House has two fields, one of them with three of its own.
type House struct {
	door
	bell bell
}

// Visit begins the longest walk, of Visit; open; insert and turn in key.go; back in door.go
// creak, of a generic type, and groan; and shut, which a literal calls.
func (h *House) Visit() {
	h.bell.ring() // by an interface
	h.open()
	defer func() {
		h.shut()
	}()
	report := leave // no call
	report()
}

func leave() {}
