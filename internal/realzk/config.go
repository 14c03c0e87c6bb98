// SPDX-License-Identifier: Apache-2.0

package realzk

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// Config configures a server. Options change it.
type Config struct {
	// TickTime is ZooKeeper's unit of time: sessions expire at its multiples. It
	// defaults to 500 ms, with which session timeouts can be as short as 1 s.
	TickTime time.Duration
	// MinSessionTimeout is the least session timeout that clients can negotiate. It
	// defaults to 2 × TickTime, as in ZooKeeper.
	MinSessionTimeout time.Duration
	// MaxSessionTimeout is the greatest session timeout that clients can negotiate.
	// It defaults to 60 s; ZooKeeper's default is 20 × TickTime.
	MaxSessionTimeout time.Duration
	// Lines are further lines of the configuration file. They override others with
	// the same key.
	Lines []string
	// JavaOptions are further arguments of the JVM. They override others.
	JavaOptions []string
	// Dir is the directory of the server's files, which the caller removes. It
	// defaults to one that Stop removes or, in a test, to t.TempDir.
	Dir string
	// StartTimeout bounds the wait for a started server to serve. It defaults to
	// 60 s.
	StartTimeout time.Duration

	// Port is the port for clients. It defaults to a free one.
	Port int

	// ownGroup starts the server in its own process group on every Unix, so that
	// Ctrl-C reaches only the command, which then stops the server.
	ownGroup bool
	// members are further options of single members of an ensemble, by their id.
	members map[int][]Option
	// id is the server's number in its ensemble, from 1, or 0 without an ensemble.
	// In an ensemble Lines list all servers with their ports, and Port is that for
	// clients.
	id int
}

// An Option changes the Config of a server.
type Option func(*Config)

// TickTime sets [Config.TickTime].
func TickTime(d time.Duration) Option { return func(c *Config) { c.TickTime = d } }

// SessionTimeouts sets the bounds of the session timeouts that clients can negotiate.
func SessionTimeouts(minimum, maximum time.Duration) Option {
	return func(c *Config) { c.MinSessionTimeout, c.MaxSessionTimeout = minimum, maximum }
}

// ConfigLine adds a line to the configuration file, such as "maxClientCnxns=3".
func ConfigLine(line string) Option {
	return func(c *Config) { c.Lines = append(c.Lines, line) }
}

// JavaOption adds an argument of the JVM, such as
// "-Dznode.container.checkIntervalMs=200", with which the server looks for empty
// container nodes five times a second.
func JavaOption(arg string) Option {
	return func(c *Config) { c.JavaOptions = append(c.JavaOptions, arg) }
}

// Member applies opt to only one server of an ensemble, the one with this number. Numbers
// begin at 1.
func Member(id int, opt Option) Option {
	return func(c *Config) {
		if c.members == nil {
			c.members = make(map[int][]Option)
		}
		c.members[id] = append(c.members[id], opt)
	}
}

// Port sets [Config.Port].
func Port(port int) Option { return func(c *Config) { c.Port = port } }

// Dir sets [Config.Dir].
func Dir(dir string) Option { return func(c *Config) { c.Dir = dir } }

// newConfig applies opts and then the defaults.
func newConfig(opts []Option) Config {
	var c Config
	for _, opt := range opts {
		opt(&c)
	}
	if c.TickTime == 0 {
		c.TickTime = 500 * time.Millisecond
	}
	if c.MinSessionTimeout == 0 {
		c.MinSessionTimeout = 2 * c.TickTime
	}
	if c.MaxSessionTimeout == 0 {
		c.MaxSessionTimeout = 60 * time.Second
	}
	if c.StartTimeout == 0 {
		c.StartTimeout = 60 * time.Second
	}
	return c
}

// file returns the configuration file of a server in dir that listens on port.
func (c Config) file(dir string, port int) string {
	lines := []string{
		fmt.Sprintf("tickTime=%d", c.TickTime.Milliseconds()),
		fmt.Sprintf("minSessionTimeout=%d", c.MinSessionTimeout.Milliseconds()),
		fmt.Sprintf("maxSessionTimeout=%d", c.MaxSessionTimeout.Milliseconds()),
		// In Java's properties format, a backslash escapes.
		"dataDir=" + filepath.ToSlash(dataDir(dir)),
		"clientPortAddress=127.0.0.1",
		fmt.Sprintf("clientPort=%d", port),
		// The default is 60 for each address, and all clients have the same.
		"maxClientCnxns=0",
		"admin.enableServer=false",
		"4lw.commands.whitelist=*",
		// Without forcing to disk, only a crash of the machine loses data.
		"forceSync=no",
		// In KiB. By default each transaction log takes 64 MiB.
		"preAllocSize=1024",
		// A server removes old snapshots and transaction logs only if told to, each hour: in
		// a run of a day they would fill the disk.
		"autopurge.purgeInterval=1",
		"autopurge.snapRetainCount=3",
	}
	lines = append(lines, c.Lines...)
	return strings.Join(lines, "\n") + "\n"
}

// javaArgs returns the arguments of java for a server in dir.
func (c Config) javaArgs(in Installation, dir string) []string {
	args := []string{
		"-Xmx128m",
		// These start quickly and suit a small machine.
		"-XX:+UseSerialGC",
		"-XX:TieredStopAtLevel=1",
		"-XX:-UsePerfData",
		"-Dzookeeper.jmx.log4j.disable=true",
		"-cp", dir + string(filepath.ListSeparator) + in.Classpath,
	}
	args = append(args, c.JavaOptions...)
	return append(args, "org.apache.zookeeper.server.quorum.QuorumPeerMain", configFile(dir))
}

func dataDir(dir string) string    { return filepath.Join(dir, "data") }
func logFile(dir string) string    { return filepath.Join(dir, "zookeeper.log") }
func configFile(dir string) string { return filepath.Join(dir, "zoo.cfg") }
func idFile(dir string) string     { return filepath.Join(dataDir(dir), "myid") }

// loggingFiles configure the logging libraries of the various ZooKeeper releases to
// write from level INFO up to standard output or error. By default, some log
// everything and some nothing.
var loggingFiles = map[string]string{
	"simplelogger.properties": `org.slf4j.simpleLogger.defaultLogLevel=info
org.slf4j.simpleLogger.showDateTime=true
org.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS
`,
	"log4j.properties": `log4j.rootLogger=INFO, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{HH:mm:ss.SSS} [%t] %p %c - %m%n
`,
	"logback.xml": `<configuration>
  <appender name="console" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{HH:mm:ss.SSS} [%thread] %level %logger - %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="console"/></root>
</configuration>
`,
}
