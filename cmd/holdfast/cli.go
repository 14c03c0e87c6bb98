// SPDX-License-Identifier: Apache-2.0

package main

import "time"

// cli is the command line: the global flags, and a field for each verb.
type cli struct {
	globals

	Run    runCmd    `cmd:"" help:"Run a program while holding a lock."`
	Elect  electCmd  `cmd:"" help:"Run a program while this process is the elected leader."`
	Cron   cronCmd   `cmd:"" help:"Run a program at planned times, on one of several machines."`
	Ls     lsCmd     `cmd:"" help:"List the locks, with holders and waiters."`
	Who    whoCmd    `cmd:"" help:"Show the queue of a lock: which processes hold it and which wait."`
	Watch  watchCmd  `cmd:"" help:"Follow the holder and the queue of a lock as they change."`
	Top    topCmd    `cmd:"" help:"Show the busy locks in a live table."`
	Ps     psCmd     `cmd:"" help:"List the processes that use Holdfast."`
	Ask    askCmd    `cmd:"" help:"Put a question to the process that holds a lock."`
	Revoke revokeCmd `cmd:"" help:"Ask the process that holds a lock to give it up, and wait until it has."`
	Break  breakCmd  `cmd:"" help:"Delete the node of a lock's holder."`

	Queue   queueCmd   `cmd:"" help:"Put elements into a queue, take them, and list them."`
	Members membersCmd `cmd:"" help:"List the members of a group."`
	Shards  shardsCmd  `cmd:"" help:"List the shards of divided work, with their owners."`

	Agent  agentCmd  `cmd:"" help:"Close the sessions of other processes that have been killed, so that their locks are free at once."`
	Doctor doctorCmd `cmd:"" help:"Check an ensemble for use with Holdfast."`
	Server serverCmd `cmd:"" help:"Serve an embedded ZooKeeper, for development."`

	Completion completionCmd `cmd:"" help:"Print a shell's completion script."`
	Man        manCmd        `cmd:"" help:"Print a manual page."`
	Version    versionCmd    `cmd:"" help:"Print the version."`
}

// globals are the flags that every verb has. Each is also a variable in the
// environment.
type globals struct {
	Servers        string        `group:"global" env:"HOLDFAST_SERVERS" default:"127.0.0.1:2181" help:"ZooKeeper's servers, as host:port separated by commas; a chroot may follow, as in zk1,zk2/prod (${env})."`
	Root           string        `group:"global" env:"HOLDFAST_ROOT" default:"/holdfast" help:"The path that the locks are under (${env})."`
	CreateChroot   bool          `group:"global" env:"HOLDFAST_CREATE_CHROOT" help:"Create the chroot of --servers if there is none, in verbs that make nodes, instead of refusing it (${env})."`
	SessionTimeout time.Duration `group:"global" env:"HOLDFAST_SESSION_TIMEOUT" default:"10s" help:"How long ZooKeeper keeps the locks of a process that it does not hear from (${env})."`
	ConnectTimeout time.Duration `group:"global" env:"HOLDFAST_CONNECT_TIMEOUT" default:"10s" help:"How long to try to reach a server (${env})."`
	TLS            bool          `group:"global" name:"tls" env:"HOLDFAST_TLS" help:"Use TLS; each of the other flags for TLS implies it (${env})."`
	TLSCA          string        `group:"global" name:"tls-ca" env:"HOLDFAST_TLS_CA" placeholder:"FILE" help:"The authorities that servers' certificates must be from, as PEM; the system's by default (${env})."`
	TLSCert        string        `group:"global" name:"tls-cert" env:"HOLDFAST_TLS_CERT" placeholder:"FILE" help:"The certificate to show to servers, as PEM (${env})."`
	TLSKey         string        `group:"global" name:"tls-key" env:"HOLDFAST_TLS_KEY" placeholder:"FILE" help:"Its key, as PEM (${env})."`
	TLSServerName  string        `group:"global" name:"tls-server-name" env:"HOLDFAST_TLS_SERVER_NAME" placeholder:"NAME" help:"The name that servers' certificates must have; each server's host by default (${env})."`
	AuthFile       string        `group:"global" env:"HOLDFAST_AUTH_FILE" placeholder:"FILE" help:"A file with user:password for ZooKeeper's digest authentication; HOLDFAST_AUTH can hold user:password itself (${env})."`
	ACL            string        `group:"global" name:"acl" env:"HOLDFAST_ACL" enum:"open,readable,private" default:"open" help:"What clients without these credentials may do with nodes that are created: everything (open), read (readable) or nothing (private) (${env})."`
	LogLevel       string        `group:"global" env:"HOLDFAST_LOG_LEVEL" enum:"debug,info,warn,error" default:"warn" help:"What to log to standard error: debug, info, warn or error (${env})."`
	JSON           bool          `group:"global" name:"json" env:"HOLDFAST_JSON" help:"Print facts as JSON (${env})."`
}
