// SPDX-License-Identifier: Apache-2.0

import java.io.BufferedReader;
import java.io.InputStreamReader;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.retry.RetryOneTime;

/**
 * A process that uses Apache Curator's DistributedBarrier, told by a test what to do.
 *
 * <p>The argument is the address of a ZooKeeper server. Each line of the input is a command
 * and a path, and is answered by the same line once it is done:
 *
 * <ul>
 *   <li>{@code set path}: shuts the barrier.
 *   <li>{@code remove path}: opens it.
 *   <li>{@code wait path}: waits until it is open, on a thread of its own.
 * </ul>
 */
public final class Barriers {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        try (CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], 10_000, 10_000, new RetryOneTime(100))) {
            client.start();
            client.blockUntilConnected();
            for (String line; (line = in.readLine()) != null; ) {
                String command = line;
                DistributedBarrier barrier = new DistributedBarrier(client, line.split(" ")[1]);
                switch (line.split(" ")[0]) {
                    case "set":
                        barrier.setBarrier();
                        say(line);
                        break;
                    case "remove":
                        barrier.removeBarrier();
                        say(line);
                        break;
                    default:
                        Thread waiter = new Thread(() -> {
                            try {
                                barrier.waitOnBarrier();
                                say(command);
                            } catch (Exception e) {
                                say("failed: " + e);
                            }
                        });
                        waiter.setDaemon(true);
                        waiter.start();
                }
            }
        }
        System.exit(0);
    }

    private static synchronized void say(String answer) {
        System.out.println(answer);
        System.out.flush();
    }
}
