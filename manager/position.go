// SPDX-License-Identifier: Apache-2.0

package manager

// position is where a round stands in the queue, behind at least one contender. There
// is one for each lock that the process waits for, so it is small.
type position struct {
	at    int64  // when it was there, on the manager's clock
	of    *ahead // the contender that it waits for; nil if that has just gone
	first *ahead // the one whose turn it is; nil if that is not known
	ahead int32  // contenders ahead that exclude this one
}

// contender returns the contender that the round waits for; nil if that is not known.
func (p *position) contender() *Contender {
	if p.of == nil {
		return nil
	}
	return p.of.contender()
}

// holder returns the contender whose turn it is; nil if that is not known.
func (p *position) holder() *Contender {
	if p.first == nil {
		return nil
	}
	c := p.first.contender()
	c.Holds = true
	return c
}
