// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/realzk"
)

// Where Debian installs Apache Curator and ZooKeeper. The first two jars name what they
// depend on.
const (
	jars      = "/usr/share/java/"
	classpath = jars + "curator-recipes.jar:" + jars + "zookeeper.jar:" + jars + "slf4j-nop.jar"
)

const java = `
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryOneTime;

final class Block {
    public static void main(String[] args) throws Exception {
        try (CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], new RetryOneTime(100))) {
            client.start();
            run(client);
        }
    }

    static void work() {
        System.out.println("worked");
    }

    static void run(CuratorFramework client) throws Exception {
BLOCK
    }
}
`

const python = `
import sys
from kazoo.client import KazooClient

def work():
    print("worked")

client = KazooClient(hosts=sys.argv[1])
client.start()
BLOCK
client.stop()
`

// runJava runs a block inside a Java program.
func runJava(t *testing.T, b block) {
	if _, err := os.Stat(jars + "curator-recipes.jar"); err != nil {
		realzk.NotRun(t, "Apache Curator is not installed (Debian: apt-get install libcurator-recipes-java)")
	}
	program, err := exec.LookPath("java")
	if home := os.Getenv("JAVA_HOME"); home != "" {
		program, err = filepath.Join(home, "bin", "java"), nil
	}
	if err != nil {
		realzk.NotRun(t, "java is not installed (Debian: apt-get install default-jdk-headless)")
	}
	runClient(t, b, java, "Block.java", program, "-cp", classpath)
}

// runPython runs a block inside a Python program, by the python3 that has kazoo.
func runPython(t *testing.T, b block) {
	for _, program := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(program, "-c", "import kazoo").Run() == nil {
			runClient(t, b, python, "block.py", program)
			return
		}
	}
	realzk.NotRun(t, "kazoo is not installed (Debian: apt-get install python3-kazoo)")
}

// runClient runs a program with the block in it on a server of its own.
func runClient(t *testing.T, b block, around, name string, args ...string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	write(t, file, strings.Replace(around, "BLOCK\n", b.text, 1))
	out, err := command(t, append(args, file, listen(t, server(t)))...)
	if err != nil || !strings.Contains(out, "worked") {
		t.Errorf("%s:%d: %v\n%s", b.file, b.line, err, out)
	}
}
