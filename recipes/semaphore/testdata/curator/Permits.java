// SPDX-License-Identifier: Apache-2.0

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.retry.RetryOneTime;

/**
 * Users of Apache Curator's InterProcessSemaphoreV2, told by a test what to do.
 *
 * <p>The argument is the address of a ZooKeeper server. Each line of the input is
 * {@code client command}; a client is a session and a thread of its own, which begins with its
 * first line. Each line of the output is {@code client answer}. The end of the input ends the
 * program.
 *
 * <ul>
 *   <li>{@code open path N}: the semaphore that the following commands are about, which has N
 *       permits if ZooKeeper has no number yet. Answers {@code opened N} with the number that
 *       it has.
 *   <li>{@code loop times}: acquires a permit and returns it so often. While it has the
 *       permit it says {@code enter} and {@code leave}, and goes on after each when it reads
 *       {@code ok}. Answers {@code done} at the end.
 *   <li>{@code acquire}: acquires a permit and answers {@code acquired}.
 *   <li>{@code return}: returns it and answers {@code returned}.
 *   <li>{@code resize N}: sets the number of permits, and answers {@code resized}.
 * </ul>
 */
public final class Permits {
    private static final Map<String, Permits> ALL = new HashMap<>();

    private final String name;
    private final String server;
    private final BlockingQueue<String> lines = new LinkedBlockingQueue<>();

    private Permits(String name, String server) {
        this.name = name;
        this.server = server;
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.split(" ", 2);
            Permits p = ALL.get(words[0]);
            if (p == null) {
                p = new Permits(words[0], args[0]);
                ALL.put(words[0], p);
                Thread thread = new Thread(p::run, words[0]);
                thread.setDaemon(true);
                thread.start();
            }
            p.lines.add(words[1]);
        }
        System.exit(0);
    }

    private void say(String answer) {
        synchronized (System.out) {
            System.out.println(name + " " + answer);
            System.out.flush();
        }
    }

    private void run() {
        try (CuratorFramework client = CuratorFrameworkFactory.newClient(server, 10_000, 10_000, new RetryOneTime(100))) {
            client.start();
            client.blockUntilConnected();
            SharedCount count = null;
            InterProcessSemaphoreV2 semaphore = null;
            Lease lease = null;
            while (true) {
                String[] words = lines.take().split(" ");
                switch (words[0]) {
                    case "open":
                        count = new SharedCount(client, words[1] + "/permits", Integer.parseInt(words[2]));
                        count.start();
                        semaphore = new InterProcessSemaphoreV2(client, words[1], count);
                        say("opened " + count.getCount());
                        break;
                    case "loop":
                        for (int i = Integer.parseInt(words[1]); i > 0; i--) {
                            lease = semaphore.acquire();
                            say("enter");
                            lines.take();
                            say("leave");
                            lines.take();
                            semaphore.returnLease(lease);
                        }
                        say("done");
                        break;
                    case "acquire":
                        lease = semaphore.acquire();
                        say("acquired");
                        break;
                    case "return":
                        semaphore.returnLease(lease);
                        say("returned");
                        break;
                    case "resize":
                        count.setCount(Integer.parseInt(words[1]));
                        say("resized");
                        break;
                    default:
                        throw new IllegalArgumentException(words[0]);
                }
            }
        } catch (Exception e) {
            say("failed " + e);
        }
    }
}
