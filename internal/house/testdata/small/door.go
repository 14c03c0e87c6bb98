// SPDX-License-Identifier: Apache-2.0

package small

type door struct {
	key
	open1, open2 bool
}

func (d *door) open() {
	d.insert()
	d.turn()
}

func (d *door) shut() { d.turn() }

type hinge[T any] struct{}

func (hinge[T]) creak() { groan() }

func groan() {}
