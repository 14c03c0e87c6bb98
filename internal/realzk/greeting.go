// SPDX-License-Identifier: Apache-2.0

package realzk

import (
	"encoding/binary"
	"fmt"
	"io"
)

// A connection for electing a leader begins with the protocol's version, the number of
// the member that connects, the length of its address, and that address. This is the
// same in both versions.
const (
	greetingHead    = 8 + 8 + 4
	greetingV1      = -65536
	greetingV2      = -65535
	greetingMaximum = 512
)

// introduceAs returns a forwarder that replaces the address in the greeting with addr.
// A member that receives a connection from one with a lower number closes it
// and connects to the address in the greeting, which must be that of a relay, too.
func introduceAs(addr string) forwarder {
	return func(dst io.Writer, src io.Reader) error {
		head := make([]byte, greetingHead)
		if n, err := io.ReadFull(src, head); err != nil {
			_, werr := dst.Write(head[:n])
			return werr // the reader will see the end of src
		}
		version, length := int64(binary.BigEndian.Uint64(head)), binary.BigEndian.Uint32(head[16:])
		if version != greetingV1 && version != greetingV2 || length > greetingMaximum {
			return fmt.Errorf("not a greeting: version %d, length %d", version, length)
		}
		if _, err := io.CopyN(io.Discard, src, int64(length)); err != nil {
			return err
		}
		greeting := make([]byte, greetingHead+len(addr))
		copy(greeting, head)
		binary.BigEndian.PutUint32(greeting[16:], uint32(len(addr)))
		copy(greeting[greetingHead:], addr)
		if _, err := dst.Write(greeting); err != nil {
			return err
		}
		return forwardAll(dst, src)
	}
}
