// SPDX-License-Identifier: Apache-2.0

package realzk

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// Config is what a server is started with. It is changed by Options.
type Config struct {
	// TickTime is ZooKeeper's unit of time: sessions end on its multiples.
	// Defaults to 500 ms, which lets a session time out after one second.
	TickTime time.Duration
	// MinSessionTimeout bounds what clients may negotiate, from below.
	// Defaults to 2 × TickTime, as in ZooKeeper.
	MinSessionTimeout time.Duration
	// MaxSessionTimeout bounds what clients may negotiate, from above.
	// Defaults to 60 s (ZooKeeper's own default is 20 × TickTime).
	MaxSessionTimeout time.Duration
	// Lines are further lines of the configuration file. They come last, and
	// of two lines with the same key ZooKeeper takes the last.
	Lines []string
	// JavaOptions are further arguments of the JVM.
	// They come last, and the JVM too takes the last.
	JavaOptions []string
	// Dir is where the server keeps its files. The caller removes it.
	// Defaults to a directory that Stop removes; in tests, to the test's.
	Dir string
	// StartTimeout bounds the wait until a started server serves.
	// Defaults to 60 s.
	StartTimeout time.Duration

	// ownGroup puts the server into a process group of its own on every unix,
	// so that Ctrl-C reaches only the command, which then stops the server.
	ownGroup bool
	// id is the server's number in its ensemble, from 1; 0 if it is alone. In
	// an ensemble the Lines name all the servers, and port is the one for
	// clients, which is chosen with those in the Lines; alone, run chooses it.
	id, port int
}

// An Option changes the Config of a server.
type Option func(*Config)

// TickTime sets [Config.TickTime].
func TickTime(d time.Duration) Option { return func(c *Config) { c.TickTime = d } }

// SessionTimeouts sets the bounds between which clients may negotiate.
func SessionTimeouts(minimum, maximum time.Duration) Option {
	return func(c *Config) { c.MinSessionTimeout, c.MaxSessionTimeout = minimum, maximum }
}

// ConfigLine adds a line to the server's configuration file, such as
// "maxClientCnxns=3".
func ConfigLine(line string) Option {
	return func(c *Config) { c.Lines = append(c.Lines, line) }
}

// JavaOption adds an argument of the JVM, such as
// "-Dznode.container.checkIntervalMs=200", which makes the server look for
// empty container nodes five times a second.
func JavaOption(arg string) Option {
	return func(c *Config) { c.JavaOptions = append(c.JavaOptions, arg) }
}

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

// file returns the text of the configuration file of a server in dir that
// listens on port.
func (c Config) file(dir string, port int) string {
	lines := []string{
		fmt.Sprintf("tickTime=%d", c.TickTime.Milliseconds()),
		fmt.Sprintf("minSessionTimeout=%d", c.MinSessionTimeout.Milliseconds()),
		fmt.Sprintf("maxSessionTimeout=%d", c.MaxSessionTimeout.Milliseconds()),
		// The file is in Java's properties format, where a backslash escapes.
		"dataDir=" + filepath.ToSlash(dataDir(dir)),
		"clientPortAddress=127.0.0.1",
		fmt.Sprintf("clientPort=%d", port),
		// All clients come from one address; 60 of them are the default bound.
		"maxClientCnxns=0",
		"admin.enableServer=false",
		"4lw.commands.whitelist=*",
		// Only a crash of the machine could lose what was not forced to disk.
		"forceSync=no",
		// In kB; the default makes a transaction log of 64 MB for every server.
		"preAllocSize=1024",
	}
	lines = append(lines, c.Lines...)
	return strings.Join(lines, "\n") + "\n"
}

// javaArgs returns the arguments of the java command of a server in dir.
func (c Config) javaArgs(in Installation, dir string) []string {
	args := []string{
		"-Xmx128m",
		// Quick to start and light on a small machine, which is what counts here.
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

// loggingFiles configure the logging libraries that one or the other
// ZooKeeper release has on its classpath: informational and up, to the
// standard output or error. Without them some say everything and some nothing.
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
