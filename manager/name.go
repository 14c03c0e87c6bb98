// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/takeover"
)

// maxPath bounds the length of a lock's directory, in bytes. A contender's node
// adds some 60. ZooKeeper limits only the whole request, but every queue entry,
// watch and log line repeats the path, so it should be short.
const maxPath = 1024

// maxEscaped bounds the length of what Escape returns; longer results are cut and
// hashed.
const maxEscaped = 255

// reservedSegment is ZooKeeper's own directory.
const reservedSegment = "zookeeper"

// LockPath returns the path of the directory in which the lock called name queues, below
// root, which is as Config.Root. It is for tools that read such directories: see package
// inspect. The errors are [ErrBadName], and [ErrBadConfig] for a root that [Open] would
// refuse. LockPath does no I/O and does not block.
func LockPath(root, name string) (string, error) {
	if err := checkRoot(root); err != nil {
		return "", fmt.Errorf("%w: %w", ErrBadConfig, err)
	}
	return lockPath(root, name)
}

// lockPath returns the directory of the lock called name under root, or an
// error that wraps ErrBadName.
func lockPath(root, name string) (string, error) {
	trimmed := strings.TrimPrefix(name, "/")
	if err := checkSegments(trimmed); err != nil {
		return "", fmt.Errorf("%w: %w", ErrBadName, err)
	}
	path := strings.TrimSuffix(root, "/") + "/" + trimmed
	if len(path) > maxPath {
		return "", fmt.Errorf("%w: its path has %d bytes, at most %d are allowed", ErrBadName, len(path), maxPath)
	}
	return path, nil
}

// checkRoot returns an error unless root is an absolute, clean path that leaves
// room for names.
func checkRoot(root string) error {
	switch {
	case len(root) > maxPath/2:
		return fmt.Errorf("it has %d bytes, which leaves too little of a path's %d for names: at most %d are allowed", len(root), maxPath, maxPath/2)
	case !strings.HasPrefix(root, "/"):
		return fmt.Errorf("root %q does not begin with a slash", root)
	case root == "/":
		return nil
	}
	if err := checkSegments(root[1:]); err != nil {
		return fmt.Errorf("root %q: %w", root, err)
	}
	return nil
}

func checkSegments(path string) error {
	if path == "" {
		return fmt.Errorf("it is empty")
	}
	if !utf8.ValidString(path) {
		return fmt.Errorf("it is not valid UTF-8")
	}
	for segment := range strings.SplitSeq(path, "/") {
		if err := checkSegment(segment); err != nil {
			return err
		}
	}
	return nil
}

func checkSegment(segment string) error {
	switch segment {
	case "":
		return fmt.Errorf("it has an empty segment (a slash at its end, or two in a row)")
	case ".", "..":
		return fmt.Errorf("segment %q is a relative path", segment)
	case reservedSegment:
		return fmt.Errorf("segment %q is reserved by ZooKeeper", segment)
	case asksSegment:
		return fmt.Errorf("segment %q is reserved for questions to holders", segment)
	case marksSegment:
		return fmt.Errorf("segment %q is reserved for the marks of holders", segment)
	case takeover.Segment:
		return fmt.Errorf("segment %q is reserved for notes of killed processes", segment)
	}
	for _, r := range segment {
		if illegalRune(r) {
			return fmt.Errorf("segment %s has the character %U, which ZooKeeper refuses", quoted(segment), r)
		}
	}
	if _, ok := queue.ParseName(segment); ok {
		return fmt.Errorf("segment %s looks like the node of a contender", quoted(segment))
	}
	return nil
}

// lastSegment returns the last segment of a path: the name of a node.
func lastSegment(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// illegalRune reports whether ZooKeeper refuses r in a path: control characters,
// surrogates, the private use area of the basic plane, and everything from the
// specials at its end. That includes all that is beyond the basic plane, such as
// emoji, because the server looks at UTF-16 code units and finds two surrogates.
func illegalRune(r rune) bool {
	return r <= 0x1f || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
}

// Escape makes one legal segment of a lock's name out of any string, so that an
// identifier from elsewhere (a file name, a URL, a user's input) can be part of a
// name. It keeps what is legal and readable, and writes every other byte, and '%'
// itself, as '%' and two hexadecimal digits. Different strings give different
// segments; a result that would be longer than 255 bytes is cut and ends in "%~"
// and a hash of the whole. Escape does not block.
func Escape(id string) string {
	if id == "" {
		return "%"
	}
	var b strings.Builder
	for i := 0; i < len(id); {
		r, n := utf8.DecodeRuneInString(id[i:])
		if r == '/' || r == '%' || r == utf8.RuneError && n == 1 || illegalRune(r) {
			for _, c := range []byte(id[i : i+n]) {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		} else {
			b.WriteString(id[i : i+n])
		}
		i += n
	}
	s := b.String()
	if checkSegment(s) != nil {
		// ".", "..", "zookeeper", "_asks_", "_held_", "_taken_" and the names of contenders' nodes
		// become legal once their first byte is escaped.
		s = fmt.Sprintf("%%%02X", s[0]) + s[1:]
	}
	if len(s) > maxEscaped {
		sum := sha256.Sum256([]byte(id))
		tail := "%~" + hex.EncodeToString(sum[:])
		head := s[:maxEscaped-len(tail)]
		for !utf8.ValidString(head) {
			head = head[:len(head)-1]
		}
		s = head + tail
	}
	return s
}

// marksSegment is the directory under the root that contains the marks. No lock's name
// may have it as a segment.
const marksSegment = "_held_"

// asksSegment is the directory under the root that contains the mailboxes. No lock's
// name may have it as a segment.
const asksSegment = "_asks_"
