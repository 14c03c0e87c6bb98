// SPDX-License-Identifier: Apache-2.0

package zktest

import "strings"

// validPath reports whether ZooKeeper accepts path as the name of a node:
// absolute, without a trailing slash, without empty, "." and ".." segments, and
// without control, surrogate and private-use characters. Bytes that are not UTF-8
// read as U+FFFD, which is not allowed either.
func validPath(path string) bool {
	if path == "/" {
		return true
	}
	if !strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/") {
		return false
	}
	for _, r := range path {
		switch {
		case r <= 0x1f, r >= 0x7f && r <= 0x9f, r >= 0xd800 && r <= 0xf8ff, r >= 0xfff0:
			return false
		}
	}
	for seg := range strings.SplitSeq(path[1:], "/") {
		if seg == "" || seg == "." || seg == ".." {
			return false
		}
	}
	return true
}

// parentOf returns the path above path, "/" for a top-level one. It reports
// false for a path without a slash or with a NUL. Like the real server, whose
// order of checks shows in its error codes, it does not check anything else:
// "a/b" is a child of "a", which does not exist.
func parentOf(path string) (parent string, ok bool) {
	i := strings.LastIndexByte(path, '/')
	switch {
	case i < 0 || strings.IndexByte(path, 0) >= 0:
		return "", false
	case i == 0:
		return "/", true
	}
	return path[:i], true
}

// special reports whether path is one of the server's own nodes, which cannot be
// deleted.
func special(path string) bool {
	switch path {
	case "/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config":
		return true
	}
	return false
}
