// SPDX-License-Identifier: Apache-2.0

package jute

// The operation codes of a request's header.
const (
	OpNotify               int32 = 0
	OpCreate               int32 = 1
	OpDelete               int32 = 2
	OpExists               int32 = 3
	OpGetData              int32 = 4
	OpSetData              int32 = 5
	OpGetACL               int32 = 6
	OpSetACL               int32 = 7
	OpGetChildren          int32 = 8
	OpSync                 int32 = 9
	OpPing                 int32 = 11
	OpGetChildren2         int32 = 12
	OpCheck                int32 = 13
	OpMulti                int32 = 14
	OpCreate2              int32 = 15
	OpReconfig             int32 = 16
	OpCheckWatches         int32 = 17
	OpRemoveWatches        int32 = 18
	OpCreateContainer      int32 = 19
	OpDeleteContainer      int32 = 20
	OpCreateTTL            int32 = 21
	OpMultiRead            int32 = 22
	OpAuth                 int32 = 100
	OpSetWatches           int32 = 101
	OpSASL                 int32 = 102
	OpGetEphemerals        int32 = 103
	OpGetAllChildrenNumber int32 = 104
	OpSetWatches2          int32 = 105
	OpAddWatch             int32 = 106
	OpWhoAmI               int32 = 107
	OpClose                int32 = -11
	OpError                int32 = -1
)

// The transaction ids (xid) with a meaning of their own.
const (
	XidWatchEvent int32 = -1
	XidPing       int32 = -2
	XidAuth       int32 = -4
	XidSetWatches int32 = -8
)

// The error codes of a reply's header.
const (
	ErrOK                       int32 = 0
	ErrSystem                   int32 = -1
	ErrRuntimeInconsistency     int32 = -2
	ErrConnectionLoss           int32 = -4
	ErrMarshalling              int32 = -5
	ErrUnimplemented            int32 = -6
	ErrOperationTimeout         int32 = -7
	ErrBadArguments             int32 = -8
	ErrUnknownSession           int32 = -12
	ErrNoNode                   int32 = -101
	ErrNoAuth                   int32 = -102
	ErrBadVersion               int32 = -103
	ErrNoChildrenForEphemerals  int32 = -108
	ErrNodeExists               int32 = -110
	ErrNotEmpty                 int32 = -111
	ErrSessionExpired           int32 = -112
	ErrInvalidCallback          int32 = -113
	ErrInvalidACL               int32 = -114
	ErrAuthFailed               int32 = -115
	ErrSessionMoved             int32 = -118
	ErrNotReadOnly              int32 = -119
	ErrEphemeralOnLocalSession  int32 = -120
	ErrNoWatcher                int32 = -121
	ErrRequestTimeout           int32 = -122
	ErrReconfigDisabled         int32 = -123
	ErrSessionClosedRequireSASL int32 = -124
	ErrQuotaExceeded            int32 = -125
	ErrThrottledOp              int32 = -127
)

// The flags of a create request.
const (
	FlagPersistent              int32 = 0
	FlagEphemeral               int32 = 1
	FlagPersistentSequential    int32 = 2
	FlagEphemeralSequential     int32 = 3
	FlagContainer               int32 = 4
	FlagPersistentTTL           int32 = 5
	FlagPersistentSequentialTTL int32 = 6
)

// The kinds of a watch event.
const (
	EventNodeCreated         int32 = 1
	EventNodeDeleted         int32 = 2
	EventNodeDataChanged     int32 = 3
	EventNodeChildrenChanged int32 = 4
)
